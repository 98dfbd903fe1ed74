"""Topics, the quorum and the log of a cluster that runs."""

import itertools
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.free_ports import free_ports
from quorate.cli.node.local_cluster import LocalCluster
from quorate.runtime.entropy import parse_uuid

pytestmark = pytest.mark.system

Quorate = Callable[..., Result]


def test_a_topic_is_created_listed_described_and_deleted(quorate: Quorate, one_node: LocalCluster) -> None:
    server = ("-b", one_node.bootstrap)
    created = quorate("topics", "create", "-t", "orders", "--partitions", 2, *server)
    assert (created.exit_code, created.output) == (0, "created topic orders\n")
    assert "orders" in json.loads(quorate("topics", "list", "--json", *server).output)
    (described,) = json.loads(quorate("topics", "describe", "-t", "orders", "--json", *server).output)
    assert len(parse_uuid(described.pop("topicId")).bytes) == 16
    assert described == {
        "name": "orders",
        "internal": False,
        "partitions": [
            {"partition": number, "leader": 1, "leaderEpoch": 0, "replicas": [1], "isr": [1]}
            | {"elr": [], "lastKnownElr": []}
            for number in range(2)
        ],
    }
    table = quorate("topics", "describe", *server).output
    assert "orders" in table and "last elr" in table
    assert quorate("topics", "delete", "-t", "orders", *server).exit_code == 0
    assert quorate("topics", "list", *server).output == ""


def test_a_topic_grows_and_shrinks(quorate: Quorate, one_node: LocalCluster) -> None:
    server = ("-b", one_node.bootstrap)

    def count() -> int:
        (described,) = json.loads(quorate("topics", "describe", "-t", "sized", "--json", *server).output)
        return len(described["partitions"])

    create = ("topics", "create", "-t", "sized", "--if-not-exists", *server)
    assert quorate(*create).output == "created topic sized\n"
    assert quorate(*create).output == "topic sized exists already\n"
    grown = quorate("topics", "alter", "-t", "sized", "--partitions", 4, *server)
    assert (grown.exit_code, grown.output) == (0, "topic sized has 4 partitions\n")
    assert count() == 4
    again = quorate("topics", "alter", "-t", "sized", "--partitions", 4, *server)
    assert again.exit_code == ExitCode.FAILED
    assert "topic sized: Topic 'sized' already has 4 partition(s)." in again.stderr
    shrink = ("topics", "shrink", "-t", "sized", "--partitions")
    tried = quorate(*shrink, 2, *server)
    assert "can be shrunk to 2 partitions" in tried.output and count() == 4
    done = quorate(*shrink, 2, "--yes", *server)
    assert (done.exit_code, done.output) == (0, "topic sized has 2 partitions\n"), done.stderr
    wider = quorate(*shrink, 2, "--yes", *server)
    assert wider.exit_code == ExitCode.FAILED
    assert "2 would not be a decrease" in wider.stderr
    missing = quorate("topics", "shrink", "-t", "nope", "--partitions", 1, *server)
    assert "topic nope: This server does not host" in missing.stderr
    filters = ("--under-replicated-partitions", "--unavailable-partitions", "--json")
    assert json.loads(quorate("topics", "describe", *filters, *server).output) == []
    quorate("topics", "delete", "-t", "sized", *server)


def test_the_clusters_refusal_is_printed_in_its_own_words(quorate: Quorate, one_node: LocalCluster) -> None:
    server = ("-b", one_node.bootstrap)
    missing = quorate("topics", "describe", "-t", "nope", *server)
    assert missing.exit_code == ExitCode.FAILED
    assert "topic nope: UNKNOWN_TOPIC_OR_PARTITION" in missing.stderr
    many = quorate("topics", "create", "-t", "wide", "--replication-factor", 3, *server)
    assert many.exit_code == ExitCode.FAILED
    assert "topic wide: " in many.stderr


def test_a_topic_is_placed_and_configured_by_hand(quorate: Quorate, one_node: LocalCluster) -> None:
    server = ("-b", one_node.bootstrap)
    created = quorate(
        "topics",
        "create",
        "-t",
        "placed",
        "--replica-assignment",
        "1,1,1",
        "--config",
        "retention.ms=1000",
        *server,
    )
    assert created.exit_code == 0, created.stderr
    (described,) = json.loads(quorate("topics", "describe", "-t", "placed", "--json", *server).output)
    assert len(described["partitions"]) == 3
    bad = quorate("topics", "create", "-t", "worse", "--config", "retention.ms=soon", *server)
    assert bad.exit_code == ExitCode.FAILED
    assert "retention.ms" in bad.stderr
    quorate("topics", "delete", "-t", "placed", *server)


def test_the_quorum_is_described(quorate: Quorate, one_node: LocalCluster) -> None:
    shown = json.loads(quorate("quorum", "describe", "--json", "-b", one_node.bootstrap).output)
    assert (shown["leaderId"], shown["leaderEpoch"], shown["observers"]) == (1, 1, [])
    (voter,) = shown["voters"]
    assert voter["logEndOffset"] == shown["highWatermark"]
    assert (voter["id"], voter["lag"]) == (1, 0)
    table = quorate("quorum", "describe", "-b", one_node.bootstrap).output
    assert "leader 1, epoch 1" in table


@pytest.mark.parametrize(
    "command", [("quorum", "describe"), ("topics", "list"), ("topics", "delete", "-t", "x")]
)
def test_a_cluster_without_an_answer_is_named_with_its_address(
    quorate: Quorate, command: tuple[str, ...]
) -> None:
    (port,) = free_ports(1)
    result = quorate(*command, "-b", f"127.0.0.1:{port}")
    assert result.exit_code == ExitCode.UNAVAILABLE
    assert f"127.0.0.1:{port}" in result.stderr


def test_the_first_address_that_answers_is_asked(quorate: Quorate, one_node: LocalCluster) -> None:
    (port,) = free_ports(1)
    assert quorate("topics", "list", "-b", f"127.0.0.1:{port},{one_node.bootstrap}").exit_code == 0


def test_an_address_that_is_no_brokers_is_told_apart(quorate: Quorate, one_node: LocalCluster) -> None:
    metrics = f"127.0.0.1:{one_node.nodes[0].metrics_port}"
    result = quorate("topics", "list", "-b", metrics)
    assert result.exit_code == ExitCode.UNAVAILABLE
    assert "client listener" in result.stderr


def test_a_listener_that_never_answers_is_given_up(quorate: Quorate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.cli.console.connections._CONNECT_SECONDS", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        result = quorate("topics", "list", "-b", f"127.0.0.1:{silent.getsockname()[1]}")
    assert result.exit_code == ExitCode.UNAVAILABLE
    assert "did not answer" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("list", "-b", "localhost"),
        ("list", "-b", ","),
        ("create", "-t", "x", "--replica-assignment", "1:a"),
        ("create", "-t", "x", "--config", "retention.ms"),
        ("create", "-t", "x", "--partitions", "2", "--replica-assignment", "1"),
        ("create",),
        ("describe", "--colour"),
    ],
)
def test_a_wrong_command_line_sends_no_request(quorate: Quorate, arguments: tuple[str, ...]) -> None:
    assert quorate("topics", *arguments).exit_code == ExitCode.USAGE


# The log


def segment(cluster: LocalCluster) -> Path:
    (file,) = (cluster.nodes[0].folder / "data" / "__cluster_metadata-0").glob("*.log")
    return file


@pytest.fixture
def copied(one_node: LocalCluster, tmp_path: Path) -> Path:
    """A copy of the metadata log, without the room made ahead at its end."""
    file = tmp_path / "__cluster_metadata-0" / segment(one_node).name
    file.parent.mkdir()
    data, end = segment(one_node).read_bytes(), 0
    # Not by cutting zeros: a batch may end in some of its own.
    while any(data[end : end + 12]):
        end += 12 + int.from_bytes(data[end + 8 : end + 12], "big")
    file.write_bytes(data[:end])
    return file


def test_the_metadata_log_is_dumped_with_its_records(quorate: Quorate, one_node: LocalCluster) -> None:
    result = quorate("log", "dump", segment(one_node), "--json")
    assert result.exit_code == 0, result.stderr
    batches = [json.loads(line) for line in result.output.splitlines()]
    assert [batch["baseOffset"] for batch in batches][:1] == [0]
    assert all(
        after["baseOffset"] == before["lastOffset"] + 1 for before, after in itertools.pairwise(batches)
    )
    assert batches[0]["isControl"] and batches[0]["records"][0]["type"] == "LeaderChange"
    records = [record for batch in batches for record in batch["records"]]
    registered = next(record for record in records if record["type"] == "RegisterBroker")
    assert registered["record"]["broker_id"] == 1
    for line in ("baseOffset: 0 ", "| offset: 0 "):
        assert line in quorate("log", "dump", segment(one_node)).output
    without = json.loads(
        quorate("log", "dump", segment(one_node), "--json", "--no-records").output.splitlines()[0]
    )
    assert without["records"] is None


def test_damage_is_named_with_its_place_after_what_is_whole(quorate: Quorate, copied: Path) -> None:
    data = bytearray(copied.read_bytes())
    whole = len(quorate("log", "dump", copied, "--json").output.splitlines())
    data[-1] ^= 1
    copied.write_bytes(data)
    result = quorate("log", "dump", copied, "--json")
    assert result.exit_code == ExitCode.STORAGE
    assert len(result.stdout.splitlines()) == whole - 1
    assert f"{copied}: record batch at byte " in result.stderr


def test_a_cut_off_end_is_named(quorate: Quorate, copied: Path) -> None:
    copied.write_bytes(copied.read_bytes()[:-3])
    result = quorate("log", "dump", copied)
    assert result.exit_code == ExitCode.STORAGE
    assert "cut off" in result.stderr


def test_the_room_made_ahead_is_no_damage_but_zeros_in_the_middle_are(quorate: Quorate, copied: Path) -> None:
    data = copied.read_bytes()
    copied.write_bytes(data + bytes(3 << 20))
    assert quorate("log", "dump", copied).exit_code == 0
    copied.write_bytes(data + bytes(3 << 20) + b"x")
    assert quorate("log", "dump", copied).exit_code == ExitCode.STORAGE


def test_a_file_that_is_no_segment_is_refused(quorate: Quorate, one_node: LocalCluster) -> None:
    assert quorate("log", "dump", one_node.nodes[0].config_file).exit_code == ExitCode.USAGE


def test_a_dump_into_a_reader_that_has_seen_enough_ends_quietly(copied: Path) -> None:
    copied.write_bytes(copied.read_bytes() * 500)
    command = f"{sys.executable} -m quorate.cli.main log dump {copied} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("baseOffset: 0 ")
    assert done.stderr == ""
