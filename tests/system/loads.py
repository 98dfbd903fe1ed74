"""Load on a cluster of real processes, the comparison afterwards, and nodes that stand still."""

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from quorate.cli.node.local_cluster import LocalCluster


def make_topic(bootstrap: str, topic: str, *, partitions: int = 1, replicas: int = 3) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=replicas)])[
        topic
    ].result(timeout=30)


@dataclass
class Load:
    """One idempotent producer per partition that numbers its records, and what was acknowledged."""

    bootstrap: str
    topic: str
    partitions: int = 1
    per_second: float = 2000.0
    acknowledged: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """The acknowledged records by partition: (number, offset) in the order of acknowledgement."""
    sent_at: dict[tuple[int, int], float] = field(default_factory=dict)
    """The moments when (partition, number) was handed to the client, on the monotonic clock."""
    acknowledged_at: dict[tuple[int, int], float] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.acknowledged = {partition: [] for partition in range(self.partitions)}

    @contextmanager
    def running(self) -> Iterator["Load"]:
        """Send for the time of the block, and return when everything sent is acknowledged or has failed."""
        with ThreadPoolExecutor(self.partitions) as pool:
            ends = [pool.submit(self._run, partition) for partition in range(self.partitions)]
            try:
                yield self
            finally:
                self._stop.set()
                for end in ends:
                    end.result()

    def _run(self, partition: int) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": 120_000,
                # Requests stuck in a node that hangs are given up long before the client's 30 to 60 s.
                "request.timeout.ms": 2000,
                "socket.timeout.ms": 3000,
                "retry.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 1000,
            }
        )

        def delivered(error: object, message: Message) -> None:
            number = int(message.value() or b"-1")
            if error is not None:
                self.errors.append(f"{number}: {error}")
            else:
                offset = message.offset()
                assert offset is not None
                self.acknowledged_at[partition, number] = time.monotonic()
                self.acknowledged[partition].append((number, offset))

        number, started = 0, time.monotonic()
        while not self._stop.is_set():
            due = (time.monotonic() - started) * self.per_second
            while number < due and len(producer) < 10_000:
                self.sent_at[partition, number] = time.monotonic()
                producer.produce(self.topic, b"%d" % number, partition=partition, on_delivery=delivered)
                number += 1
            producer.poll(0.01)
        left = producer.flush(120)
        if left:
            self.errors.append(
                f"{left} records of partition {partition} were neither acknowledged nor failed"
            )

    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    def wait_acknowledged(self, more: int, *, seconds: float = 60.0) -> None:
        """Return when `more` records were acknowledged from now on."""
        wanted, deadline = self.count() + more, time.monotonic() + seconds
        while self.count() < wanted:
            assert time.monotonic() < deadline, (
                f"only {self.count()} of {wanted} acknowledgements within {seconds} s; {self.errors[:3]}"
            )
            time.sleep(0.01)

    def gap_after(self, moment: float, *, seconds: float = 60.0) -> float:
        """Return the seconds until every partition has acknowledged a record that was sent after `moment`."""
        deadline = time.monotonic() + seconds
        first: dict[int, float] = {}
        while len(first) < self.partitions:
            assert time.monotonic() < deadline, (
                f"partitions {sorted(set(range(self.partitions)) - set(first))} acknowledged nothing "
                f"within {seconds} s; {self.errors[:3]}"
            )
            for partition in range(self.partitions):
                if partition not in first:
                    for number, _ in self.acknowledged[partition][-500:]:
                        if self.sent_at[partition, number] > moment:
                            first[partition] = self.acknowledged_at[partition, number]
                            break
            time.sleep(0.01)
        return max(first.values()) - moment

    def check(self) -> None:
        """Check that acknowledged records are there, once and in order, and that each record was sent."""
        assert not self.errors, self.errors[:5]
        for partition, acknowledged in self.acknowledged.items():
            found = read_partition(self.bootstrap, self.topic, partition)
            by_offset = dict(found)
            for number, offset in acknowledged:
                assert by_offset.get(offset) == b"%d" % number, (
                    f"partition {partition}: record {number} was acknowledged at offset {offset}, "
                    f"where there is {by_offset.get(offset)!r}"
                )
            values = [int(value) for _, value in found]
            doubled = len(values) - len(set(values))
            assert not doubled, f"partition {partition}: {doubled} records are there more than once"
            assert values == sorted(values), f"partition {partition}: records are out of order"


def _high_watermark(consumer: Consumer, place: TopicPartition) -> int | None:
    """Return the high watermark. None: librdkafka has cached that there is no such partition, which it may
    keep for minutes."""
    try:
        return int(consumer.get_watermark_offsets(place, timeout=10)[1])
    except KafkaException as error:
        if error.args[0].name() != "_UNKNOWN_PARTITION":
            raise
        return None


def read_partition(bootstrap: str, topic: str, partition: int) -> list[tuple[int, bytes]]:
    """Return (offset, value) of everything below the high watermark."""
    place = TopicPartition(topic, partition, 0)
    deadline = time.monotonic() + 60
    while True:
        consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "check", "enable.auto.commit": False,
             "auto.offset.reset": "earliest"}
        )  # fmt: skip
        try:
            end = _high_watermark(consumer, place)
            if end is not None:
                return _read_up_to(consumer, place, end)
            if time.monotonic() > deadline:
                known = consumer.list_topics(topic, timeout=10).topics[topic].partitions
                leaders = {number: each.leader for number, each in known.items()}
                raise AssertionError(f"{place} is unknown to each new client; brokers say: leaders {leaders}")
        finally:
            consumer.close()
        time.sleep(0.1)


def _read_up_to(consumer: Consumer, place: TopicPartition, end: int) -> list[tuple[int, bytes]]:
    consumer.assign([place])
    found: list[tuple[int, bytes]] = []
    deadline = time.monotonic() + 60
    while (not found or found[-1][0] < end - 1) and end > 0:
        assert time.monotonic() < deadline, f"read {len(found)} records of {end}"
        for message in consumer.consume(10_000, timeout=1):
            assert message.error() is None, message.error()
            offset = message.offset()
            assert offset is not None
            found.append((offset, message.value() or b""))
    return found


def wait_stopped(pid: int) -> None:
    """Return when SIGSTOP has taken effect on all of the process's threads."""
    states: list[str] = []
    for _ in range(1000):
        states = [
            (task / "stat").read_text().rpartition(") ")[2][0] for task in Path(f"/proc/{pid}/task").iterdir()
        ]
        if set(states) == {"T"}:
            return
        time.sleep(0.001)
    raise AssertionError(f"process {pid} does not stop: {states}")


def freeze(cluster: LocalCluster, node: int) -> float:
    """Stop a node with SIGSTOP. Return the moment from which on it surely stood still."""
    cluster.signal(node, signal.SIGSTOP)
    wait_stopped(cluster.pid(node))
    return time.monotonic()
