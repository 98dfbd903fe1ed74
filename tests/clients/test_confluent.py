"""confluent-kafka (librdkafka) through the death of a leader, and of a group's coordinator."""

import json
import signal
import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.clients.killable import ACK_TIMEOUT_MS, Killable, check, values
from tests.kit.clusters import wait_in_sync
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.clients


def create(bootstrap: str, topic: str, *, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result(timeout=30)


def consume(bootstrap: str, topic: str, *, until: set[bytes]) -> list[bytes]:
    """Read everything up to the partition's end, which comes after all of `until`."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"{topic}-group", "auto.offset.reset": "earliest"}
    )
    received: list[bytes] = []
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + 60
        while not until <= set(received):
            assert time.monotonic() < deadline, (
                f"{len(until - set(received))} of {len(until)} records are gone"
            )
            for message in consumer.consume(1000, timeout=0.5):
                assert message.error() is None, message.error()
                received.append(message.value() or b"")
        received += [message.value() or b"" for message in consumer.consume(1000, timeout=0.5)]
    finally:
        consumer.close()
    return received


@pytest.mark.slow
def test_all_topics_are_listed_and_one_by_name(killable: Killable) -> None:
    """librdkafka asks for all of them in a request that is three bytes too long (its issue 5049)."""
    create(killable.bootstrap, "confluent-listed", partitions=2)
    admin = AdminClient({"bootstrap.servers": killable.bootstrap})
    deadline = time.monotonic() + 30
    while "confluent-listed" not in (listed := admin.list_topics(timeout=10)).topics:
        assert time.monotonic() < deadline, sorted(listed.topics)
    assert sorted(listed.brokers) == [1, 2, 3]
    assert sorted(listed.topics["confluent-listed"].partitions) == [0, 1]
    named = admin.list_topics("confluent-listed", timeout=10)
    assert list(named.topics) == ["confluent-listed"]


@pytest.mark.slow
def test_a_topic_gets_more_partitions(killable: Killable) -> None:
    create(killable.bootstrap, "confluent-grown", partitions=2)
    admin = AdminClient({"bootstrap.servers": killable.bootstrap})
    admin.create_partitions([NewPartitions("confluent-grown", 5)])["confluent-grown"].result(timeout=30)
    assert sorted(admin.list_topics("confluent-grown", timeout=10).topics["confluent-grown"].partitions) == [
        *range(5)
    ]
    refused = admin.create_partitions([NewPartitions("confluent-grown", 3)])["confluent-grown"]
    with pytest.raises(KafkaException, match="3 would not be an increase"):
        refused.result(timeout=30)


@pytest.mark.slow
@pytest.mark.parametrize("idempotent", [True, False])
def test_nothing_is_lost_through_a_leaders_death(
    killable: Killable,
    idempotent: bool,
) -> None:
    topic = f"confluent-{idempotent}".lower()
    create(killable.bootstrap, topic)
    producer = Producer(
        {
            "bootstrap.servers": killable.bootstrap,
            "acks": "all",
            "enable.idempotence": idempotent,
            "retries": 1_000_000,
            "linger.ms": 1,
            "batch.num.messages": 20,
            "request.timeout.ms": ACK_TIMEOUT_MS,
        }
    )
    sent: list[bytes] = []
    errors: list[str] = []

    def delivered(error: object, message: Message) -> None:
        if error is not None:
            errors.append(str(error))

    with killable.trouble(topic) as trouble:
        for value in values(trouble):
            if value:
                producer.produce(topic, value, on_delivery=delivered)
                sent.append(value)
            producer.poll(0 if value else 0.002)
        assert producer.flush(60) == 0
    assert not errors, errors[:3]
    received = consume(killable.bootstrap, topic, until=set(sent))
    check(received, sent, trouble, idempotent=idempotent)


class Member:
    """A member of a group, with its assignments and the records that it read."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.joins = 0
        self.revoked = 0
        self.assigned: list[list[int]] = []
        self.received: list[bytes] = []
        self.consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest",
             "enable.auto.commit": False, "session.timeout.ms": 10_000, "heartbeat.interval.ms": 300,
             "statistics.interval.ms": 100, "stats_cb": self._count}
        )  # fmt: skip
        self.consumer.subscribe([topic], on_assign=self._assign, on_revoke=self._revoke)

    def _count(self, statistics: str) -> None:
        brokers = json.loads(statistics)["brokers"].values()
        self.joins = sum(each["req"].get("JoinGroup", 0) for each in brokers)

    def _assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned.append(sorted(each.partition for each in partitions))
        # Nothing is committed before the group is complete: reading begins anew.
        self.received.clear()

    def _revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.revoked += 1

    def poll(self) -> None:
        for message in self.consumer.consume(100, timeout=0.1):
            # The partition's leader may be the coordinator, which is dead: the client goes on by itself.
            if message.error() is None:
                self.received.append(message.value() or b"")


def poll_until(members: list[Member], reached: Callable[[], bool], *, seconds: float = 60) -> None:
    """Let the members poll until a condition holds."""
    deadline = time.monotonic() + seconds
    while not reached():
        told = [(each.joins, each.assigned, len(each.received)) for each in members]
        assert time.monotonic() < deadline, told
        for each in members:
            each.poll()


def coordinator_partition(group: str, partitions: int) -> int:
    """Return the partition that Kafka keeps a group in: Java's hash of its name, made positive, modulo the
    number of partitions."""
    value = 0
    for character in group:
        value = (value * 31 + ord(character)) & 0xFFFFFFFF
    return (value & 0x7FFFFFFF) % partitions


@pytest.mark.slow
def test_a_group_survives_the_death_of_its_coordinator(killable: Killable) -> None:
    topic, group = "confluent-group-topic", "confluent-survivors"
    bootstrap = killable.bootstrap
    create(bootstrap, topic, partitions=4)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})

    def send(values: list[bytes]) -> None:
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=number % 4)
        assert producer.flush(30) == 0

    before, after = [b"before-%d" % n for n in range(40)], [b"after-%d" % n for n in range(40)]
    send(before)
    members = [Member(bootstrap, group, topic) for _ in range(2)]

    def received() -> list[bytes]:
        return [value for member in members for value in member.received]

    try:
        poll_until(members, lambda: [len(m.assigned[-1]) if m.assigned else 0 for m in members] == [2, 2])
        poll_until(members, lambda: sorted(received()) == sorted(before))
        for member in members:
            member.consumer.commit(asynchronous=False)
            member.received.clear()
        assignments = [list(member.assigned) for member in members]
        revoked = [member.revoked for member in members]
        ids = [member.consumer.memberid() for member in members]

        described = killable.cluster.describe_topic("__consumer_offsets")
        count = len(described["partitions"])
        partition = coordinator_partition(group, count)
        wait_in_sync(killable.cluster, "__consumer_offsets")
        coordinator, _ = killable.roles("__consumer_offsets", partition)
        killable.cluster.kill(coordinator)

        send(after)
        poll_until(members, lambda: set(received()) >= set(after))
        # Heartbeats reached a coordinator again, and it takes commits for the same members and generation.
        for member in members:
            member.consumer.commit(asynchronous=False)
        successor, _ = killable.roles("__consumer_offsets", partition)
        assert successor != coordinator, "the group has a new coordinator"
        assert sorted(received()) == sorted(after), (
            "the group went on where it had committed, without gap or repeat"
        )
        assert [member.assigned for member in members] == assignments, "no member was assigned anything anew"
        assert [member.revoked for member in members] == revoked, "no member lost its assignment"
        assert [member.consumer.memberid() for member in members] == ids, "members are who they were"
        places = [TopicPartition(topic, number) for number in range(4)]
        committed = members[0].consumer.committed(places, timeout=30)
        assert [place.offset for place in committed] == [20, 20, 20, 20]
    finally:
        for member in members:
            member.consumer.close()


@pytest.mark.slow
def test_a_group_that_cannot_be_stored_asks_a_few_times_and_is_there_when_it_can(killable: Killable) -> None:
    """librdkafka joins again as soon as its SyncGroup fails: a generation took two milliseconds."""
    topic, group, offsets = "confluent-unstored", "confluent-unstored-group", "__consumer_offsets"
    bootstrap = killable.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    create(bootstrap, topic)

    def set_min_isr(operation: AlterConfigOpType) -> None:
        change = ConfigEntry("min.insync.replicas", "3", incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, offsets, incremental_configs=[change])
        admin.incremental_alter_configs([resource])[resource].result(timeout=30)

    stable = Member(bootstrap, "confluent-stored-group", topic)
    members = [stable]

    try:
        poll_until(members, lambda: bool(stable.assigned), seconds=30)
        wait_in_sync(killable.cluster, offsets)
        set_min_isr(AlterConfigOpType.SET)
        partitions = killable.cluster.describe_topic(offsets)["partitions"]
        partition = coordinator_partition(group, len(partitions))
        coordinator, followers = killable.roles(offsets, partition)
        killable.cluster.kill(followers[0])
        poll_until(members, lambda: len(killable.in_sync(offsets, partition)) == 2, seconds=20)
        unstored = Member(bootstrap, group, topic)
        members.append(unstored)
        failures = "quorate_group_write_failures_total"
        poll_until(members, lambda: killable.metric(coordinator, failures) >= 4, seconds=20)
        seen = time.monotonic()
        poll_until(members, lambda: time.monotonic() - seen > 0.6, seconds=20)
        assert unstored.joins < 12
        assert killable.metric(coordinator, failures) < 8
        assert not unstored.assigned
        set_min_isr(AlterConfigOpType.DELETE)
        poll_until(members, lambda: bool(unstored.assigned), seconds=20)
        assert (len(stable.assigned), stable.revoked) == (1, 0), "the other group noticed nothing"
    finally:
        set_min_isr(AlterConfigOpType.DELETE)
        for each in members:
            each.consumer.close()


@pytest.mark.slow
def test_a_producer_with_acks_0_finds_the_new_leader_after_a_pause_of_the_old(killable: Killable) -> None:
    """The old leader goes on where it stood. It refuses the records that come, and can't tell anyone."""
    topic = "confluent-acks-0"
    create(killable.bootstrap, topic)
    wait_in_sync(killable.cluster, topic)
    producer = Producer({"bootstrap.servers": killable.bootstrap, "acks": "0", "linger.ms": 5})
    stop = threading.Event()

    def send() -> None:
        number = 0
        while not stop.wait(0.02):
            producer.produce(topic, b"%d" % number)
            producer.poll(0)
            number += 1

    sender = threading.Thread(target=send)
    sender.start()
    try:
        killable.wait_high_watermark(topic, 20)
        old, _ = killable.roles(topic)
        killable.cluster.signal(old, signal.SIGSTOP)
        try:
            wait_until(
                lambda: killable.roles(topic)[0] not in (old, -1), "another leader is elected", seconds=60
            )
        finally:
            killable.cluster.signal(old, signal.SIGCONT)
        # The broker that is asked may be the old leader, which has yet to hear of all that.
        wait_until(
            lambda: killable.roles(topic)[0] not in (old, -1) and len(killable.in_sync(topic)) == 3,
            "the old leader is in sync again",
            seconds=60,
        )
        low = killable.high_watermark(topic)
        killable.wait_high_watermark(topic, low + 100, seconds=20)
    finally:
        stop.set()
        sender.join()
        producer.flush(10)
