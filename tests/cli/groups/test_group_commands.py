"""`quorate groups` and librdkafka's AdminClient against a cluster of three brokers."""

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.local_cluster import LocalCluster
from tests.cli.command import Quorate
from tests.kit.clusters import running_cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Start three brokers with the topic t of two partitions, each with 100 records."""
    overrides = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "6"}
    with running_cluster(tmp_path_factory.mktemp("groups") / "cluster", overrides=overrides) as cluster:
        Quorate().at(cluster).output("topics", "create", "-t", "t", "--partitions", "2")
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        for number in range(200):
            producer.produce("t", b"x", partition=number % 2, timestamp=1000 + number)
        assert producer.flush(30) == 0
        yield cluster


def reader(bootstrap: str, group: str) -> Consumer:
    """Run a consumer of all of t, which has both partitions and has committed all that it read."""
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


@pytest.mark.slow
def test_a_group_is_listed_described_reset_and_deleted(quorate: Quorate, cluster: LocalCluster) -> None:
    ask = quorate.at(cluster)
    reset = ("groups", "reset-offsets", "-g", "g")
    consumer = reader(cluster.bootstrap, "g")
    try:
        assert "group g is Stable" in ask.error(*reset, "-t", "t", "--to-earliest")
        listed = {"group": "g", "protocolType": "consumer", "state": "Stable", "type": "classic"}
        assert listed in ask.json("groups", "list", "--state", "stable")
        (member,) = ask.json("groups", "describe", "-g", "g", "--members")
        assert member["partitions"] == [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 1}]
        assert ask.json("groups", "describe", "-g", "g", "--state")["members"] == 1
        described = ask.json("groups", "describe", "-g", "g")
        assert [
            (each["committedOffset"], each["logEndOffset"], each["lag"], each["memberId"])
            for each in described["partitions"]
        ] == [(100, 100, 0, member["memberId"])] * 2
        assert "group g: it has members" in ask.error("groups", "delete", "-g", "g")
        refused = ask.error("groups", "delete-offsets", "-g", "g", "-t", "t")
        assert "t-0 of group g: a member subscribes to this topic" in refused
    finally:
        consumer.close()

    def lags() -> list[int]:
        return [each["lag"] for each in ask.json("groups", "describe", "-g", "g")["partitions"]]

    for arguments, expected in (
        (("-t", "t", "--to-earliest"), [100, 100]),
        (("-t", "t:1", "--to-offset", "30"), [100, 70]),
        (("--all-topics", "--shift-by", "10"), [90, 60]),
        (("--all-topics", "--to-datetime", "1970-01-01T00:00:01.100"), [50, 50]),
        (("--all-topics", "--by-duration", "P1D"), [0, 0]),
        (("-t", "t", "--to-offset", "999"), [0, 0]),
    ):
        before = lags()
        shown = ask.json(*reset, *arguments)
        assert (shown["executed"], lags()) == (False, before)
        assert ask.json(*reset, *arguments, "--execute")["partitions"] == shown["partitions"]
        assert lags() == expected, arguments
    assert "deleted t-0 of group g" in ask.output("groups", "delete-offsets", "-g", "g", "-t", "t:0")
    assert lags() == [0]
    assert ask.output("groups", "delete", "-g", "g") == "deleted group g\n"
    for command in ("describe", "delete"):
        assert "there is no such group" in ask.error("groups", command, "-g", "g")


def test_librdkafka_administers_groups(cluster: LocalCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    consumer = reader(cluster.bootstrap, "h")
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
def test_a_reset_that_is_not_clear_is_wrong_usage(
    quorate: Quorate, arguments: tuple[str, ...], problem: str
) -> None:
    reset = ("groups", "reset-offsets", "-g", "g", *arguments)
    assert problem in quorate.at("h:1").error(*reset, code=ExitCode.USAGE)
