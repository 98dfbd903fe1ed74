"""What kill -9 of a group's coordinator costs its members: `python benchmarks/run.py groups --rounds 5`.

Three real nodes, each broker and controller, with the default session of 9 s and stock consumers with their
own defaults in one group: all librdkafka (confluent-kafka) but one kafka-python and one aiokafka. The
coordinator has 100,000 committed offsets to load. A producer sends a record to every partition five times a
second. Seconds from the kill until the group's offsets are answered by another broker, until the last member
got its next record, until every partition was read on, and the members' longest standstill.
"""

import asyncio
import itertools
import os
import re
import signal
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import kafka
import priority
import trio
from aiokafka import AIOKafkaConsumer
from brokers import QUIET, planned, serving
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from kafka.errors import KafkaError
from kio.schema.errors import ErrorCode
from report import Grid, Report

from quorate.broker.groups.offsets_topic import OFFSETS_TOPIC, partition_of
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.kafka_client import open_client
from quorate.broker.wire.newest_version import BY_NAME
from quorate.broker.wire.wire_errors import KafkaError as RefusedError
from quorate.cli.node.local_cluster import LocalCluster
from quorate.runtime import Address, NetworkError
from quorate.runtime.real import RealNetwork

if TYPE_CHECKING:
    from kio.schema.find_coordinator.v6.response import FindCoordinatorResponse
    from kio.schema.offset_fetch.v10.response import OffsetFetchResponse

DEFAULT_TIMES = {"broker.heartbeat.interval.ms": "2000", "broker.session.timeout.ms": "9000"}
"""`LocalCluster` has shorter ones."""
GROUP = "readers"
TOPIC = "read"
INTERVAL_S = 0.2
PATIENCE_S = 60.0


class Seen:
    """What all members have read and been assigned."""

    def __init__(self, members: int, partitions: int) -> None:
        self.members: list[float] = [0.0] * members
        """By member: when the newest record that it has read was sent."""
        self.read_at: list[float] = [0.0] * members
        self.partitions: list[float] = [0.0] * partitions
        self.assigned: list[int] = [0] * members
        self.after = float("inf")
        self.first_of_member: dict[int, float] = {}
        """When it read the first record that was sent after `after`."""
        self.first_of_partition: dict[int, float] = {}
        self.stopped = threading.Event()

    def record(self, member: int, partition: int, sent: float) -> None:
        now = time.monotonic()
        self.partitions[partition] = sent
        self.members[member] = sent
        if sent > self.after:
            self.first_of_member.setdefault(member, now)
            self.first_of_partition.setdefault(partition, now)

    def killed(self) -> float:
        self.first_of_member.clear()
        self.first_of_partition.clear()
        self.after = time.monotonic()
        return self.after


def _librdkafka(seen: Seen, member: int, bootstrap: str) -> None:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": GROUP, "auto.offset.reset": "latest", **QUIET}
    )

    def assigned(_: object, partitions: object) -> None:
        seen.assigned[member] += 1

    consumer.subscribe([TOPIC], on_assign=assigned)
    while not seen.stopped.is_set():
        for message in consumer.consume(100, timeout=0.2):
            if message.error() is None:
                seen.record(member, message.partition() or 0, float(message.value() or 0))
    consumer.close()


def _kafka_python(seen: Seen, member: int, bootstrap: str) -> None:
    class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: object) -> None: ...

        def on_partitions_assigned(self, assigned: object) -> None:
            seen.assigned[member] += 1

    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap.split(","), group_id=GROUP)
    consumer.subscribe([TOPIC], listener=Listener())
    while not seen.stopped.is_set():
        try:
            for records in consumer.poll(200).values():
                for each in records:
                    seen.record(member, each.partition, float(each.value))
        except KafkaError:
            continue  # it raises if it asks a broker for metadata that has just died
    consumer.close()


def _aiokafka(seen: Seen, member: int, bootstrap: str) -> None:
    asyncio.run(_read_aiokafka(seen, member, bootstrap))


async def _read_aiokafka(seen: Seen, member: int, bootstrap: str) -> None:
    consumer = AIOKafkaConsumer(TOPIC, bootstrap_servers=bootstrap, group_id=GROUP)
    await consumer.start()
    held: object = None
    while not seen.stopped.is_set():
        for records in (await consumer.getmany(timeout_ms=200)).values():
            for each in records:
                seen.record(member, each.partition, float(each.value))
        if consumer.assignment() != held:
            held = consumer.assignment()
            seen.assigned[member] += 1
    await consumer.stop()


def _produce(seen: Seen, bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET})
    while not seen.stopped.is_set():
        for partition in range(len(seen.partitions)):
            producer.produce(TOPIC, str(time.monotonic()).encode(), partition=partition)
        producer.poll(0)
        time.sleep(INTERVAL_S)
    producer.flush(10)


def _commit_offsets(admin: AdminClient, *, offsets: int, partitions: int, count: int) -> None:
    """Commit so many offsets of other groups in the group's partition of `__consumer_offsets`."""
    own = partition_of(GROUP, partitions)
    names = (
        name for name in map("other-{}".format, itertools.count()) if partition_of(name, partitions) == own
    )
    left = list(itertools.islice(names, offsets // count))
    while left:
        asked = [
            ConsumerGroupTopicPartitions(name, [TopicPartition(TOPIC, each, 1) for each in range(count)])
            for name in left[:20]
        ]
        futures = {each.group_id: admin.alter_consumer_group_offsets([each])[each.group_id] for each in asked}
        for name, future in futures.items():
            # A broker may not have heard of the topic yet.
            if all(each.error is None for each in future.result().topic_partitions):
                left.remove(name)


async def _ask(address: Address, partitions: int) -> tuple[int, ErrorCode]:
    """Whom this broker names as the coordinator, and the error of the group's offsets here."""
    async with open_client(RealNetwork(), address, timeout_s=2) as client:
        found = cast(
            "FindCoordinatorResponse",
            await client.call(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=[GROUP]),
        )
        fetched = cast(
            "OffsetFetchResponse",
            await client.call(
                ApiKey.OFFSET_FETCH,
                at_most=BY_NAME[ApiKey.OFFSET_FETCH],
                groups=[{"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}],
                require_stable=False,
            ),
        )
    return found.coordinators[0].node_id, fetched.groups[0].error_code


def _coordinator(cluster: LocalCluster, partitions: int) -> int:
    while True:
        address = Address(cluster.host, cluster.node(cluster.running()[0]).client_port)
        coordinator, _ = trio.run(_ask, address, partitions)
        if coordinator > 0:
            return coordinator
        time.sleep(0.1)


def _answered(cluster: LocalCluster, survivors: list[int], partitions: int) -> float:
    """When one of them first answered for the group."""
    addresses = [Address(cluster.host, cluster.node(each).client_port) for each in survivors]

    async def ask() -> None:
        with trio.fail_after(PATIENCE_S):
            while True:
                for address in addresses:
                    try:
                        if (await _ask(address, partitions))[1] is ErrorCode.none:
                            return
                    except (NetworkError, RefusedError):
                        pass
                await trio.sleep(0.02)

    trio.run(ask)
    return time.monotonic()


def _load_seconds(cluster: LocalCluster, survivors: list[int]) -> float:
    """How long the newest load took, by its log line."""
    found = [
        (match[1], int(match[2]))
        for each in survivors
        for match in re.finditer(
            r"^(\S+) .*groups loaded .*\bms=(\d+)", cluster.node(each).log_file.read_text(), re.M
        )
    ]
    return max(found)[1] / 1000


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {PATIENCE_S:g} s")
        time.sleep(0.01)


def _one_kill(cluster: LocalCluster, seen: Seen, partitions: int) -> dict[str, float]:
    victim = _coordinator(cluster, partitions)
    survivors = [each for each in cluster.running() if each != victim]
    assigned = sum(seen.assigned)
    os.kill(cluster.pid(victim), signal.SIGKILL)
    killed = seen.killed()
    answered = _answered(cluster, survivors, partitions)
    _wait(lambda: len(seen.first_of_member) == len(seen.members), "every member reads")
    _wait(lambda: len(seen.first_of_partition) == len(seen.partitions), "every partition is read")
    found = {
        "groups loaded, on its own": _load_seconds(cluster, survivors),
        "offsets answered": answered - killed,
        "half of the members read": statistics.median(seen.first_of_member.values()) - killed,
        "every member reads": max(seen.first_of_member.values()) - killed,
        "every partition is read": max(seen.first_of_partition.values()) - killed,
        "kafka-python": seen.first_of_member[len(seen.members) - 2] - killed,
        "aiokafka": seen.first_of_member[len(seen.members) - 1] - killed,
    }
    cluster.kill(victim)
    time.sleep(5)
    found["new assignments"] = sum(seen.assigned) - assigned
    cluster.start(victim)
    priority.as_ours(cluster.pid(victim))
    cluster.wait_ready()
    time.sleep(8)  # its replicas are in sync again
    return found


def run(folder: Path, *, members: int, offsets: int, kills: int) -> Report:
    cluster = planned(folder / "cluster", overrides=DEFAULT_TIMES)
    seen = Seen(members, members)
    threads: list[threading.Thread] = []
    rounds: list[dict[str, float]] = []
    with serving(cluster):
        try:
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
            admin.create_topics([NewTopic(TOPIC, members, 3)])[TOPIC].result(timeout=60)
            _coordinator(cluster, 0)
            partitions = len(admin.list_topics(OFFSETS_TOPIC, timeout=30).topics[OFFSETS_TOPIC].partitions)
            _commit_offsets(admin, offsets=offsets, partitions=partitions, count=members)
            for number in range(members):
                kind = {members - 2: _kafka_python, members - 1: _aiokafka}.get(number, _librdkafka)
                threads.append(threading.Thread(target=kind, args=(seen, number, cluster.bootstrap)))
            threads.append(threading.Thread(target=_produce, args=(seen, cluster.bootstrap)))
            for thread in threads:
                thread.start()
            _wait(lambda: all(seen.members) and all(seen.partitions), "every member reads at first")
            for _ in range(kills):
                time.sleep(6)
                rounds.append(_one_kill(cluster, seen, partitions))
                print(", ".join(f"{name} {value:.3g}" for name, value in rounds[-1].items()), flush=True)
        finally:
            seen.stopped.set()
            for thread in threads:
                thread.join()
    return Report(
        title=f"kill -9 of the coordinator of {members} members, with {offsets:,} committed offsets",
        systems=["quorate"],
        grids=[
            Grid(
                title="s from the kill",
                columns=("by", "median", "worst"),
                rows=[
                    (name, f"{statistics.median(values):.2f}", f"{max(values):.2f}")
                    for name in rounds[0]
                    for values in [[each[name] for each in rounds]]
                ],
            )
        ],
        rounds=[dict(each) for each in rounds],
    )
