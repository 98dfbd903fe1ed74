"""`quorate log-dirs` and `quorate delete-records` on a cluster that runs."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from typer.testing import Result

from quorate.cli.cli_errors import ExitCode
from quorate.cli.local_cluster import LocalCluster

Quorate = Callable[..., Result]


def fill(cluster: LocalCluster, topic: str, records: int = 10) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
    for number in range(records):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(30) == 0


@pytest.mark.system
def test_records_are_deleted_up_to_an_offset(
    quorate: Quorate, one_node: LocalCluster, tmp_path: Path
) -> None:
    server = ("-b", one_node.bootstrap)
    assert quorate("topics", "create", "-t", "orders", "--partitions", 2, *server).exit_code == 0
    fill(one_node, "orders")
    done = quorate("delete-records", "-t", "orders:0=4", "-t", "orders:1=-1", *server)
    assert (done.exit_code, done.output) == (0, "orders:0 starts at 4\norders:1 starts at 0\n")
    file = tmp_path / "offsets.json"
    file.write_text(
        json.dumps({"partitions": [{"topic": "orders", "partition": 0, "offset": -1}], "version": 1})
    )
    done = quorate("delete-records", "--offset-json-file", file, "--json", *server)
    assert json.loads(done.output) == [{"topic": "orders", "partition": 0, "lowWatermark": 10, "error": None}]


@pytest.mark.system
def test_each_refusal_is_told_with_its_remedy(quorate: Quorate, one_node: LocalCluster) -> None:
    server = ("-b", one_node.bootstrap)
    quorate("topics", "create", "-t", "some", *server)
    quorate("topics", "create", "-t", "compacted", "--config", "cleanup.policy=compact", *server)
    done = quorate("delete-records", "-t", "some:0=0", "-t", "some:1=0", "-t", "compacted:0=0", *server)
    assert done.exit_code == ExitCode.FAILED
    assert done.stdout == "some:0 starts at 0\n"
    assert done.stderr.splitlines() == [
        "quorate: some:1: UNKNOWN_TOPIC_OR_PARTITION: there is no such partition",
        "quorate: compacted:0: POLICY_VIOLATION: its topic is only compacted; "
        "set cleanup.policy=compact,delete",
    ]
    high = quorate("delete-records", "-t", "some:0=1", "--json", *server)
    assert high.exit_code == ExitCode.FAILED
    assert json.loads(high.stdout)[0]["error"] == "OFFSET_OUT_OF_RANGE"


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("-t", "orders"),
        ("-t", "orders:0"),
        ("-t", "orders:x=1"),
        ("-t", "orders:0=1", "-t", "orders:0=2"),
        ("--offset-json-file", "/no/such/file"),
        ("--offset-json-file", "pyproject.toml"),
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_asks_nobody(quorate: Quorate, arguments: tuple[str, ...]) -> None:
    done = quorate("delete-records", *arguments, "-b", "localhost:1")
    assert done.exit_code == ExitCode.USAGE
    assert done.stderr.startswith("quorate: ")


@pytest.mark.system
def test_the_directories_of_brokers_are_shown_with_their_replicas(
    quorate: Quorate, one_node: LocalCluster
) -> None:
    server = ("-b", one_node.bootstrap)
    quorate("topics", "create", "-t", "sized", "--partitions", 2, *server)
    fill(one_node, "sized")
    found = json.loads(quorate("log-dirs", "describe", "-t", "sized", "--json", *server).output)
    (broker,) = found["brokers"]
    (directory,) = broker["logDirs"]
    assert (found["version"], broker["broker"], directory["error"]) == (1, 1, None)
    assert directory["totalBytes"] >= directory["usableBytes"] > 0
    partitions = {each.pop("partition"): each for each in directory["partitions"]}
    assert partitions.keys() == {"sized-0", "sized-1"}
    assert partitions["sized-0"]["size"] > 0
    assert partitions["sized-1"] == {"size": 0, "offsetLag": 0, "isFuture": False}
    table = quorate("log-dirs", "describe", "--broker", 1, *server)
    assert table.exit_code == 0
    assert "usable bytes" in table.output
    assert directory["logDir"] in table.output
    assert "sized" in table.output
    missing = quorate("log-dirs", "describe", "--broker", 9, *server)
    assert missing.exit_code == ExitCode.FAILED
    assert "broker 9 is not there; those that are live: 1" in missing.stderr
    unknown = quorate("log-dirs", "describe", "-t", "nope", *server)
    assert "topic nope: UNKNOWN_TOPIC_OR_PARTITION" in unknown.stderr
