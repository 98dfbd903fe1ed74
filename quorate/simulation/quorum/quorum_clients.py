"""Clients of a simulated quorum: each appends, one call after another, and records the answers."""

import random
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import trio

from quorate.client import Client
from quorate.raft import (
    Appended,
    LeaderNotFoundError,
    NotLeaderError,
    OutcomeUnknownError,
    QuorumBusyError,
    QuorumError,
    QuorumStoppedError,
    Session,
    SessionLimits,
    SessionLostError,
)
from quorate.raft.sessions.session import Appender
from quorate.raft.transport.channel import Channel
from quorate.runtime import Address, NetworkError
from quorate.simulation.cluster_run import Clients, derived, draw_records
from quorate.simulation.histories.history import (
    AppendCall,
    AppendOutcome,
    BoundedRead,
    ClientRead,
    History,
)
from quorate.simulation.quorum.quorum_cluster import CLIENT_PORT, CLUSTER_ID, QuorumCluster, QuorumNode
from quorate.simulation.violations import SafetyViolation
from quorate.types import Epoch, NodeId, Offset

_FRAME_BYTES = 16 * 1024 * 1024
_STALENESS_MS = (0, 100, 1000, 3000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """`in_process`: clients that call `Quorum.append` on a node; `remote`: clients on hosts of their own."""

    in_process: int = 2
    remote: int = 1
    readers: int = 1
    """Clients that ask any node for linearizable reads."""
    bounded_readers: int = 0
    """Clients that ask any node for reads of bounded staleness. The bound is by the clocks of the nodes, so
    they have to go at one rate."""
    remote_readers: int = 0
    """Clients on hosts of their own that read at the leader."""
    watchers: int = 0
    """Clients that watch, on hosts of their own."""
    think_max_s: float = 0.2
    timeout_s: float = 4.0
    records_max: int = 3
    padding_max: int = 200
    sessions: bool = False
    """The clients append in sessions, and so repeat what has an unknown outcome."""
    session_limits: SessionLimits = field(default_factory=SessionLimits)


class _AnyNode:
    """`Appender` that calls `Quorum.append` in the process of a node that runs, of another one each time."""

    def __init__(self, cluster: QuorumCluster, source: random.Random) -> None:
        self._cluster = cluster
        self._source = source

    async def append(self, records: Sequence[bytes], *, timeout_ms: int = 10_000) -> Appended[object]:
        cluster = self._cluster
        running = list(cluster.running)
        if not running:
            raise NotLeaderError(leader=None, epoch=Epoch(0), problem="no node runs")
        call = _Call(self._source.choice(running), records, timeout_ms)
        with cluster.scheduler.process(call.node.name):
            cluster.spawn(call.run)
        with trio.move_on_after(timeout_ms / 1000 + 1):
            await call.done.wait()
        if call.error is not None:
            raise call.error
        if call.appended is None:
            raise OutcomeUnknownError(f"{call.node.name} gave no answer")
        return call.appended


class _Call:
    """An append in the process of a node. One that was killed gives no answer."""

    def __init__(self, node: QuorumNode, records: Sequence[bytes], timeout_ms: int) -> None:
        self.node = node
        self.done = trio.Event()
        self.appended: Appended[object] | None = None
        self.error: QuorumError | None = None
        self._records = records
        self._timeout_ms = timeout_ms

    async def run(self) -> None:
        node = self.node
        quorum, life = node.quorum, node.life
        if quorum is not None and node.alive:
            try:
                appended = await quorum.append(self._records, timeout_ms=self._timeout_ms)
            except QuorumError as error:
                if _still_lives(node, life):
                    self.error = error
            else:
                if _still_lives(node, life):
                    self.appended = appended
        self.done.set()


def _still_lives(node: QuorumNode, life: int) -> bool:
    """Return whether the process still lives; otherwise the call got no answer."""
    return node.alive and node.life == life


def outside_client(
    cluster: QuorumCluster, host: str, source: random.Random
) -> AbstractAsyncContextManager[Client]:
    """Open a client on a host of its own, which knows all nodes: any may become a voter, and lead."""
    addresses = [Address(node.name, CLIENT_PORT) for node in cluster.voters]
    source.shuffle(addresses)
    addresses += [Address(node.name, CLIENT_PORT) for node in cluster.nodes[len(addresses) :]]
    return Client.open(addresses, network=cluster.network.for_node(host))


class AppendingClients(Clients[QuorumCluster]):
    def __init__(
        self, cluster: QuorumCluster, history: History, settings: ClientSettings, source: random.Random
    ) -> None:
        super().__init__(cluster, source)
        self._history = history
        self._settings = settings

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(1, self._settings.in_process + 1):
                client = f"caller-{number}"
                nursery.start_soon(self._call, client, self._derived())
            for number in range(1, self._settings.remote + 1):
                client = f"client-{number}"
                send = self._send_in_session if self._settings.sessions else self._send
                nursery.start_soon(send, client, self._derived())
            for number in range(1, self._settings.readers + 1):
                client = f"reader-{number}"
                nursery.start_soon(self._read, client, self._derived(), (None,))
            for number in range(1, self._settings.bounded_readers + 1):
                nursery.start_soon(self._read, f"bounded-{number}", self._derived(), _STALENESS_MS)
            for number in range(1, self._settings.remote_readers + 1):
                nursery.start_soon(self._read_at_leader, f"outside-{number}", self._derived())

    def _begin(self, client: str, source: random.Random) -> AppendCall:
        self._cluster.check_leaders()
        number = len(self._history.appends)
        settings = self._settings
        records = draw_records(
            client, number, source, records_max=settings.records_max, padding_max=settings.padding_max
        )
        self._cluster.trace.add(client, f"append {number}")
        return self._history.invoke(client, records, trio.current_time())

    async def _think(self, source: random.Random) -> None:
        await self._pause(source, self._settings.think_max_s)

    def _acknowledged(self, append: AppendCall, base_offset: Offset, epoch: Epoch) -> None:
        self._history.acknowledge(append, base_offset, epoch, trio.current_time())
        self._cluster.trace.add(append.client, f"acknowledged at {base_offset} in epoch {epoch}")
        piece_end_offset = self._cluster.checker.committed.end_offset
        if base_offset + len(append.records) > piece_end_offset:
            self._cluster.found(
                "AcknowledgedIsCommitted",
                SafetyViolation(f"{append}, when nothing above {piece_end_offset} is committed"),
            )

    def _ended(self, append: AppendCall, outcome: AppendOutcome) -> None:
        self._cluster.trace.add(append.client, outcome.value)
        if outcome is AppendOutcome.FAILED:
            self._history.fail(append, trio.current_time())

    # In a node's process

    async def _call(self, client: str, source: random.Random) -> None:
        appender = _AnyNode(self._cluster, source)
        if not self._settings.sessions:
            await self._append_through(appender, client, source)
            return
        while not self._finish.is_set():
            try:
                async with (
                    Session[int].open(
                        appender, limits=self._settings.session_limits, timeout_ms=self._timeout_ms
                    ) as session,
                    trio.open_nursery() as nursery,
                ):
                    for lane in ("a", "b"):
                        nursery.start_soon(self._append_through, session, f"{client}{lane}", derived(source))
            except (NotLeaderError, OutcomeUnknownError, QuorumStoppedError):
                await self._think(source)

    async def _append_through(self, appender: Appender, client: str, source: random.Random) -> None:
        """Append one call after another, until the session is lost."""
        while not self._finish.is_set():
            append = self._begin(client, source)
            try:
                appended = await appender.append(append.records, timeout_ms=self._timeout_ms)
            except (NotLeaderError, QuorumBusyError, QuorumStoppedError):
                self._ended(append, AppendOutcome.FAILED)
            except SessionLostError:
                self._ended(append, AppendOutcome.FAILED)
                return
            except OutcomeUnknownError:
                self._ended(append, AppendOutcome.UNKNOWN)
            else:
                self._acknowledged(append, appended.base_offset, appended.epoch)
                expected = tuple(range(appended.base_offset, appended.base_offset + len(append.records)))
                if appended.results != expected:
                    self._cluster.found(
                        "ResultsAreTheStateMachines",
                        SafetyViolation(
                            f"{append} was answered with {appended.results}, expected {expected}"
                        ),
                    )
            await self._think(source)

    @property
    def _timeout_ms(self) -> int:
        return int(self._settings.timeout_s * 1000)

    async def _read(self, client: str, source: random.Random, bounds_ms: Sequence[int | None]) -> None:
        """Read again and again. Each read draws how stale it may be; None: linearizable."""
        cluster = self._cluster
        while not self._finish.is_set():
            running = list(cluster.running)
            if running:
                node = source.choice(running)
                bound_ms = source.choice(bounds_ms) if len(bounds_ms) > 1 else bounds_ms[0]
                done = trio.Event()
                with cluster.scheduler.process(node.name):
                    cluster.spawn(self._read_from, node, client, bound_ms, done)
                with trio.move_on_after(self._settings.timeout_s + 1):
                    await done.wait()
            await self._think(source)

    async def _read_from(self, node: QuorumNode, client: str, bound_ms: int | None, done: trio.Event) -> None:
        quorum, life, invoked_at = node.quorum, node.life, trio.current_time()
        if quorum is not None and node.alive:
            try:
                await quorum.wait_read_index(max_staleness_ms=bound_ms, timeout_ms=self._timeout_ms)
            except (NotLeaderError, QuorumStoppedError, OutcomeUnknownError):
                pass
            else:
                if _still_lives(node, life):
                    end_offset = quorum.applied_offset
                    if bound_ms is None:
                        self._saw(client, invoked_at, end_offset)
                    else:
                        self._history.bounded_reads.append(
                            BoundedRead(client, invoked_at, end_offset, bound_ms / 1000)
                        )
                    self._cluster.trace.add(client, f"reads below {end_offset} from {node.name}")
        done.set()

    def _saw(self, client: str, invoked_at: float, end_offset: Offset) -> None:
        self._history.reads.append(ClientRead(client, invoked_at, trio.current_time(), end_offset))

    # Over the network

    async def _read_at_leader(self, client: str, source: random.Random) -> None:
        async with outside_client(self._cluster, client, source) as outside:
            while not self._finish.is_set():
                invoked_at = trio.current_time()
                try:
                    answer = await outside.read(b"", timeout_ms=self._timeout_ms)
                except (LeaderNotFoundError, OutcomeUnknownError):
                    pass
                else:
                    self._saw(client, invoked_at, Offset(int(answer)))
                    self._cluster.trace.add(client, f"reads below {answer.decode()}")
                await self._think(source)

    async def _send_in_session(self, client: str, source: random.Random) -> None:
        async with outside_client(self._cluster, client, source) as outside:
            while not self._finish.is_set():
                await self._append_through(outside, client, source)

    async def _send(self, client: str, source: random.Random) -> None:
        voters = self._cluster.voters
        target = source.choice(voters)
        while not self._finish.is_set():
            leader = await self._session(client, target, source)
            if leader is not None and source.random() < 0.9:
                target = self._cluster.nodes[leader - 1]
            else:
                target = source.choice(voters)
            await self._think(source)

    async def _session(self, client: str, target: QuorumNode, source: random.Random) -> NodeId | None:
        """Append to one node until it fails. Return the leader that it named, if any."""
        assert target.address is not None
        try:
            with trio.fail_after(1.0):
                channel = await Channel.connect(
                    self._cluster.network.for_node(client),
                    target.address,
                    cluster_id=CLUSTER_ID,
                    max_frame_bytes=_FRAME_BYTES,
                    max_append_bytes=_FRAME_BYTES,
                )
        except (NetworkError, trio.TooSlowError):
            return None
        leader: NodeId | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(channel.run)
            while not self._finish.is_set() and not channel.broken:
                append = self._begin(client, source)
                outcome = AppendOutcome.UNKNOWN
                with trio.move_on_after(self._settings.timeout_s):
                    try:
                        base_offset, epoch = await channel.append(append.records)
                        outcome = AppendOutcome.ACKNOWLEDGED
                        self._acknowledged(append, base_offset, epoch)
                    except NotLeaderError as error:
                        outcome, leader = AppendOutcome.FAILED, error.leader
                    except OutcomeUnknownError:
                        pass
                if outcome is not AppendOutcome.ACKNOWLEDGED:
                    self._ended(append, outcome)
                    break
                await self._think(source)
            channel.close()
            nursery.cancel_scope.cancel()
        return leader
