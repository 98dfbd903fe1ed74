"""Stock consumers go on past answers in which no batch has a record: compaction left a bare header there."""

import asyncio
import importlib
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import kafka
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AsyncPartition
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from quorate.broker.admin.admin_client import AdminClient as OurAdminClient
from quorate.broker.wire.api import ApiKey
from quorate.cli.commands.batches import batches_of
from quorate.cli.console.connections import ask_cluster
from quorate.cli.node.local_cluster import LocalCluster
from quorate.log.batches.batch import BatchHeader

pytestmark = pytest.mark.clients

KAFKA_TOOLS = Path(__file__).parents[2] / "scripts" / "kafka_tools"
TOPIC = "emptied"
NODE = 1
RUN = 6
"""The number of batches of one record each that compaction empties, before each record that it keeps."""
KEPT = [b"kept-0", b"kept-1", b"kept-2"]
Read = Callable[[str, int], list[bytes]]
"""Read from the first offset until so many records are there, at most one batch an answer."""


def headers_of(data: bytes) -> list[BatchHeader]:
    return [batch.header for batch in batches_of(memoryview(data))]


def headers(cluster: LocalCluster) -> list[BatchHeader]:
    found: list[BatchHeader] = []
    for segment in sorted((cluster.node(NODE).folder / "data" / f"{TOPIC}-0").glob("*.log")):
        # The cleaner may have put one segment in the place of several since they were listed.
        with suppress(FileNotFoundError):
            found += headers_of(segment.read_bytes())
    return found


@pytest.fixture(scope="module")
def compacted(client_cluster: LocalCluster) -> list[bytes]:
    """Return the content of a topic in which an answer of one batch that starts at an emptied one has no
    record."""
    server = {"bootstrap.servers": client_cluster.bootstrap}
    admin = AdminClient(server)
    entry = ConfigEntry("log.cleaner.backoff.ms", "200", incremental_operation=AlterConfigOpType.SET)
    brokers = ConfigResource(ResourceType.BROKER, str(NODE), incremental_configs=[entry])
    admin.incremental_alter_configs([brokers])[brokers].result(timeout=30)
    configs = {"cleanup.policy": "compact", "segment.bytes": "200", "min.cleanable.dirty.ratio": "0.01",
               "min.insync.replicas": "1"}  # fmt: skip
    topic = NewTopic(TOPIC, 1, replica_assignment=[[NODE]], config=configs)
    admin.create_topics([topic])[TOPIC].result(timeout=30)
    producer = Producer({**server, "linger.ms": 0})
    sent: list[bytes] = []

    def send(key: bytes, value: bytes) -> None:
        producer.produce(TOPIC, value, key, partition=0)
        assert producer.flush(30) == 0
        sent.append(value)

    for value in KEPT:
        for number in range(RUN):
            send(b"overwritten", b"%d" % number)
        send(value, value)
    last = [b"end-%d" % number for number in range(6)]
    for value in last:
        send(value, value)
    # The newest record of the overwritten key stays, before the last that is kept.
    left = [*KEPT[:-1], b"%d" % (RUN - 1), KEPT[-1], *last]
    deadline = time.monotonic() + 60
    while sum(header.count for header in headers(client_cluster)) != len(left):
        assert time.monotonic() < deadline, headers(client_cluster)
        time.sleep(0.1)
    return left


def librdkafka(bootstrap: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "past-bare", "fetch.message.max.bytes": 1,
         "fetch.max.bytes": 1000, "message.max.bytes": 1000}
    )  # fmt: skip
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    try:
        return [message.value() or b"" for message in consumer.consume(count, timeout=30)]
    finally:
        consumer.close()


def kafka_python(bootstrap: str, count: int) -> list[bytes]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap.split(","), max_partition_fetch_bytes=1, fetch_max_bytes=1
    )
    partition = kafka.TopicPartition(TOPIC, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    found: list[bytes] = []
    deadline = time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        found += [each.value for each in consumer.poll(200).get(partition, [])]
    consumer.close()
    return found


def aiokafka(bootstrap: str, count: int) -> list[bytes]:
    async def read() -> list[bytes]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, max_partition_fetch_bytes=1, fetch_max_bytes=1
        )
        await consumer.start()
        partition = AsyncPartition(TOPIC, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        found: list[bytes] = []
        deadline = time.monotonic() + 30
        while len(found) < count and time.monotonic() < deadline:
            found += [each.value for each in (await consumer.getmany(timeout_ms=200)).get(partition, [])]
        await consumer.stop()
        return found

    return asyncio.run(read())


def java(bootstrap: str, count: int) -> list[bytes]:
    """Read with Kafka's own consumer, by its console."""
    sys.path.insert(0, str(KAFKA_TOOLS))
    try:
        jars = importlib.import_module("jars")
    finally:
        sys.path.remove(str(KAFKA_TOOLS))
    try:
        class_path = jars.class_path()
    except jars.CantRunHereError as why:
        pytest.skip(str(why))
    done = subprocess.run(
        ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", class_path,
         "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", bootstrap, "--topic", TOPIC,
         "--partition", "0", "--offset", "earliest", "--max-messages", str(count), "--timeout-ms", "30000",
         "--consumer-property", "max.partition.fetch.bytes=1", "--consumer-property", "fetch.max.bytes=1"],
        capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    # Before them: which options are deprecated.
    return done.stdout.splitlines()[-count:]


async def first_answer(client: OurAdminClient, offset: int) -> list[BatchHeader]:
    """Return the batches that the leader answers from this offset on, if no more than one is asked for."""
    part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1, "current_leader_epoch": -1,
            "last_fetched_epoch": -1, "log_start_offset": -1}  # fmt: skip
    answer: Any = await client.any_broker.call(
        ApiKey.FETCH, at_most=12, replica_id=-1, max_wait=timedelta(0), min_bytes=0, max_bytes=1,
        isolation_level=0, session_id=0, session_epoch=-1, forgotten_topics_data=[], rack_id="",
        topics=[{"topic": TOPIC, "partitions": [part]}],
    )  # fmt: skip
    records = bytes(answer.responses[0].partitions[0].records or b"")
    return headers_of(records)


@pytest.mark.slow
@pytest.mark.parametrize("read", [librdkafka, kafka_python, aiokafka, java])
def test_a_consumer_goes_on_past_answers_without_any_record(
    client_cluster: LocalCluster, compacted: list[bytes], read: Read
) -> None:
    leader = f"{client_cluster.host}:{client_cluster.node(NODE).client_port}"
    answered = ask_cluster(leader, lambda client: first_answer(client, 0))
    assert [each.is_bare for each in answered] == [True], "the first answer has a record"
    assert read(client_cluster.bootstrap, len(compacted)) == compacted
