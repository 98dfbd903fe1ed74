"""`quorate append`, `quorate read` and `quorate watch`, at an embedded quorum in this process."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from quorate import blocking
from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.free_ports import free_ports
from quorate.raft import CommittedBatch, NodeId, QuorumConfig, Sessions, SnapshotId, parse_voters
from quorate.runtime import Address
from tests.cli.command import Quorate


class Words:
    """Keeps the records. The result is the record in upper case."""

    def __init__(self) -> None:
        self.words: list[bytes] = []

    def apply(self, batch: CommittedBatch) -> Sequence[bytes]:
        self.words += batch.records
        return [record.upper() for record in batch.records]

    def take_snapshot(self) -> Iterator[bytes]:
        return iter(list(self.words))

    def load_snapshot(self, snapshot: SnapshotId) -> "Words":
        raise NotImplementedError


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[str]:
    """A quorum of one node with sessions; the address of its client listener."""
    port, client_port = free_ports(2)
    folder = str(tmp_path / "node")
    config = QuorumConfig(
        node_id=NodeId(1),
        cluster_id="words",
        folder=folder,
        voters=parse_voters(f"1@127.0.0.1:{port}"),
        client_listen=Address("127.0.0.1", client_port),
    )
    blocking.format_folder(folder, cluster_id="words", node_id=NodeId(1))
    machine = Words()
    with blocking.Quorum.open(config, Sessions(machine)) as quorum:
        quorum.serve_reads(lambda query: b" ".join(machine.words) + query)
        quorum.wait_leading()
        yield f"127.0.0.1:{client_port}"


def test_what_is_appended_is_watched(quorate: Quorate, listener: str) -> None:
    first = quorate.json("append", "-l", listener, "one", "two")["baseOffset"]
    watched = quorate.output("watch", "-l", listener, "--from", "0", "--idle-ms", "0")
    assert watched == f"{first} one\n{first + 1} two\n"
    line = quorate.json("watch", "-l", listener, "--from", str(first + 1), "--idle-ms", "0")
    assert (line["offset"], line["record"]) == (first + 1, "two")
    assert line["timestampMs"] > 0
    assert line["leaderEpoch"] > 0


def test_a_watch_ends_quietly_on_ctrl_c(quorate: Quorate, listener: str) -> None:
    first = quorate.json("append", "-l", listener, "one")["baseOffset"]
    command = [sys.executable, "-m", "quorate.cli.main", "watch", "-l", listener, "--from", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline() == f"{first} one\n"
        watching.send_signal(signal.SIGINT)
        _, errors = watching.communicate(timeout=60)
    assert (watching.returncode, errors) == (ExitCode.OK, "")


def test_what_is_appended_is_read(quorate: Quorate, listener: str) -> None:
    appended = quorate.json("append", "-l", listener, "one", "two")
    assert appended["results"] == ["ONE", "TWO"]
    assert appended["baseOffset"] > 0
    assert quorate.output("append", "-l", listener, "three").split()[1:] == ["THREE"]
    assert quorate.output("read", "-l", listener, "?") == "one two three?\n"
    assert quorate.json("append", "-l", listener, "four", "--no-sessions")["results"] == ["FOUR"]


def test_nobody_at_the_address_is_named(quorate: Quorate) -> None:
    (port,) = free_ports(1)
    error = quorate.error(
        "append", "-l", f"127.0.0.1:{port}", "one", "--timeout-ms", 300, code=ExitCode.UNAVAILABLE
    )
    assert f"no leader was found: 127.0.0.1:{port} can't be reached" in error


def test_a_listener_that_is_no_address_is_wrong_usage(quorate: Quorate) -> None:
    assert "--client-listener" in quorate.error("read", "-l", "nonsense", "?", code=ExitCode.USAGE)
