"""The three-broker cluster: produce and consume throughput, and an idle node's memory."""

import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from types import MappingProxyType

from brokers import planned, serving
from clusters import resident_mib
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

RECORD_BYTES = 1000
MEGABYTE = 1_000_000
UNPROTECTED: Mapping[str, str] = MappingProxyType({})
"""The settings of a client of an open cluster."""


def run(folder: Path, *, megabytes: int, idle_seconds: float = 3.0) -> dict[str, float]:
    """MB/s of records produced with acks=all and consumed, one topic of three partitions, one client."""
    cluster = planned(folder)
    with serving(cluster) as ready:
        time.sleep(idle_seconds)
        idle = median(resident_mib(cluster.pid(node)) for node in (1, 2, 3))
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("bench", 3, 3)])["bench"].result(timeout=30)
        count = megabytes * MEGABYTE // RECORD_BYTES
        produced = produce(cluster.bootstrap, "bench", count)
        consumed = consume(cluster.bootstrap, "bench", count)
        return {
            "produce_mb_per_s": megabytes / produced,
            "consume_mb_per_s": megabytes / consumed,
            "idle_node_resident_mib": idle,
            "cluster_ready_s": ready,
        }


def produce(
    bootstrap: str,
    topic: str,
    count: int,
    *,
    record_bytes: int = RECORD_BYTES,
    batch_bytes: int = 1_000_000,
    acks: str = "all",
    security: Mapping[str, str] = UNPROTECTED,
) -> float:
    """Send to a topic of three partitions. Return the seconds until all is acknowledged."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 20, "batch.size": batch_bytes,
         "queue.buffering.max.messages": 1_000_000, "log_level": 0, **security}
    )  # fmt: skip
    record = bytes(record_bytes)
    errors: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error:
            errors.append(error)

    producer.list_topics(topic, timeout=30)
    started = time.perf_counter()
    for number in range(count):
        producer.produce(topic, record, partition=number % 3, on_delivery=delivered)
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(300)
    if left or errors:
        raise RuntimeError(f"{left} records unsent, {errors[:1]}")
    return time.perf_counter() - started


def consume(bootstrap: str, topic: str, count: int, *, security: Mapping[str, str] = UNPROTECTED) -> float:
    """Read a topic of three partitions from its start. Return the seconds that it took."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False,
         "fetch.message.max.bytes": 4_000_000, "queued.max.messages.kbytes": 262_144,
         # Its default of 1 s is the client's own pause when it has read ahead enough.
         "fetch.queue.backoff.ms": 1, "log_level": 0, **security}
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(3)])
    received, started = 0, time.perf_counter()
    while received < count:
        messages = consumer.consume(10_000, timeout=30)
        if not messages:
            raise RuntimeError(f"{received} of {count} records, then nothing for 30 s")
        received += len(messages)
    consumer.close()
    return time.perf_counter() - started
