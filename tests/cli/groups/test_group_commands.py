"""`quorate groups` and librdkafka's AdminClient against a cluster of three brokers."""

import json
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from quorate.cli.all_commands import every_command
from quorate.cli.node.local_cluster import LocalCluster


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Three brokers with the topic t of two partitions, each with 100 records."""
    folder: Path = tmp_path_factory.mktemp("groups")
    overrides = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "6"}
    cluster = LocalCluster.plan(folder / "cluster", client_port=0, overrides=overrides)
    try:
        cluster.prepare()
        cluster.start()
        cluster.wait_ready()
        run(cluster.bootstrap, "topics", "create", "-t", "t", "--partitions", "2", plain=True)
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        for number in range(200):
            producer.produce("t", b"x", partition=number % 2, timestamp=1000 + number)
        assert producer.flush(30) == 0
        yield cluster.bootstrap
    finally:
        cluster.kill_all()


def run(bootstrap: str, *arguments: str, plain: bool = False, code: int = 0) -> Any:
    """The JSON of a command, or its output."""
    result = CliRunner().invoke(
        every_command(), [*arguments, "-b", bootstrap, *(() if plain else ("--json",))]
    )
    assert result.exit_code == code, result.output
    return result.output if plain or code else json.loads(result.stdout)


def reader(bootstrap: str, group: str) -> Consumer:
    """A consumer of all of t, which has both partitions and has committed what it read."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["t"])
    seen = 0
    while seen < 200:
        messages = consumer.consume(200 - seen, timeout=30)
        assert messages
        assert not any(each.error() for each in messages)
        seen += len(messages)
    consumer.commit(asynchronous=False)
    return consumer


def result_of(futures: dict[str, Future[Any]]) -> Any:
    (only,) = futures.values()
    return only.result(30)


def test_a_group_is_listed_described_reset_and_deleted(bootstrap: str) -> None:
    consumer = reader(bootstrap, "g")
    try:
        refused = run(bootstrap, "groups", "reset-offsets", "-g", "g", "-t", "t", "--to-earliest", code=1)
        assert "group g is Stable" in refused
        assert {"group": "g", "protocolType": "consumer", "state": "Stable", "type": "classic"} in run(
            bootstrap, "groups", "list", "--state", "stable"
        )
        (member,) = run(bootstrap, "groups", "describe", "-g", "g", "--members")
        assert member["partitions"] == [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 1}]
        assert run(bootstrap, "groups", "describe", "-g", "g", "--state")["members"] == 1
        described = run(bootstrap, "groups", "describe", "-g", "g")
        assert [
            (each["committedOffset"], each["logEndOffset"], each["lag"], each["memberId"])
            for each in described["partitions"]
        ] == [(100, 100, 0, member["memberId"])] * 2
        refused = run(bootstrap, "groups", "delete", "-g", "g", plain=True, code=1)
        assert "group g: it has members" in refused
        refused = run(bootstrap, "groups", "delete-offsets", "-g", "g", "-t", "t", plain=True, code=1)
        assert "t-0 of group g: a member subscribes to this topic" in refused
    finally:
        consumer.close()

    def lags() -> list[int]:
        return [each["lag"] for each in run(bootstrap, "groups", "describe", "-g", "g")["partitions"]]

    reset = ("groups", "reset-offsets", "-g", "g")
    for arguments, expected in (
        (("-t", "t", "--to-earliest"), [100, 100]),
        (("-t", "t:1", "--to-offset", "30"), [100, 70]),
        (("--all-topics", "--shift-by", "10"), [90, 60]),
        (("--all-topics", "--to-datetime", "1970-01-01T00:00:01.100"), [50, 50]),
        (("--all-topics", "--by-duration", "P1D"), [0, 0]),
        (("-t", "t", "--to-offset", "999"), [0, 0]),
    ):
        before = lags()
        shown = run(bootstrap, *reset, *arguments)
        assert (shown["executed"], lags()) == (False, before)
        assert run(bootstrap, *reset, *arguments, "--execute")["partitions"] == shown["partitions"]
        assert lags() == expected, arguments
    assert "deleted t-0 of group g" in run(
        bootstrap, "groups", "delete-offsets", "-g", "g", "-t", "t:0", plain=True
    )
    assert lags() == [0]
    assert run(bootstrap, "groups", "delete", "-g", "g", plain=True) == "deleted group g\n"
    assert "there is no such group" in run(bootstrap, "groups", "describe", "-g", "g", code=1)
    assert "there is no such group" in run(bootstrap, "groups", "delete", "-g", "g", plain=True, code=1)


def test_librdkafka_administers_groups(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    consumer = reader(bootstrap, "h")
    try:
        listed = admin.list_consumer_groups(states={ConsumerGroupState.STABLE}, request_timeout=30).result(30)
        assert not listed.errors
        assert "h" in {each.group_id for each in listed.valid}
        described = result_of(
            admin.describe_consumer_groups(["h"], include_authorized_operations=True, request_timeout=30)
        )
        assert described.state is ConsumerGroupState.STABLE
        assert len(described.members[0].assignment.topic_partitions) == 2
        assert len(described.authorized_operations) == 5
        with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
            result_of(admin.delete_consumer_groups(["h"], request_timeout=30))
    finally:
        consumer.close()
    result_of(admin.delete_consumer_groups(["h"], request_timeout=30))
    listed = admin.list_consumer_groups(request_timeout=30).result(30)
    assert "h" not in {each.group_id for each in listed.valid}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("-t", "t"), "exactly one of"),
        (("-t", "t", "--to-latest", "--to-earliest"), "exactly one of"),
        (("--to-latest",), "--topic or --all-topics"),
        (("-t", "t", "--all-topics", "--to-latest"), "--topic or --all-topics"),
        (("-t", "t:x", "--to-latest"), "t:x"),
        (("-t", "t", "--by-duration", "1h"), "P1DT2H30M10S"),
        (("-t", "t", "--to-datetime", "now"), "2026-11-22T14:00:00"),
        (("--from-file", "no such file"), "no such file"),
    ],
)
def test_a_reset_that_is_not_clear_is_wrong_usage(arguments: tuple[str, ...], problem: str) -> None:
    assert problem in run("h:1", "groups", "reset-offsets", "-g", "g", *arguments, code=2)
