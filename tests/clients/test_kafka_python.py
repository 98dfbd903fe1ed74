"""kafka-python through the death of a leader."""

import time

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import ElectionNotNeededError, UnknownTopicOrPartitionError
from surviving_consumer import messages

from tests.clients.killable import ACK_TIMEOUT_MS, Killable, check, values

pytestmark = pytest.mark.clients


@pytest.mark.slow
def test_nothing_is_lost_or_doubled_through_a_leaders_death(killable: Killable) -> None:
    topic = "kafka-python"
    servers = killable.bootstrap.split(",")
    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics([NewTopic(topic, 1, 3)])
    admin.close()
    producer = KafkaProducer(
        bootstrap_servers=servers, acks="all", enable_idempotence=True, batch_size=400, linger_ms=1,
        request_timeout_ms=ACK_TIMEOUT_MS, delivery_timeout_ms=60_000, retry_backoff_ms=50,
    )  # fmt: skip
    sent, futures = [], []
    with killable.trouble(topic) as trouble:
        for value in values(trouble):
            if value:
                futures.append(producer.send(topic, value))
                sent.append(value)
            else:
                time.sleep(0.002)
        producer.flush(timeout=60)
    offsets = [future.get(timeout=60).offset for future in futures]
    metrics = producer.metrics()["producer-metrics"]
    producer.close()
    assert offsets == list(range(len(sent)))
    assert metrics["record-retry-rate"] > 0, "nothing had to be retried"
    consumer = KafkaConsumer(
        topic, bootstrap_servers=servers, group_id="kafka-python-group", auto_offset_reset="earliest",
        consumer_timeout_ms=8000,
    )  # fmt: skip
    received = []
    for message in messages(consumer):
        received.append(message.value)
        if len(received) == len(sent):
            break
    consumer.close()
    check(received, sent, trouble)


@pytest.mark.slow
def test_a_compacted_topic_is_read_from_the_start(killable: Killable) -> None:
    topic = "kafka-python-compacted"
    servers = killable.bootstrap.split(",")
    admin = KafkaAdminClient(bootstrap_servers=servers)
    settings = {"cleanup.policy": "compact", "segment.bytes": "300", "min.cleanable.dirty.ratio": "0.01"}
    admin.create_topics([NewTopic(topic, 1, 3, topic_configs=settings)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=True)
    for number in range(40):
        value = None if number == 37 else b"%d" % number
        producer.send(topic, key=b"k%d" % (number % 4), value=value).get(timeout=60)
    for number in range(3):
        producer.send(topic, key=b"end", value=b"%d" % number).get(timeout=60)
    producer.close()
    deadline, read = time.monotonic() + 120, list[tuple[int, bytes, bytes | None]]()
    while time.monotonic() < deadline:
        consumer = KafkaConsumer(bootstrap_servers=servers, consumer_timeout_ms=8000)
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        read = []
        for message in messages(consumer):
            read.append((message.offset, message.key, message.value))
            if message.offset == 42:
                break
        consumer.close()
        if read[0][0] > 0:
            break
        time.sleep(1)
    assert read[0][0] > 0, "nothing was compacted"
    assert {key: value for _, key, value in read} == {
        b"k0": b"36", b"k1": None, b"k2": b"38", b"k3": b"39", b"end": b"2",
    }  # fmt: skip


def test_a_partition_moves_while_its_producer_goes_on(killable: Killable) -> None:
    topic = "kafka-python-moved"
    servers = killable.bootstrap.split(",")
    admin = KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics([NewTopic(topic, replica_assignments={0: [1]})])
    moved = TopicPartition(topic, 0)
    producer = KafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=True)
    sent = [b"%d" % number for number in range(400)]
    futures = [producer.send(topic, value) for value in sent[:200]]
    assert admin.alter_partition_reassignments({moved: [2, 3]}) == {moved: None}
    futures += [producer.send(topic, value) for value in sent[200:]]
    producer.flush(timeout=60)
    assert [future.get(timeout=60).offset for future in futures] == list(range(400))
    producer.close()
    deadline = time.monotonic() + 30
    while admin.list_partition_reassignments():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert admin.alter_partition_reassignments({moved: None})[moved].errno == 85
    (described,) = admin.describe_topics([topic])
    assert described["partitions"][0]["replica_nodes"] == [2, 3]
    admin.close()
    consumer = KafkaConsumer(bootstrap_servers=servers, consumer_timeout_ms=8000)
    consumer.assign([moved])
    consumer.seek_to_beginning(moved)
    received = [message.value for _, message in zip(sent, consumer, strict=False)]
    consumer.close()
    assert received == sent


@pytest.mark.parametrize("election_type", [0, 1])
def test_a_leader_that_leads_is_left_alone_and_one_of_nothing_is_unknown(
    killable: Killable, election_type
) -> None:
    topic = f"kafka-python-elected-{election_type}"
    admin = KafkaAdminClient(bootstrap_servers=killable.bootstrap.split(","))
    try:
        admin.create_topics([NewTopic(topic, 2, 3)])
        told = admin.elect_leaders(election_type, {topic: [0, 9]}, timeout_ms=20_000, raise_errors=False)
        assert told.error_code == 0
        [row] = told.replica_election_results
        assert row.topic == topic
        assert {each.partition_id: each.error_code for each in row.partition_result} == {
            0: ElectionNotNeededError.errno,
            9: UnknownTopicOrPartitionError.errno,
        }
        everywhere = admin.elect_leaders(election_type, timeout_ms=20_000)
        assert topic in {each.topic for each in everywhere.replica_election_results}
    finally:
        admin.close()
