"""`quorate log skip` at the folder of a node whose state machine can't apply a batch."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.free_ports import free_ports
from quorate.raft import (
    CommittedBatch,
    NodeId,
    Quorum,
    QuorumConfig,
    QuorumError,
    format_folder,
    parse_voters,
)
from quorate.runtime.real import SyncStrategy, real_runtime
from quorate.simulation.quorum.quorum_cluster import Journal
from tests.cli.command import Quorate


class RefusingBad(Journal):
    def apply(self, batch: CommittedBatch) -> Sequence[int]:
        if b"bad" in batch.records:
            raise ValueError("bad")
        return super().apply(batch)


async def stopped_at_a_batch(config: QuorumConfig) -> tuple[int, int]:
    runtime = real_runtime(sync=SyncStrategy.INLINE)
    await format_folder(runtime, config.folder, cluster_id="c", node_id=NodeId(1))
    with pytest.raises(QuorumError) as stopped:
        async with Quorum.open(config, RefusingBad(), runtime=runtime) as quorum:
            await quorum.append([b"good"])
            await quorum.append([b"bad"])
    cause = stopped.value.__cause__
    return cause.offset, cause.epoch


def test_a_node_goes_on_past_a_batch_that_the_command_leaves_out(quorate: Quorate, tmp_path: Path) -> None:
    folder = tmp_path / "node"
    config = QuorumConfig(
        node_id=NodeId(1),
        cluster_id="c",
        folder=str(folder),
        voters=parse_voters(f"1@127.0.0.1:{free_ports(1)[0]}"),
    )
    offset, epoch = trio.run(stopped_at_a_batch, config)
    skip = ("log", "skip", folder, "--offset", offset, "--epoch")
    assert f"is of epoch {epoch}" in quorate.error(*skip, epoch + 1)
    assert quorate.json(*skip, epoch) == [{"offset": offset, "epoch": epoch}]
    assert f"leaves out: offset {offset} of epoch {epoch}." in quorate(*skip, epoch).stdout

    async def start() -> list[bytes]:
        journal = RefusingBad()
        async with Quorum.open(config, journal, runtime=real_runtime(sync=SyncStrategy.INLINE)) as quorum:
            await quorum.append([b"after"])
        return [record for _, record in journal.entries]

    assert trio.run(start) == [b"good", b"after"]


def test_a_folder_that_is_no_nodes_is_refused(quorate: Quorate, tmp_path: Path) -> None:
    skip = ("log", "skip", tmp_path, "--offset", 1, "--epoch", 1)
    assert "not formatted" in quorate.error(*skip, code=ExitCode.STORAGE)
