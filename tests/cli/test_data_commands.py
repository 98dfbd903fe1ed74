"""`quorate log-dirs` and `quorate delete-records` on a cluster that runs."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.local_cluster import LocalCluster
from tests.cli.command import Quorate
from tests.kit.clusters import running_cluster


def fill(cluster: LocalCluster, topic: str, records: int = 10) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
    for number in range(records):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(30) == 0


@pytest.mark.slow
@pytest.mark.system
def test_records_are_deleted_up_to_an_offset(ask: Quorate, one_node: LocalCluster, tmp_path: Path) -> None:
    ask.output("topics", "create", "-t", "orders", "--partitions", 2)
    fill(one_node, "orders")
    done = ask.output("delete-records", "-t", "orders:0=4", "-t", "orders:1=-1")
    assert done == "orders:0 starts at 4\norders:1 starts at 0\n"
    file = tmp_path / "offsets.json"
    file.write_text(
        json.dumps({"partitions": [{"topic": "orders", "partition": 0, "offset": -1}], "version": 1})
    )
    done = ask.json("delete-records", "--offset-json-file", file)
    assert done == [{"topic": "orders", "partition": 0, "lowWatermark": 10, "error": None}]


@pytest.mark.system
def test_each_refusal_is_told_with_its_remedy(ask: Quorate) -> None:
    ask("topics", "create", "-t", "some")
    ask("topics", "create", "-t", "compacted", "--config", "cleanup.policy=compact")
    done = ask("delete-records", "-t", "some:0=0", "-t", "some:1=0", "-t", "compacted:0=0")
    assert done.exit_code == ExitCode.FAILED
    assert done.stdout == "some:0 starts at 0\n"
    assert done.stderr.splitlines() == [
        "quorate: some:1: UNKNOWN_TOPIC_OR_PARTITION: there is no such partition",
        "quorate: compacted:0: POLICY_VIOLATION: its topic is only compacted; "
        "set cleanup.policy=compact,delete",
    ]
    high = ask("delete-records", "-t", "some:0=1", "--json")
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
    refused = quorate.at("localhost:1").error("delete-records", *arguments, code=ExitCode.USAGE)
    assert refused.startswith("quorate: ")


@pytest.mark.system
def test_the_directories_of_brokers_are_shown_with_their_replicas(
    ask: Quorate, one_node: LocalCluster
) -> None:
    ask("topics", "create", "-t", "sized", "--partitions", 2)
    fill(one_node, "sized")
    found = ask.json("log-dirs", "describe", "-t", "sized")
    (broker,) = found["brokers"]
    (directory,) = broker["logDirs"]
    assert (found["version"], broker["broker"], directory["error"]) == (1, 1, None)
    assert directory["totalBytes"] >= directory["usableBytes"] > 0
    partitions = {each.pop("partition"): each for each in directory["partitions"]}
    assert partitions.keys() == {"sized-0", "sized-1"}
    assert partitions["sized-0"]["size"] > 0
    assert partitions["sized-1"] == {"size": 0, "offsetLag": 0, "isFuture": False}
    table = ask.output("log-dirs", "describe", "--broker", 1)
    for cell in ("usable bytes", directory["logDir"], "sized"):
        assert cell in table
    missing = ask.error("log-dirs", "describe", "--broker", 9)
    assert "broker 9 is not there; those that are live: 1" in missing
    assert "topic nope: UNKNOWN_TOPIC_OR_PARTITION" in ask("log-dirs", "describe", "-t", "nope").stderr


@pytest.fixture(scope="module")
def two_disks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalCluster, tuple[str, str]]]:
    folder = tmp_path_factory.mktemp("disks")
    disks = (str(folder / "cluster" / "1" / "data"), str(folder / "second"))
    overrides = {"log.dirs": ",".join(disks)}
    with running_cluster(folder / "cluster", nodes=1, overrides=overrides) as cluster:
        yield cluster, disks


def places(ask: Quorate, topic: str) -> list[str]:
    (broker,) = ask.json("log-dirs", "describe", "-t", topic)["brokers"]
    return [each["logDir"] for each in broker["logDirs"] if each["partitions"]]


def filled_topic(ask: Quorate, cluster: LocalCluster, topic: str, disks: tuple[str, str]) -> str:
    """Create a topic with records. Return the disk on which it is not."""
    ask("topics", "create", "-t", topic)
    fill(cluster, topic)
    (here,) = places(ask, topic)
    return next(each for each in disks if each != here)


@pytest.mark.slow
@pytest.mark.system
def test_a_replica_is_moved_to_another_disk(
    quorate: Quorate, two_disks: tuple[LocalCluster, tuple[str, str]]
) -> None:
    cluster, disks = two_disks
    ask = quorate.at(cluster)
    there = filled_topic(ask, cluster, "moved", disks)
    move = ("log-dirs", "move", "--replica", "moved:0:1", "--to", there)
    lines = ask.output(*move, "--watch").splitlines()
    assert lines[0] == f"moved:0:1 moves to {there}"
    assert lines[-1] == "moved:0:1: it is there"
    assert places(ask, "moved") == [there]
    fill(cluster, "moved")
    ask.output(*move)


@pytest.mark.slow
@pytest.mark.system
def test_a_file_of_moves_names_directories(
    quorate: Quorate, two_disks: tuple[LocalCluster, tuple[str, str]], tmp_path: Path
) -> None:
    cluster, disks = two_disks
    ask = quorate.at(cluster)
    there = filled_topic(ask, cluster, "filed", disks)
    file = tmp_path / "moves.json"
    entry = {"topic": "filed", "partition": 0, "replicas": [1], "log_dirs": [there]}
    file.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    asked = ("--reassignment-json-file", file)
    before = ask("reassign-partitions", "verify", *asked)
    assert (before.exit_code, "it does not move" in before.output) == (ExitCode.FAILED, True), before.output
    begun = ask.output("reassign-partitions", "execute", *asked)
    assert f"Successfully started the move of filed-0-1 to {there}" in begun
    done = ask.output("reassign-partitions", "verify", "--watch", *asked)
    assert "The move of replica filed-0-1 between directories is completed." in done
    assert places(ask, "filed") == [there]
    file.write_text(json.dumps({"version": 1, "partitions": [entry | {"log_dirs": ["/nowhere"]}]}))
    refused = ask.error("reassign-partitions", "execute", *asked)
    assert "the replica of filed-0 on broker 1: LOG_DIR_NOT_FOUND" in refused


@pytest.mark.system
def test_a_move_that_is_refused_says_why(
    quorate: Quorate, two_disks: tuple[LocalCluster, tuple[str, str]]
) -> None:
    cluster, disks = two_disks
    ask = quorate.at(cluster)
    ask("topics", "create", "-t", "stays")
    for replica, to, code, says in (
        ("stays:0:1", "/nowhere", ExitCode.FAILED, "LOG_DIR_NOT_FOUND: the broker has no such directory"),
        ("stays:7:1", disks[0], ExitCode.FAILED, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("stays:0:9", disks[0], ExitCode.FAILED, "broker 9 is not live"),
        ("stays-0", disks[0], ExitCode.USAGE, "is not TOPIC:PARTITION:BROKER"),
    ):
        assert says in ask.error("log-dirs", "move", "--replica", replica, "--to", to, code=code)
