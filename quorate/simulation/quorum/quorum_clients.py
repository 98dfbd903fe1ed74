"""Clients of a simulated quorum: each appends, one call after another, and records the answers."""

import random
from dataclasses import dataclass

import trio

from quorate.raft import NotLeaderError, OutcomeUnknownError, QuorumStoppedError
from quorate.raft.transport.channel import Channel
from quorate.runtime import NetworkError
from quorate.simulation.cluster_run import Clients, draw_records
from quorate.simulation.histories.history import AppendCall, AppendOutcome, ClientRead, History
from quorate.simulation.quorum.quorum_cluster import CLUSTER_ID, QuorumCluster, QuorumNode
from quorate.simulation.violations import SafetyViolation
from quorate.types import Epoch, NodeId, Offset

_FRAME_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """`in_process`: clients that call `Quorum.append` on a node; `remote`: clients on hosts of their own."""

    in_process: int = 2
    remote: int = 1
    readers: int = 1
    """Clients that ask any node for linearizable reads."""
    think_max_s: float = 0.2
    timeout_s: float = 4.0
    records_max: int = 3
    padding_max: int = 200


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
                nursery.start_soon(self._send, client, self._derived())
            for number in range(1, self._settings.readers + 1):
                client = f"reader-{number}"
                nursery.start_soon(self._read, client, self._derived())

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

    # In the node's process

    async def _call(self, client: str, source: random.Random) -> None:
        cluster = self._cluster
        while not self._finish.is_set():
            running = list(cluster.running)
            if running:
                node = source.choice(running)
                append = self._begin(client, source)
                done = trio.Event()
                with cluster.scheduler.process(node.name):
                    cluster.spawn(self._append_on, node, append, done)
                with trio.move_on_after(self._settings.timeout_s + 1):
                    await done.wait()
            await self._think(source)

    async def _append_on(self, node: QuorumNode, append: AppendCall, done: trio.Event) -> None:
        quorum, life = node.quorum, node.life
        outcome, appended = AppendOutcome.UNKNOWN, None
        if quorum is not None and node.alive:
            try:
                appended = await quorum.append(
                    append.records, timeout_ms=int(self._settings.timeout_s * 1000)
                )
            except (NotLeaderError, QuorumStoppedError):
                outcome = AppendOutcome.FAILED
            except OutcomeUnknownError:
                pass
        if not node.alive or node.life != life:
            # Killed: it got no answer.
            done.set()
            return
        if appended is None:
            self._ended(append, outcome)
        else:
            self._acknowledged(append, appended.base_offset, appended.epoch)
            expected = tuple(range(appended.base_offset, appended.base_offset + len(append.records)))
            if appended.results != expected:
                self._cluster.found(
                    "ResultsAreTheStateMachines",
                    SafetyViolation(f"{append} was answered with {appended.results}, expected {expected}"),
                )
        done.set()

    async def _read(self, client: str, source: random.Random) -> None:
        cluster = self._cluster
        while not self._finish.is_set():
            running = list(cluster.running)
            if running:
                node = source.choice(running)
                done = trio.Event()
                with cluster.scheduler.process(node.name):
                    cluster.spawn(self._read_from, node, client, done)
                with trio.move_on_after(self._settings.timeout_s + 1):
                    await done.wait()
            await self._think(source)

    async def _read_from(self, node: QuorumNode, client: str, done: trio.Event) -> None:
        quorum, life, invoked_at = node.quorum, node.life, trio.current_time()
        if quorum is not None and node.alive:
            try:
                await quorum.wait_read_index(timeout_ms=int(self._settings.timeout_s * 1000))
            except (NotLeaderError, QuorumStoppedError, OutcomeUnknownError):
                pass
            else:
                if self._still_lives(node, life):
                    end_offset = quorum.applied_offset
                    self._history.reads.append(
                        ClientRead(client, invoked_at, trio.current_time(), end_offset)
                    )
                    self._cluster.trace.add(client, f"reads below {end_offset} from {node.name}")
        done.set()

    @staticmethod
    def _still_lives(node: QuorumNode, life: int) -> bool:
        """Return whether the process still lives; otherwise the call got no answer."""
        return node.alive and node.life == life

    # Over the network

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
