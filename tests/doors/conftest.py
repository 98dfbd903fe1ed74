"""A quorum of one node on this machine's disk, for the doors of threads and asyncio."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from quorate import blocking
from quorate.cli.node.free_ports import free_ports
from quorate.raft import CommittedBatch, CoreConfig, NodeId, QuorumConfig, parse_voters
from quorate.raft.quorum_config import HIGH_WATERMARK_WAIT_MS


class Sums:
    """Adds up the records. `poison` raises. `calls` run within the next `apply`."""

    def __init__(self) -> None:
        self.total = 0
        self.calls = []

    def apply(self, batch: CommittedBatch) -> Sequence[int]:
        while self.calls:
            self.calls.pop()()
        return [self.add(int(record)) for record in batch.records]

    def add(self, number: int) -> int:
        self.total += number
        return self.total

    def take_snapshot(self):
        return iter([str(self.total).encode()])

    def load_snapshot(self, snapshot):
        return Loader(self)


class Loader:
    def __init__(self, sums: Sums) -> None:
        self.sums, self.data = sums, b""

    def add(self, chunk: bytes) -> None:
        self.data += chunk

    def install(self) -> None:
        self.sums.total = int(self.data)


FAST = CoreConfig(
    election_timeout_ms=200,
    fetch_timeout_ms=600,
    fetch_max_wait_ms=100,
    request_timeout_ms=600,
    high_watermark_wait_ms=HIGH_WATERMARK_WAIT_MS,
)


@pytest.fixture
def config(tmp_path: Path) -> QuorumConfig:
    """The configuration of node 1, the only voter, whose folder is formatted."""
    folder = str(tmp_path / "node-1")
    blocking.format_folder(folder, cluster_id="doors", node_id=NodeId(1))
    voters = parse_voters(f"1@127.0.0.1:{free_ports(1)[0]}")
    return QuorumConfig(node_id=NodeId(1), cluster_id="doors", folder=folder, voters=voters, core=FAST)


@pytest.fixture
def lone_config(tmp_path: Path) -> QuorumConfig:
    """The configuration of node 1 of two voters. Node 2 is down, so nobody leads."""
    folder = str(tmp_path / "node-1")
    blocking.format_folder(folder, cluster_id="doors", node_id=NodeId(1))
    first, second = free_ports(2)
    voters = parse_voters(f"1@127.0.0.1:{first},2@127.0.0.1:{second}")
    return QuorumConfig(node_id=NodeId(1), cluster_id="doors", folder=folder, voters=voters, core=FAST)
