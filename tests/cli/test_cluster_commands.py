"""Topics, the quorum and the log of a cluster that runs."""

import itertools
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.free_ports import free_ports
from quorate.cli.node.local_cluster import LocalCluster
from quorate.runtime.entropy import parse_uuid
from tests.cli.command import Quorate

pytestmark = pytest.mark.system


def test_a_topic_is_created_listed_described_and_deleted(ask: Quorate) -> None:
    assert ask.output("topics", "create", "-t", "orders", "--partitions", 2) == "created topic orders\n"
    assert "orders" in ask.json("topics", "list")
    (described,) = ask.json("topics", "describe", "-t", "orders")
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
    table = ask("topics", "describe").output
    assert "orders" in table and "last elr" in table
    ask.output("topics", "delete", "-t", "orders")
    assert ask.output("topics", "list") == ""


@pytest.mark.slow
def test_a_topic_grows_and_shrinks(ask: Quorate) -> None:
    def count() -> int:
        (described,) = ask.json("topics", "describe", "-t", "sized")
        return len(described["partitions"])

    create = ("topics", "create", "-t", "sized", "--if-not-exists")
    assert ask.output(*create) == "created topic sized\n"
    assert ask.output(*create) == "topic sized exists already\n"
    grow = ("topics", "alter", "-t", "sized", "--partitions", 4)
    assert ask.output(*grow) == "topic sized has 4 partitions\n"
    assert count() == 4
    assert "topic sized: Topic 'sized' already has 4 partition(s)." in ask.error(*grow)
    shrink = ("topics", "shrink", "-t", "sized", "--partitions", 2)
    assert "can be shrunk to 2 partitions" in ask(*shrink).output and count() == 4
    assert ask.output(*shrink, "--yes") == "topic sized has 2 partitions\n"
    assert "2 would not be a decrease" in ask.error(*shrink, "--yes")
    missing = ask("topics", "shrink", "-t", "nope", "--partitions", 1)
    assert "topic nope: This server does not host" in missing.stderr
    assert ask.json("topics", "describe", "--under-replicated-partitions", "--unavailable-partitions") == []
    ask("topics", "delete", "-t", "sized")


def test_the_clusters_refusal_is_printed_in_its_own_words(ask: Quorate) -> None:
    assert "topic nope: UNKNOWN_TOPIC_OR_PARTITION" in ask.error("topics", "describe", "-t", "nope")
    assert "topic wide: " in ask.error("topics", "create", "-t", "wide", "--replication-factor", 3)


def test_a_topic_is_placed_and_configured_by_hand(ask: Quorate) -> None:
    placed = ("--replica-assignment", "1,1,1", "--config", "retention.ms=1000")
    ask.output("topics", "create", "-t", "placed", *placed)
    (described,) = ask.json("topics", "describe", "-t", "placed")
    assert len(described["partitions"]) == 3
    assert "retention.ms" in ask.error("topics", "create", "-t", "worse", "--config", "retention.ms=soon")
    ask("topics", "delete", "-t", "placed")


def test_the_quorum_is_described(ask: Quorate) -> None:
    shown = ask.json("quorum", "describe")
    assert (shown["leaderId"], shown["leaderEpoch"], shown["observers"]) == (1, 1, [])
    (voter,) = shown["voters"]
    assert voter["logEndOffset"] == shown["highWatermark"]
    assert (voter["id"], voter["lag"]) == (1, 0)
    assert "leader 1, epoch 1" in ask("quorum", "describe").output


@pytest.mark.parametrize(
    "command", [("quorum", "describe"), ("topics", "list"), ("topics", "delete", "-t", "x")]
)
def test_a_cluster_without_an_answer_is_named_with_its_address(
    quorate: Quorate, command: tuple[str, ...]
) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    assert address in quorate.at(address).error(*command, code=ExitCode.UNAVAILABLE)


def test_the_first_address_that_answers_is_asked(quorate: Quorate, one_node: LocalCluster) -> None:
    (port,) = free_ports(1)
    quorate.at(f"127.0.0.1:{port},{one_node.bootstrap}").output("topics", "list")


@pytest.mark.slow
def test_an_address_that_is_no_brokers_is_told_apart(quorate: Quorate, one_node: LocalCluster) -> None:
    metrics = quorate.at(f"127.0.0.1:{one_node.nodes[0].metrics_port}")
    assert "client listener" in metrics.error("topics", "list", code=ExitCode.UNAVAILABLE)


def test_a_listener_that_never_answers_is_given_up(quorate: Quorate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.cli.console.connections._CONNECT_SECONDS", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        at_silent = quorate.at(f"127.0.0.1:{silent.getsockname()[1]}")
        assert "did not answer" in at_silent.error("topics", "list", code=ExitCode.UNAVAILABLE)


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
    quorate.error("topics", *arguments, code=ExitCode.USAGE)


# The log


@pytest.fixture
def segment(one_node: LocalCluster) -> Path:
    (file,) = (one_node.nodes[0].folder / "data" / "__cluster_metadata-0").glob("*.log")
    return file


@pytest.fixture
def copied(segment: Path, tmp_path: Path) -> Path:
    """Copy the metadata log, without the room made ahead at its end."""
    file = tmp_path / "__cluster_metadata-0" / segment.name
    file.parent.mkdir()
    data, end = segment.read_bytes(), 0
    # Not by cutting zeros: a batch may end in some of its own.
    while any(data[end : end + 12]):
        end += 12 + int.from_bytes(data[end + 8 : end + 12], "big")
    file.write_bytes(data[:end])
    return file


def test_the_metadata_log_is_dumped_with_its_records(quorate: Quorate, segment: Path) -> None:
    batches = [json.loads(line) for line in quorate.output("log", "dump", segment, "--json").splitlines()]
    assert [batch["baseOffset"] for batch in batches][:1] == [0]
    assert all(
        after["baseOffset"] == before["lastOffset"] + 1 for before, after in itertools.pairwise(batches)
    )
    assert batches[0]["isControl"] and batches[0]["records"][0]["type"] == "LeaderChange"
    records = [record for batch in batches for record in batch["records"]]
    registered = next(record for record in records if record["type"] == "RegisterBroker")
    assert registered["record"]["broker_id"] == 1
    for line in ("baseOffset: 0 ", "| offset: 0 "):
        assert line in quorate("log", "dump", segment).output
    without = quorate("log", "dump", segment, "--json", "--no-records").output.splitlines()
    assert json.loads(without[0])["records"] is None


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
    assert "cut off" in quorate.error("log", "dump", copied, code=ExitCode.STORAGE)


def test_the_room_made_ahead_is_no_damage_but_zeros_in_the_middle_are(quorate: Quorate, copied: Path) -> None:
    data = copied.read_bytes()
    copied.write_bytes(data + bytes(3 << 20))
    quorate.output("log", "dump", copied)
    copied.write_bytes(data + bytes(3 << 20) + b"x")
    quorate.error("log", "dump", copied, code=ExitCode.STORAGE)


def test_a_file_that_is_no_segment_is_refused(quorate: Quorate, one_node: LocalCluster) -> None:
    quorate.error("log", "dump", one_node.nodes[0].config_file, code=ExitCode.USAGE)


def test_a_dump_into_a_reader_that_has_seen_enough_ends_quietly(copied: Path) -> None:
    copied.write_bytes(copied.read_bytes() * 500)
    command = f"{sys.executable} -m quorate.cli.main log dump {copied} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("baseOffset: 0 ")
    assert done.stderr == ""
