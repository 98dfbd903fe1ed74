"""The way of one request through the files of a simulated broker cluster.

The cluster is silent but for what is asked (a test runs it without the request, where no function of ours is
called in the same time). So all that happens belongs to the request.

A file is on the way if it is on the call stack where the request is handed on: where a task is started or
woken, bytes leave for the network or the disk, an effect leaves the core, or a node's image is changed. Files
that are called and return before that (codecs, checks, tables, counters) are tools, and not counted as hops;
`Way.entered` has them too. From the goal the way is followed back to the client's frame: each step of a task
to the stack that made it run, each received byte to the stack that sent it, each timer to where it was armed.
Consequences that the goal didn't wait for are not on it. Left out are the common types, `quorate/runtime`,
the telemetry and the simulator.
"""

import random
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any, cast

import trio
from kio.schema.errors import ErrorCode

import quorate
from quorate.broker.wire import ApiKey, WireClient, open_client
from quorate.broker.wire.codecs.produce_codec import ProducePartition, ProduceRequest, ProduceTopic
from quorate.log.batches import build_batch
from quorate.raft.core import TimerFired
from quorate.simulation.brokers.broker_cluster import BrokerCluster, BrokerClusterSettings, BrokerHost
from quorate.simulation.world import Scheduler, Trace, logs_into, run
from quorate.simulation.world.pipes import Pipe
from quorate.simulation.world.scheduler import current_process
from quorate.simulation.world.simulated_network import SimulatedNetwork
from quorate.types import Epoch, Offset

SOURCE = f"{Path(quorate.__file__).parent}/"
NOT_COUNTED = ("runtime/", "simulation/", "metrics/", "raft/telemetry.py", "broker/raft_log_lines.py")
NOUNS = ("error_code.py", "types.py", "value.py", "lazy_names.py")
QUIET = {
    "broker.heartbeat.interval.ms": "60000",
    "broker.session.timeout.ms": "300000",
    "offsets.topic.num.partitions": "1",
    "replica.fetch.wait.max.ms": "20000",
    "replica.socket.timeout.ms": "30000",
    "replica.lag.time.max.ms": "60000",
    "controller.quorum.fetch.timeout.ms": "20000",
}
"""Nothing is done because time passes, but for a Fetch of the quorum's now and then."""
TOPIC = "earlier"
SILENT_FROM_S = 3.1
"""After the last request, between two of these Fetches."""

Ask = Callable[[WireClient], Awaitable[object]]


def file_of(frame: FrameType) -> str | None:
    """Below `quorate/`; None of others, and of files that don't count."""
    name = frame.f_code.co_filename
    if not name.startswith(SOURCE):
        return None
    name = name.removeprefix(SOURCE)
    return None if name.startswith(NOT_COUNTED) or name in NOUNS or name.endswith("__init__.py") else name


@dataclass(eq=False, slots=True)
class HandOver:
    """Where the request was handed on: the files on the stack, the outermost first, and what led there."""

    number: int
    node: str
    files: tuple[str, ...]
    cause: "HandOver | None"
    within: "list[HandOver]" = field(default_factory=list)
    """Effects and writes that came before, in the same step of the task."""


@dataclass(frozen=True, slots=True)
class Way:
    stacks: tuple[tuple[str, tuple[str, ...]], ...]
    """Node, and the files on its stack, in order."""
    entered: frozenset[str]
    """All files in which a function was called meanwhile, whatever for."""

    @property
    def files(self) -> list[str]:
        """On the way, in the order in which they come first."""
        return list(dict.fromkeys(file for _, files in self.stacks for file in files))

    def changes(self, *packages: str) -> list[str]:
        """The packages that the way goes through, of those named, one after the other on each node."""
        passed: list[str] = []
        for _, files in self.stacks:
            for file in files:
                package = file.partition("/")[0]
                if package in packages and passed[-1:] != [package]:
                    passed.append(package)
        return passed


class Tracer(trio.abc.Instrument):
    """Records hand-overs while it is `on`."""

    def __init__(self) -> None:
        self.on = False
        self.entered: set[str] = set()
        self.goals: dict[str, HandOver] = {}
        """The first time that each node's image was changed, by node."""
        self.sent: dict[Pipe, HandOver] = {}
        """The last send on each connection."""
        self._number = 0
        self._woken: dict[trio.lowlevel.Task, HandOver | None] = {}
        self._left: dict[trio.lowlevel.Task, HandOver] = {}
        """What a task did last, for it may have gone to sleep itself."""
        self._armed: dict[tuple[object, object], HandOver] = {}
        """Where each timer was armed, by its owner and name."""
        self._cause: HandOver | None = None
        """Of what the running task does now."""
        self._within: list[HandOver] = []

    # trio

    def task_scheduled(self, task: trio.lowlevel.Task) -> None:
        if self.on:
            running = trio.lowlevel.current_task() if _in_task() else None
            self._woken[task] = self._left.get(task) if running is None else self.hand_over(sys._getframe())

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._cause, self._within = self._woken.pop(task, None), []

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.on and self._cause is not None:
            frames = _awaiting(task)
            self._left[task] = self._noted(_process_of(task), frames)
        self._cause = None

    # What else is seen

    def hand_over(self, frame: FrameType | None) -> HandOver:
        files = []
        while frame is not None:
            files.append(file_of(frame))
            frame = frame.f_back
        return self._noted(current_process() or "", [each for each in reversed(files) if each is not None])

    def _noted(self, node: str, files: list[str]) -> HandOver:
        self._number += 1
        stack = tuple(dict.fromkeys(files))
        return HandOver(self._number, node, stack, self._cause, list(self._within))

    def profile(self, frame: FrameType, kind: str, _: object) -> None:
        if kind != "call" or not self.on or not (current_process() or "").startswith("node"):
            return
        file = file_of(frame)
        if file is not None and frame.f_lasti <= _FIRST_INSTRUCTIONS:
            self.entered.add(file)
        name, code = frame.f_code.co_filename, frame.f_code
        if (code.co_name == "__init__" and _is_effect(frame)) or name.startswith(
            f"{SOURCE}simulation/world/disk"
        ):
            self._within.append(self.hand_over(frame))
        elif code.co_qualname == "Timers.arm":
            self._armed[frame.f_locals["self"], frame.f_locals["name"]] = self.hand_over(frame)
        elif code.co_qualname == "Driver.deliver" and isinstance(
            fired := frame.f_locals["event"], TimerFired
        ):
            self._cause = self._armed.get((frame.f_locals["self"]._timers, fired.timer))
            self._within = []
        elif code.co_name == "apply" and file == "broker/metadata/image.py":
            stack = self.hand_over(frame)
            if "broker/metadata_cache.py" in stack.files:
                self.goals.setdefault(stack.node, stack)

    @contextmanager
    def watching(self) -> Iterator[None]:
        send_nowait, take = SimulatedNetwork.send_nowait, SimulatedNetwork._take

        def sending(network: SimulatedNetwork, pipe: Pipe, data: bytes, peer: str) -> int:
            if self.on:
                self.sent[pipe] = self.hand_over(sys._getframe())
            return send_nowait(network, pipe, data, peer)

        def taking(network: SimulatedNetwork, pipe: Pipe, max_bytes: int) -> bytes:
            if self.on:
                self._cause, self._within = self.sent.get(pipe), []
            return take(network, pipe, max_bytes)

        network = cast(Any, SimulatedNetwork)
        network.send_nowait, network._take = sending, taking
        trio.lowlevel.add_instrument(self)
        sys.setprofile(self.profile)
        self.on = True
        try:
            yield
        finally:
            self.on = False
            sys.setprofile(None)
            trio.lowlevel.remove_instrument(self)
            network.send_nowait, network._take = send_nowait, take

    def way_to(self, *goals: HandOver) -> Way:
        on_it: dict[int, HandOver] = {}
        ahead: list[HandOver | None] = list(goals)
        while ahead:
            each = ahead.pop()
            if each is not None and each.number not in on_it:
                on_it[each.number] = each
                ahead += [each.cause, *each.within]
        stacks = tuple(
            (each.node, each.files) for _, each in sorted(on_it.items()) if each.node.startswith("node")
        )
        return Way(stacks, frozenset(self.entered))


_DISK = tuple(f"{SOURCE}simulation/world/{name}" for name in ("disk_file.py", "simulated_disk.py"))
_FIRST_INSTRUCTIONS = 6
"""Where the code of a function, or of a coroutine that is called, begins. A coroutine that runs on is called
by the interpreter too, but from further on."""


def _in_task() -> bool:
    try:
        trio.lowlevel.current_task()
    except RuntimeError:
        return False
    return True


def _is_effect(frame: FrameType) -> bool:
    return type(frame.f_locals.get("self")).__module__ == "quorate.raft.core.effects"


def _process_of(task: trio.lowlevel.Task) -> str:
    return task.context.run(current_process) or ""


def _awaiting(task: trio.lowlevel.Task) -> list[str]:
    files, awaited = [], cast(Any, task.coro)
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None)
        if frame is not None and (file := file_of(frame)) is not None:
            files.append(file)
        awaited = getattr(awaited, "cr_await", None)
    return files


def traced(ask: Ask | None, *, of: Callable[[BrokerCluster], BrokerHost], seconds: float = 0.2) -> Tracer:
    """What a cluster with the topic `TOPIC` does in `seconds` in which a client asks a broker, or nobody
    does."""
    tracer, trace = Tracer(), Trace(None)

    async def program(scheduler: Scheduler) -> None:
        settings = BrokerClusterSettings(min_isr=2, partitions=1, values=QUIET)
        async with trio.open_nursery() as nursery:
            cluster = BrokerCluster(settings, random.Random(1), scheduler, nursery, trace)
            await cluster.boot()
            await cluster.converge(within_s=600)
            network = cluster.network.for_node("client")
            async with open_client(network, cluster.nodes[0].address, timeout_s=100) as client:
                await create(client, TOPIC)
            async with open_client(network, of(cluster).address, timeout_s=100) as client:
                await trio.sleep(SILENT_FROM_S)
                with tracer.watching(), trio.move_on_after(seconds):
                    if ask is not None:
                        await ask(client)
                    await trio.sleep_forever()
            nursery.cancel_scope.cancel()

    with logs_into(trace):
        run(1, program)
    return tracer


async def create(client: WireClient, name: str) -> None:
    answer: Any = await client.call(
        ApiKey.CREATE_TOPICS,
        topics=[
            {"name": name, "num_partitions": 1, "replication_factor": 3, "assignments": (), "configs": ()}
        ],
        timeout=timedelta(seconds=30),
    )
    assert answer.topics[0].error_code is ErrorCode.none, answer


async def produce(client: WireClient) -> None:
    """One record, with acks=all."""
    batch = build_batch(base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=1_000_000_000_000, values=[b"x"])
    topic = ProduceTopic(TOPIC, [ProducePartition(0, memoryview(batch))])
    request = ProduceRequest(version=9, acks=-1, timeout_ms=30_000, topics=[topic])
    assert (await client.produce(request))[0].partitions[0].error is ErrorCode.none


def active_controller(cluster: BrokerCluster) -> BrokerHost:
    active = cluster.leader()
    assert active is not None
    return active


def another_broker(cluster: BrokerCluster) -> BrokerHost:
    return next(node for node in cluster.nodes if node is not active_controller(cluster))


def partition_leader(cluster: BrokerCluster) -> BrokerHost:
    return cluster.nodes[cluster.states(TOPIC)[0].leader - 1]


def way_of_creation(of: Callable[[BrokerCluster], BrokerHost]) -> tuple[Way, dict[str, Way]]:
    """Of CreateTopics, from the client's frame to each node's image: of all together, and of each node."""
    tracer = traced(lambda client: create(client, "created"), of=of)
    assert len(tracer.goals) == 3
    return (
        tracer.way_to(*tracer.goals.values()),
        {node: tracer.way_to(goal) for node, goal in tracer.goals.items()},
    )


def way_of_a_record() -> Way:
    """Of one produced record, from the client's frame to the answer's bytes."""
    tracer = traced(produce, of=partition_leader)
    (answer,) = (sent for pipe, sent in tracer.sent.items() if pipe.target == "client")
    return tracer.way_to(answer)
