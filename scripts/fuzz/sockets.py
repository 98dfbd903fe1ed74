"""A share of the frames over real sockets, to a real node on a real disk."""

import random
import tempfile
from contextlib import suppress
from pathlib import Path

import trio
from cluster import Cluster, Count
from mutations import Mutator

from quorate.invariant import InvariantError
from quorate.raft.quorum import Quorum
from quorate.raft.quorum_config import QuorumConfig, parse_voters
from quorate.raft.storage.storage import format_folder
from quorate.raft.transport.frames import PREFACE
from quorate.runtime.network import Address, NetworkError
from quorate.runtime.real import RealNetwork, SyncStrategy, real_runtime
from quorate.types import NodeId

FRAMES_PER_CONNECTION = 20


def fuzz_real_node(seed: int, frames: int, cluster_id: str) -> list[str]:
    """Send frames to a real node. Return the problems."""
    recorded = trio.run(_recorded, seed, clock=trio.testing.MockClock(autojump_threshold=0))
    draw = random.Random(f"{seed}/sockets")
    with tempfile.TemporaryDirectory() as folder:
        return trio.run(_fuzz, Mutator(draw, recorded), frames, Path(folder), cluster_id)


async def _recorded(seed: int) -> list[bytes]:
    async with trio.open_nursery() as nursery:
        cluster = Cluster(f"{seed}/sockets", 1, dynamic=False, nursery=nursery)
        await cluster.start()
        await cluster.say_everything()
        nursery.cancel_scope.cancel()
    return list(cluster.recorder.frames)


async def _fuzz(mutator: Mutator, frames: int, folder: Path, cluster_id: str) -> list[str]:
    problems: list[str] = []
    listener = await RealNetwork().listen(Address("127.0.0.1", 0))
    address = listener.address
    listener.close()
    sent = lives = 0
    runtime = real_runtime(sync=SyncStrategy.INLINE)
    while sent < frames and not problems:
        lives += 1
        data = f"{folder}/{lives}"
        await format_folder(runtime, data, cluster_id=cluster_id, node_id=NodeId(1))
        config = QuorumConfig(
            node_id=NodeId(1), cluster_id=cluster_id, folder=data, voters=parse_voters(f"1@{address}")
        )
        try:
            async with Quorum[int].open(config, Count(), runtime=runtime) as quorum:
                await quorum.wait_leader()
                while sent < frames and not problems:
                    problems += await _connection(mutator, address)
                    sent += FRAMES_PER_CONNECTION
                with trio.fail_after(30):
                    await quorum.append([b"still works"])
        except Exception as error:
            if not isinstance(error.__cause__, InvariantError):
                problems.append(f"the node on a socket: {error!r}, {error.__cause__!r}")
    print(f"{sent} frames over sockets, to {lives} real nodes")
    return problems


async def _connection(mutator: Mutator, address: Address) -> list[str]:
    """Send all frames at once. The node receives them in any parts."""
    try:
        stream = await RealNetwork().connect(address)
    except NetworkError as error:
        return [f"a real node can't be reached: {error}"]
    data = PREFACE + b"".join(mutator.next()[1] for _ in range(FRAMES_PER_CONNECTION))
    try:
        with suppress(NetworkError), trio.move_on_after(0.02):
            await stream.send([data])
            while await stream.receive_some():
                pass
    finally:
        stream.close()
    return []
