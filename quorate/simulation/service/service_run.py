"""A seed of a service: clients use it while it is broken and healed, and their answers are checked."""

import math
import random
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic

import trio

from quorate.raft import QuorumError
from quorate.simulation.cluster_run import Clients, ClusterRun, derived
from quorate.simulation.histories.linearizability import (
    UNKNOWN,
    Answer,
    Model,
    Operation,
    Request,
    State,
    Unknown,
    check_history,
)
from quorate.simulation.patience import holds_within
from quorate.simulation.quorum.quorum_cluster import QuorumNode
from quorate.simulation.quorum.quorum_faults import QuorumFaults
from quorate.simulation.quorum.quorum_run import QuorumRunSettings, break_and_heal
from quorate.simulation.service.service_cluster import Machine, ServiceCluster, ServiceNode
from quorate.simulation.violations import LivenessViolation
from quorate.simulation.world.scheduler import Scheduler

_CALL_SECONDS: Final = 5.0
"""The time after which a client no longer waits for a call, and makes another one."""
_LAST_READS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload(Generic[Machine, State, Request, Answer]):
    """The clients' calls, and the model that their answers are checked with."""

    state_machine: Callable[[], Machine]
    model: Model[State, Request, Answer]
    draw: Callable[[random.Random], Request]
    call: Callable[[ServiceNode[Machine], Request], Awaitable[Answer]]
    key: Callable[[Request], Hashable] | None
    clients: int


@dataclass(slots=True)
class _Call(Generic[Request, Answer]):
    client: str
    request: Request
    invoked_at: float
    answer: Answer | Unknown = UNKNOWN
    returned_at: float = math.inf
    mistake: Exception | None = None
    ended: trio.Event = field(default_factory=trio.Event)

    def operation(self) -> Operation[Request, Answer]:
        return Operation(
            client=self.client,
            request=self.request,
            answer=self.answer,
            invoked_at=self.invoked_at,
            returned_at=self.returned_at,
        )


class _ServiceClients(Clients[ServiceCluster[Machine]], Generic[Machine, State, Request, Answer]):
    def __init__(
        self,
        cluster: ServiceCluster[Machine],
        workload: Workload[Machine, State, Request, Answer],
        think_max_s: float,
        source: random.Random,
    ) -> None:
        super().__init__(cluster, source)
        self._workload = workload
        self._think_max_s = think_max_s
        self.calls: list[_Call[Request, Answer]] = []

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(1, self._workload.clients + 1):
                nursery.start_soon(self._client, f"client-{number}", self._derived())

    async def _client(self, name: str, source: random.Random) -> None:
        while not self._finish.is_set():
            running = list(self._cluster.running)
            if running:
                await self.ask(name, source.choice(running), self._workload.draw(source))
            await self._pause(source, self._think_max_s)

    async def ask(self, client: str, node: QuorumNode, request: Request) -> None:
        """Make a call at a node. Return when it has ended, or no longer wait. Raises the errors of the call
        that are none of the quorum's."""
        call: _Call[Request, Answer] = _Call(client, request, trio.current_time())
        self.calls.append(call)
        self._cluster.trace.add(client, f"{request} at {node.name}")
        life = node.life

        async def answer(at: ServiceNode[Machine]) -> None:
            try:
                told = await self._workload.call(at, request)
            except QuorumError as error:
                # It may have had an effect: a call may append more than once.
                self._cluster.trace.add(client, f"{request} -> {type(error).__name__}: {error}")
            except Exception as error:
                call.mistake = error
            else:
                if node.alive and node.life == life:
                    call.answer, call.returned_at = told, trio.current_time()
                    self._cluster.trace.add(client, f"{request} -> {told}")
            finally:
                call.ended.set()

        self._cluster.serve(node, answer)
        with trio.move_on_after(_CALL_SECONDS):
            await call.ended.wait()
        if call.mistake is not None:
            raise call.mistake

    async def read_everywhere(self, source: random.Random) -> None:
        """Ask every node for what clients read, now that nothing else happens."""
        drawn = (self._workload.draw(source) for _ in range(10 * _LAST_READS))
        reads = [request for request in drawn if self._workload.model.is_read(request)]
        for node in list(self._cluster.running):
            for request in reads[:_LAST_READS]:
                await self.ask("last-reader", node, request)

    async def wait_ended(self, within_s: float) -> None:
        """Return when every call has ended. Raises `LivenessViolation`."""
        if not await holds_within(within_s, lambda: all(call.ended.is_set() for call in self.calls)):
            late = next(call for call in self.calls if not call.ended.is_set())
            raise LivenessViolation(
                f"call still waits: {late.request} of {late.client}, begun at {late.invoked_at:g} s, has no "
                f"end {within_s:g} s after the last fault"
            )

    def check(self, *, explain: bool) -> None:
        """Raise `SafetyViolation` unless one order of all calls explains every answer. `explain`: with what
        contradicts."""
        model = self._workload.model
        operations = [
            call.operation()
            for call in self.calls
            if call.answer is not UNKNOWN or not model.is_read(call.request)
        ]
        check_history(model, operations, key=self._workload.key, explain=explain).require()


class ServiceRun(
    ClusterRun[QuorumRunSettings, ServiceCluster[Machine], Sequence[str]],
    Generic[Machine, State, Request, Answer],
):
    """A seed's run of a service. Its result: the kinds of faults that it had."""

    name = "service"
    limit_s = 600.0

    def __init__(
        self,
        seed: int,
        settings: QuorumRunSettings,
        workload: Workload[Machine, State, Request, Answer],
        *,
        explain: bool = True,
        show: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(seed, settings, show=show)
        self._workload = workload
        self._explain = explain

    def _cluster(
        self, source: random.Random, scheduler: Scheduler, nursery: trio.Nursery
    ) -> ServiceCluster[Machine]:
        return ServiceCluster(
            self._workload.state_machine,
            self.settings.drawn_cluster,
            source,
            scheduler,
            nursery,
            self.trace,
        )

    async def _phases(self, cluster: ServiceCluster[Machine], source: random.Random) -> Sequence[str]:
        settings = self.settings
        await cluster.boot()
        clients = _ServiceClients(cluster, self._workload, settings.clients.think_max_s, derived(source))
        faults = QuorumFaults(cluster, settings.faults, derived(source))
        await break_and_heal(cluster, clients, faults, settings)
        await clients.wait_ended(settings.patience_s)
        await self._settle(cluster, clients, source)
        if settings.blackout_at_end:
            await cluster.crash(*cluster.nodes, power_loss=True)
            await cluster.start_all()
            await self._settle(cluster, clients, source)
        clients.check(explain=self._explain)
        return sorted(fault.value for fault in faults.counts)

    async def _settle(
        self,
        cluster: ServiceCluster[Machine],
        clients: _ServiceClients[Machine, State, Request, Answer],
        source: random.Random,
    ) -> None:
        await cluster.converge(within_s=self.settings.patience_s)
        await clients.read_everywhere(source)
        cluster.compare_replicas()
