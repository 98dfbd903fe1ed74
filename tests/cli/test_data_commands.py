"""`quorate log-dirs` and `quorate delete-records` on a cluster that runs."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from typer.testing import Result

from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.local_cluster import LocalCluster

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


@pytest.fixture(scope="module")
def two_disks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalCluster, tuple[str, str]]]:
    folder = tmp_path_factory.mktemp("disks")
    disks = (str(folder / "cluster" / "1" / "data"), str(folder / "second"))
    cluster = LocalCluster.plan(
        folder / "cluster", nodes=1, client_port=0, overrides={"log.dirs": ",".join(disks)}
    )
    try:
        cluster.prepare()
        cluster.start()
        cluster.wait_ready()
        yield cluster, disks
    finally:
        cluster.kill_all()


def places(quorate: Quorate, topic: str, *server: str) -> list[str]:
    (broker,) = json.loads(quorate("log-dirs", "describe", "-t", topic, "--json", *server).output)["brokers"]
    return [each["logDir"] for each in broker["logDirs"] if each["partitions"]]


@pytest.mark.system
def test_a_replica_is_moved_to_another_disk(
    quorate: Quorate, two_disks: tuple[LocalCluster, tuple[str, str]]
) -> None:
    cluster, disks = two_disks
    server = ("-b", cluster.bootstrap)
    quorate("topics", "create", "-t", "moved", *server)
    fill(cluster, "moved")
    (here,) = places(quorate, "moved", *server)
    there = next(each for each in disks if each != here)
    done = quorate("log-dirs", "move", "--replica", "moved:0:1", "--to", there, "--watch", *server)
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[0] == f"moved:0:1 moves to {there}"
    assert done.output.splitlines()[-1] == "moved:0:1: it is there"
    assert places(quorate, "moved", *server) == [there]
    fill(cluster, "moved")
    again = quorate("log-dirs", "move", "--replica", "moved:0:1", "--to", there, *server)
    assert again.exit_code == 0


@pytest.mark.system
def test_a_file_of_moves_names_directories(
    quorate: Quorate, two_disks: tuple[LocalCluster, tuple[str, str]], tmp_path: Path
) -> None:
    cluster, disks = two_disks
    server = ("-b", cluster.bootstrap)
    quorate("topics", "create", "-t", "filed", *server)
    fill(cluster, "filed")
    (here,) = places(quorate, "filed", *server)
    there = next(each for each in disks if each != here)
    file = tmp_path / "moves.json"
    entry = {"topic": "filed", "partition": 0, "replicas": [1], "log_dirs": [there]}
    file.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    asked = ("--reassignment-json-file", file)
    before = quorate("reassign-partitions", "verify", *asked, *server)
    assert (before.exit_code, "it does not move" in before.output) == (ExitCode.FAILED, True), before.output
    begun = quorate("reassign-partitions", "execute", *asked, *server)
    assert begun.exit_code == 0, begun.output
    assert f"Successfully started the move of filed-0-1 to {there}" in begun.output
    done = quorate("reassign-partitions", "verify", "--watch", *asked, *server)
    assert done.exit_code == 0, done.output
    assert "The move of replica filed-0-1 between directories is completed." in done.output
    assert places(quorate, "filed", *server) == [there]
    file.write_text(json.dumps({"version": 1, "partitions": [entry | {"log_dirs": ["/nowhere"]}]}))
    refused = quorate("reassign-partitions", "execute", *asked, *server)
    assert refused.exit_code == ExitCode.FAILED
    assert "the replica of filed-0 on broker 1: LOG_DIR_NOT_FOUND" in refused.stderr


@pytest.mark.system
def test_a_move_that_is_refused_says_why(
    quorate: Quorate, two_disks: tuple[LocalCluster, tuple[str, str]]
) -> None:
    cluster, disks = two_disks
    server = ("-b", cluster.bootstrap)
    quorate("topics", "create", "-t", "stays", *server)
    for replica, to, says in (
        ("stays:0:1", "/nowhere", "LOG_DIR_NOT_FOUND: the broker has no such directory"),
        ("stays:7:1", disks[0], "UNKNOWN_TOPIC_OR_PARTITION"),
        ("stays:0:9", disks[0], "broker 9 is not live"),
    ):
        refused = quorate("log-dirs", "move", "--replica", replica, "--to", to, *server)
        assert refused.exit_code == ExitCode.FAILED
        assert says in refused.stderr
    wrong = quorate("log-dirs", "move", "--replica", "stays-0", "--to", disks[0], *server)
    assert wrong.exit_code == ExitCode.USAGE
    assert "is not TOPIC:PARTITION:BROKER" in wrong.stderr
