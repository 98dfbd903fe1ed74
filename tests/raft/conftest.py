"""Nodes under virtual time, on simulated disks and networks, that tests open, crash and disturb."""

import random
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

import pytest
import trio
from captured_logs import captured_logs

from quorate.raft.core.core_config import CoreConfig
from quorate.raft.quorum import Quorum
from quorate.raft.quorum_config import QuorumConfig, parse_voters
from quorate.raft.state_machine.interface import CommittedBatch
from quorate.raft.storage.storage import format_folder
from quorate.raft.telemetry import Telemetry
from quorate.runtime import Runtime
from quorate.runtime.network import Address, Stream
from quorate.simulation.world.simulated_network import SimulatedNetwork
from quorate.simulation.world.simulated_runtime import SimulatedRuntime
from quorate.types import NodeId, VoterSet

CLUSTER_ID = "driver-tests"
CORE = CoreConfig(
    election_timeout_ms=200, fetch_timeout_ms=600, fetch_max_wait_ms=100, request_timeout_ms=600
)


class Journal:
    """Keeps every record; its result is the record's length. `poison` raises."""

    def __init__(self) -> None:
        self.records: list[bytes] = []

    def apply(self, batch: CommittedBatch) -> Sequence[int]:
        if b"poison" in batch.records:
            raise ValueError("poisoned")
        self.records.extend(batch.records)
        return [len(record) for record in batch.records]

    def take_snapshot(self):
        return iter(list(self.records))

    def load_snapshot(self, snapshot):
        return JournalLoader(self)


class JournalLoader:
    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.records: list[bytes] = []

    def add(self, chunk: bytes) -> None:
        self.records.append(chunk)

    def install(self) -> None:
        self.journal.records = self.records


class World:
    """Hosts node-1 to node-3, and `outside`, which is no node."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.network = SimulatedNetwork(random.Random(1))
        self.power_draw = random.Random(2)
        self.voters = parse_voters("1@node-1:9093,2@node-2:9093,3@node-3:9093")
        self.first_voters: VoterSet | None = None
        """The voter set in the log. None: there is none."""
        self.disks = 0
        """The number of replaced disks."""
        self.hosts: dict[int, SimulatedRuntime] = {}
        self.quorums: dict[int, Quorum] = {}
        self.journals: dict[int, Journal] = {}
        self.failures: dict[int, BaseException] = {}
        """The errors of nodes that stopped by themselves. A test takes out those that it expects."""
        self.stops: dict[int, trio.Event] = {}
        self.ended: dict[int, trio.Event] = {}
        self.scopes: dict[int, trio.CancelScope] = {}
        self.overrides: dict[str, object] = {}
        self.telemetries: dict[int, Telemetry] = {}
        self.wrap: Callable[[int, Runtime], Runtime] = lambda node, runtime: runtime

    def config(self, node: int) -> QuorumConfig:
        voters = self.overrides.get("voters", self.voters)
        config = QuorumConfig(
            node_id=NodeId(node),
            cluster_id=CLUSTER_ID,
            folder="data",
            voters=voters,
            observer=len(voters) > 0 and NodeId(node) not in voters,
            listen=Address(f"node-{node}", 9093),
            core=CORE,
        )
        return replace(config, **self.overrides)

    def runtime(self, node: int) -> Runtime:
        return self.wrap(node, self.hosts[node].runtime())

    def replace_disk(self, node: int) -> None:
        """Replace the disk of a node that is down. The next start formats it."""
        del self.hosts[node]
        self.disks += 1

    async def start(self, *nodes: int, journal: Callable[[], object] = Journal) -> None:
        for node in nodes:
            if node not in self.hosts:
                self.hosts[node] = SimulatedRuntime(
                    f"node-{node}", self.network, random.Random(node + 1000 * self.disks)
                )
                await format_folder(
                    self.runtime(node),
                    "data",
                    cluster_id=CLUSTER_ID,
                    node_id=NodeId(node),
                    voters=self.first_voters,
                )
            await self.nursery.start(self._run, node, journal)

    async def start_one(self, *, journal: Callable[[], object] = Journal, **overrides: object) -> Quorum:
        """A quorum of one voter, which leads."""
        self.voters = parse_voters("1@node-1:9093")
        self.overrides |= overrides
        await self.start(1, journal=journal)
        return await self.leader()

    async def start_three(self) -> Quorum:
        """All three nodes; the one that leads."""
        await self.start(1, 2, 3)
        return await self.leader()

    async def _run(self, node: int, journal, task_status: trio.TaskStatus[None]) -> None:
        self.journals[node] = journal()
        self.stops[node], self.ended[node] = trio.Event(), trio.Event()
        try:
            with trio.CancelScope() as self.scopes[node]:
                async with Quorum.open(
                    self.config(node),
                    self.journals[node],
                    runtime=self.runtime(node),
                    telemetry=self.telemetries.get(node),
                ) as quorum:
                    self.quorums[node] = quorum
                    task_status.started()
                    await self.stops[node].wait()
        except Exception as error:
            if not self.scopes[node].cancel_called:  # what breaks under a crash tells nothing
                self.failures[node] = error
        finally:
            self.ended[node].set()

    async def stop(self, node: int) -> None:
        self.stops[node].set()
        await self.ended[node].wait()
        del self.quorums[node]

    async def crash(self, node: int, *, power_loss: bool = False) -> None:
        """Crash a node without a word. The unsynced bytes that its disk keeps are drawn."""
        host = self.hosts[node]
        host.disk.cut()
        self.network.crash_node(host.name, silent=power_loss)
        self.scopes[node].cancel()
        with trio.CancelScope(shield=True):
            await self.ended[node].wait()
        del self.quorums[node]
        if power_loss:
            host.disk.lose_power(self.power_draw)
        else:
            host.disk.crash_process()
        self.network.restart_node(host.name)

    async def until(self, condition: Callable[[], bool], *, within_s: float = 60) -> None:
        with trio.fail_after(within_s):
            while True:
                if condition():
                    return
                await trio.sleep(0.01)

    async def leader(self) -> Quorum:
        with trio.fail_after(60):
            while True:
                for quorum in self.quorums.values():
                    if quorum.is_leader:
                        return quorum
                await trio.sleep(0.01)

    async def followers(self) -> list[Quorum]:
        leader = await self.leader()
        found = [quorum for quorum in self.quorums.values() if quorum is not leader]
        for quorum in found:
            while quorum.leader != leader.node_id:
                await quorum._node.leadership.wait_change()
        return found

    async def dial(self, node: int) -> Stream:
        return await self.network.for_node("outside").connect(Address(f"node-{node}", 9093))


@pytest.fixture
async def world(nursery) -> AsyncIterator[World]:
    world = World(nursery)
    yield world
    assert world.failures == {}, "nodes stopped by themselves, and the test did not expect it"


@pytest.fixture
def log_lines():
    with captured_logs() as lines:
        yield lines
