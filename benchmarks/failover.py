"""From an empty folder to the first commit, and from kill -9 of the leader to the next commit."""

import sys
import time
from pathlib import Path
from statistics import median

import trio

sys.path.insert(0, str(Path(__file__).parent))

from quorum_client import channel_to_leader
from quorum_processes import QuorumProcesses

from quorate.raft.config import parse_voters
from quorate.raft.errors import QuorumError


async def first_commit(quorum: QuorumProcesses) -> int:
    """Return when an append was acknowledged; the node that leads."""
    async with trio.open_nursery() as nursery:
        channel = await channel_to_leader(nursery, quorum.voters)
        nursery.cancel_scope.cancel()
    port = channel.address.port
    return next(int(v.key.id) for v in parse_voters(quorum.voters) if v.endpoint.port == port)


def start_to_first_commit(folder: Path) -> float:
    """Seconds, processes and imports included."""
    quorum = QuorumProcesses(folder)
    started = time.perf_counter()
    quorum.start()
    try:
        trio.run(first_commit, quorum)
        return time.perf_counter() - started
    finally:
        quorum.stop()


def kill_to_next_commit(folder: Path, rounds: int) -> float:
    """Median seconds with default timeouts; the client knows all voters and tries them in turn."""
    quorum = QuorumProcesses(folder)
    quorum.start()
    gaps = []
    try:
        for _ in range(rounds):
            leader = trio.run(first_commit, quorum)
            time.sleep(0.5)
            killed = time.perf_counter()
            quorum.kill(leader)
            trio.run(first_commit, quorum)
            gaps.append(time.perf_counter() - killed)
            quorum.start(leader)
            time.sleep(1.5)
        return median(gaps)
    finally:
        quorum.stop()


__all__ = ["QuorumError", "kill_to_next_commit", "start_to_first_commit"]
