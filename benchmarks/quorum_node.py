"""One node of the benchmark's quorum, in a process of its own. Usage: quorum_node.py ID FOLDER VOTERS"""

import logging
import signal
import sys
from collections.abc import Iterator, Sequence

import structlog
import trio

from quorate.raft.config import QuorumConfig, parse_voters
from quorate.raft.core.types import NodeId
from quorate.raft.quorum import Quorum
from quorate.raft.state_machine import CommittedBatch
from quorate.raft.storage import format_folder
from quorate.runtime.real import SyncStrategy, real_runtime


class Counter:
    """Counts what is applied: the least that a state machine can do."""

    def __init__(self) -> None:
        self.applied = 0

    def apply(self, batch: CommittedBatch) -> Sequence[None]:
        self.applied += len(batch.records)
        return [None] * len(batch.records)

    def take_snapshot(self) -> Iterator[bytes]:
        yield self.applied.to_bytes(8, "big")

    def load_snapshot(self, chunks: Iterator[bytes]) -> None:
        self.applied = int.from_bytes(b"".join(chunks), "big")


async def main() -> None:
    node, folder, voters = NodeId(int(sys.argv[1])), sys.argv[2], parse_voters(sys.argv[3])
    runtime = real_runtime(sync=SyncStrategy.INLINE)
    if not runtime.disk.exists(folder):
        await format_folder(runtime, folder, cluster_id="benchmark", node_id=node)
    config = QuorumConfig(node_id=node, cluster_id="benchmark", folder=folder, voters=voters)
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with Quorum.open(config, Counter(), runtime=runtime):
            async for _ in signals:
                break


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    trio.run(main)
