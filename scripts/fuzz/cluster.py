"""Nodes that run the shipped quorum under virtual time, in this process, whose peers' frames are recorded."""

import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import trio

from quorate.raft.core.core_config import CoreConfig
from quorate.raft.core.events import AdoptVoters, RemoveVoter, VoterChange
from quorate.raft.quorum import Quorum
from quorate.raft.quorum_config import QuorumConfig
from quorate.raft.quorum_errors import QuorumError
from quorate.raft.state_machine.interface import CommittedBatch
from quorate.raft.storage.storage import format_folder
from quorate.raft.transport.channel import Channel
from quorate.raft.transport.frames import PREFACE
from quorate.runtime.disk import Buffer
from quorate.runtime.network import Address, Listener, Network, Stream
from quorate.simulation import SimulatedNetwork, SimulatedRuntime
from quorate.types import Endpoint, NodeId, ReplicaKey, SnapshotId, Voter, VoterSet

CLUSTER_ID = "fuzzed"
PORT = 9093


class Count:
    """A state machine that counts the records that were applied."""

    def __init__(self) -> None:
        self.records = 0

    def apply(self, batch: CommittedBatch) -> Sequence[int]:
        self.records += len(batch.records)
        return [self.records] * len(batch.records)

    def take_snapshot(self) -> Iterator[bytes]:
        return iter([b"%d" % self.records])

    def load_snapshot(self, snapshot: SnapshotId) -> "CountLoader":
        return CountLoader(self)


class CountLoader:
    def __init__(self, target: Count) -> None:
        self._target = target
        self._records = 0

    def add(self, chunk: bytes) -> None:
        self._records = int(chunk)

    def install(self) -> None:
        self._target.records = self._records


class Recorder:
    """The frames that went over connections, both ways, each once."""

    def __init__(self) -> None:
        self.frames: dict[bytes, None] = {}

    def took(self, buffered: bytearray, data: bytes) -> None:
        buffered += data
        if buffered.startswith(PREFACE):
            del buffered[: len(PREFACE)]
        while len(buffered) >= 4 and len(buffered) >= (size := 4 + int.from_bytes(buffered[:4], "big")):
            self.frames[bytes(buffered[:size])] = None
            del buffered[:size]


class RecordedStream:
    """A stream that records all that its dialler sends and receives."""

    def __init__(self, stream: Stream, recorder: Recorder) -> None:
        self._stream = stream
        self._recorder = recorder
        self._sent, self._received = bytearray(), bytearray()

    @property
    def peer(self) -> str:
        return self._stream.peer

    @property
    def identities(self) -> tuple[str, ...] | None:
        return self._stream.identities

    async def handshake(self) -> None:
        await self._stream.handshake()

    async def receive_some(self, max_bytes: int = 65536) -> bytes:
        data = await self._stream.receive_some(max_bytes)
        self._recorder.took(self._received, data)
        return data

    async def receive_into(self, buffer: memoryview) -> int:
        return await self._stream.receive_into(buffer)

    def send_nowait(self, buffers: Sequence[Buffer]) -> int:
        count = self._stream.send_nowait(buffers)
        self._recorder.took(self._sent, b"".join(map(bytes, buffers))[:count])
        return count

    async def send(self, buffers: Sequence[Buffer]) -> None:
        self._recorder.took(self._sent, b"".join(map(bytes, buffers)))
        await self._stream.send(buffers)

    def close(self) -> None:
        self._stream.close()


class RecordedNetwork:
    def __init__(self, network: Network, recorder: Recorder) -> None:
        self._network = network
        self._recorder = recorder

    async def connect(self, address: Address) -> Stream:
        return RecordedStream(await self._network.connect(address), self._recorder)

    async def listen(self, address: Address) -> Listener:
        return await self._network.listen(address)


class Cluster:
    """Voters node-1, node-2, and so on. `alive` of them run at last."""

    def __init__(self, seed: str, voters: int, *, dynamic: bool, nursery: trio.Nursery) -> None:
        self._draw = random.Random(seed)
        self._nursery = nursery
        self._dynamic = dynamic
        self.recorder = Recorder()
        self._network = SimulatedNetwork(random.Random(self._draw.random()))
        self.voters = VoterSet(
            tuple(
                Voter(ReplicaKey(NodeId(node)), Endpoint(f"node-{node}", PORT))
                for node in range(1, voters + 1)
            )
        )
        self.quorums: dict[int, Quorum[int]] = {}
        self.failures: dict[int, BaseException] = {}
        self._scopes: dict[int, trio.CancelScope] = {}
        self._outside_network = RecordedNetwork(self._network.for_node("outside"), self.recorder)

    async def start(self) -> None:
        """Start all nodes but the last of several, which comes when it can only begin with a snapshot."""
        for voter in self.voters.voters[: max(1, len(self.voters) - 1)]:
            await self._nursery.start(self._run, voter.key.id)

    async def _run(self, node: NodeId, task_status: trio.TaskStatus[None]) -> None:
        host = SimulatedRuntime(f"node-{node}", self._network, random.Random(self._draw.random()))
        runtime = host.runtime()
        runtime = replace(runtime, network=RecordedNetwork(runtime.network, self.recorder))
        await format_folder(runtime, "data", cluster_id=CLUSTER_ID, node_id=node)
        config = QuorumConfig(
            node_id=node,
            cluster_id=CLUSTER_ID,
            folder="data",
            voters=self.voters,
            core=CoreConfig(
                election_timeout_ms=200, fetch_timeout_ms=600, fetch_max_wait_ms=100, request_timeout_ms=600
            ),
            max_batch_bytes=1 << 20,
            max_pending_bytes=4 << 20,
            snapshot_max_new_bytes=20_000,
            retention_bytes=20_000,
            segment_bytes=20_000,
        )
        with trio.CancelScope() as self._scopes[node]:
            try:
                async with Quorum[int].open(config, Count(), runtime=runtime) as quorum:
                    quorum.serve_requests(self._echo)
                    self.quorums[node] = quorum
                    task_status.started()
                    await trio.sleep_forever()
            except Exception as error:
                self.failures[node] = error
            finally:
                self.quorums.pop(node, None)

    @staticmethod
    async def _echo(request: bytes) -> bytes:
        return request[:100]

    def end(self, node: int) -> None:
        self._scopes[node].cancel()

    async def leader(self) -> Quorum[int]:
        while True:
            for quorum in self.quorums.values():
                if quorum.is_leader:
                    return quorum
            await trio.sleep(0.05)

    async def say_everything(self) -> None:
        """Have every kind of request made, and answered well or badly, while peers' frames are recorded."""
        with trio.fail_after(120):
            leader = await self.leader()
            for number in range(20):
                await leader.append([b"x" * (50 * number), b""])
            if len(self.voters) > 1:
                while leader.log.log_start_offset == 0:
                    await leader.append([b"x" * 3000])
                    await trio.sleep(0.1)
                await self._nursery.start(self._run, NodeId(len(self.voters)))
                await self.quorums[len(self.voters)].wait_read_index()
            await self._ask()
            if len(self.voters) > 1:
                follower = next(quorum for quorum in self.quorums.values() if quorum is not leader)
                await follower.append([b"forwarded"])
                await follower.request_leader(b"asked")
                await follower.wait_read_index()
                await leader.take_snapshot()
                successor = follower.node_id
                await leader.transfer_leadership(successor)
                await (await self.leader()).append([b"by another"])
            await self._ask()

    async def _ask(self) -> None:
        """Ask every node, as a program outside of the cluster does."""
        for node in self.quorums:
            channel = await Channel.connect(
                self._outside_network,
                Address(f"node-{node}", PORT),
                cluster_id=CLUSTER_ID,
                max_frame_bytes=1 << 24,
                max_append_bytes=1 << 20,
            )
            async with trio.open_nursery() as nursery:
                nursery.start_soon(channel.run)
                changes: list[VoterChange] = [RemoveVoter(ReplicaKey(NodeId(99), "nobody"))]
                if self._dynamic:
                    changes.append(AdoptVoters())
                for call in (
                    channel.describe_quorum,
                    channel.read_index,
                    channel.take_snapshot,
                    partial(channel.append, [b"from outside", b""]),
                    partial(channel.request, b"echo"),
                    partial(channel.transfer_leadership, NodeId(77)),
                    *(partial(channel.change_voters, change) for change in changes),
                ):
                    with suppress(QuorumError), trio.move_on_after(10):
                        await call()
                nursery.cancel_scope.cancel()
