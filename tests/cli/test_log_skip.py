"""`quorate log skip` at the folder of a node whose state machine can't apply a batch."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from typer.testing import Result

from quorate.cli.console.cli_errors import ExitCode
from quorate.raft import NodeId, Quorum, QuorumConfig, QuorumError, format_folder, parse_voters
from quorate.runtime.real import SyncStrategy, real_runtime

Run = Callable[..., Result]


class Picky:
    def __init__(self) -> None:
        self.seen: list[bytes] = []

    def apply(self, batch):
        if b"bad" in batch.records:
            raise ValueError("bad")
        self.seen.extend(batch.records)
        return [None] * len(batch.records)

    def take_snapshot(self):
        return iter([])

    def load_snapshot(self, snapshot):
        raise AssertionError("there is none")


async def stopped_at_a_batch(config: QuorumConfig) -> tuple[int, int]:
    runtime = real_runtime(sync=SyncStrategy.INLINE)
    await format_folder(runtime, config.folder, cluster_id="c", node_id=NodeId(1))
    with pytest.raises(QuorumError) as stopped:
        async with Quorum.open(config, Picky(), runtime=runtime) as quorum:
            await quorum.append([b"good"])
            await quorum.append([b"bad"])
    cause = stopped.value.__cause__
    return cause.offset, cause.epoch


def test_a_node_goes_on_past_a_batch_that_the_command_leaves_out(
    quorate: Run, tmp_path: Path, free_port: int
) -> None:
    folder = tmp_path / "node"
    config = QuorumConfig(
        node_id=NodeId(1),
        cluster_id="c",
        folder=str(folder),
        voters=parse_voters(f"1@127.0.0.1:{free_port}"),
    )
    offset, epoch = trio.run(stopped_at_a_batch, config)
    refused = quorate("log", "skip", folder, "--offset", offset, "--epoch", epoch + 1)
    assert refused.exit_code == ExitCode.FAILED
    assert f"is of epoch {epoch}" in refused.stderr
    done = quorate("log", "skip", folder, "--offset", offset, "--epoch", epoch, "--json")
    assert done.exit_code == ExitCode.OK, done.stderr
    assert json.loads(done.stdout) == [{"offset": offset, "epoch": epoch}]
    again = quorate("log", "skip", folder, "--offset", offset, "--epoch", epoch)
    assert f"leaves out: offset {offset} of epoch {epoch}." in again.stdout

    async def start() -> list[bytes]:
        picky = Picky()
        async with Quorum.open(config, picky, runtime=real_runtime(sync=SyncStrategy.INLINE)) as quorum:
            await quorum.append([b"after"])
        return picky.seen

    assert trio.run(start) == [b"good", b"after"]


def test_a_folder_that_is_no_nodes_is_refused(quorate: Run, tmp_path: Path) -> None:
    refused = quorate("log", "skip", tmp_path, "--offset", 1, "--epoch", 1)
    assert refused.exit_code == ExitCode.STORAGE
    assert "not formatted" in refused.stderr


@pytest.fixture
def free_port() -> int:
    from quorate.cli.node.free_ports import free_ports

    return free_ports(1)[0]
