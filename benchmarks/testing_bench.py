"""What a cluster costs a test: `quorate.testing` from a process that has imported nothing, and its slate.
Beside it, Apache Kafka's own brokers."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from clusters import HERE
from confluent_kafka import Consumer, Producer
from kafka_nodes import KafkaNodes, jars
from report import Measure, Report, median_or_none

from quorate.testing import ClusterPool, KafkaCluster

NODES = 3
TOPICS = tuple(f"topic-{number}" for number in range(3))
PARTITIONS = 3
TESTS = 5
KAFKA_HEAP = "256M"


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds. The brokers serve, and each knows all others."""

    cold: float
    """From the start of a process that has imported nothing to its first cluster."""
    warm: float
    """A further cluster of that process."""
    used_again: float
    """A cluster that another test has used and that was cleaned."""
    clean: float
    """Topics and a group of a test deleted, after the test."""
    first_clean: float
    """The same after the first test of the process."""
    single: float
    """A further cluster of one broker."""
    quorum_cold: float
    """As `cold`, for a quorum of a state machine whose nodes know a leader."""
    quorum_warm: float
    """A further quorum of that process."""
    kafka: float | None
    """Kafka's brokers, from the format of their folders until each knows all others. None: not run."""
    kafka_single: float | None
    """The same for one broker."""


def run(folder: Path, *, rounds: int, systems: Sequence[str] = ()) -> Report:
    notes: list[str] = []
    runs_kafka = not systems or "kafka" in systems
    if runs_kafka:
        notes.append(
            f"Kafka's nodes are JVMs with a heap of {KAFKA_HEAP}, each broker and controller, and start anew "
            "for each cluster. Testcontainers' Kafka is not measured: it needs Docker."
        )
        try:
            jars.class_path()
        except jars.CantRunHereError as error:
            runs_kafka = False
            notes = [f"Kafka is left out: {error}"]
    found = [_measure(folder / str(number), runs_kafka=runs_kafka) for number in range(rounds)]
    return Report(
        title=f"clusters of {NODES} nodes for tests, {rounds} rounds",
        systems=["quorate", "kafka"] if runs_kafka else ["quorate"],
        measures=[
            _of(
                f"{NODES} brokers, first cluster of a process, ready",
                "s",
                [each.cold for each in found],
                aim=2,
            ),
            _of(
                f"{NODES} brokers, further cluster, ready",
                "s",
                [each.warm for each in found],
                kafka=[each.kafka for each in found],
                aim=1,
            ),
            _of(
                "1 broker, further cluster, ready",
                "s",
                [each.single for each in found],
                kafka=[each.kafka_single for each in found],
            ),
            _of(f"{NODES} brokers, kept cluster, ready", "ms", [1000 * each.used_again for each in found]),
            _of(
                f"{len(TOPICS)} topics of {PARTITIONS} partitions and a group, gone",
                "ms",
                [1000 * each.clean for each in found],
                aim=50,
            ),
            _of("the same, after the first test", "ms", [1000 * each.first_clean for each in found]),
            _of(
                f"quorum of {NODES} nodes, first of a process, ready",
                "s",
                [each.quorum_cold for each in found],
            ),
            _of(f"quorum of {NODES} nodes, further one, ready", "s", [each.quorum_warm for each in found]),
        ],
        notes=notes,
        rounds=[asdict(each) for each in found],
    )


def _of(
    name: str,
    unit: str,
    values: Sequence[float],
    *,
    kafka: Sequence[float | None] = (),
    aim: float | None = None,
) -> Measure:
    middle = median(values)
    return Measure(
        name=name,
        unit=unit,
        values={"quorate": middle, "kafka": median_or_none(kafka)},
        aim="" if aim is None else f"at most {aim:g}",
        met=None if aim is None else middle <= aim,
    )


def _measure(folder: Path, *, runs_kafka: bool) -> Times:
    """Take one round. Each start follows one of another kind."""
    cold, brokers = _timed_child(Path(__file__))
    kafka = _start_kafka(folder / "kafka", nodes=NODES) if runs_kafka else None
    quorum_cold, quorum = _timed_child(HERE / "testing_quorum.py")
    return Times(
        cold=cold,
        warm=brokers["warm"],
        used_again=brokers["used_again"],
        clean=brokers["clean"],
        first_clean=brokers["first_clean"],
        single=brokers["single"],
        quorum_cold=quorum_cold,
        quorum_warm=quorum["warm"],
        kafka=kafka,
        kafka_single=_start_kafka(folder / "kafka-single", nodes=1) if runs_kafka else None,
    )


def _timed_child(program: Path) -> tuple[float, dict[str, Any]]:
    """Run a program of clusters. Return the time until its first one was ready, and what it printed."""
    began = time.monotonic()
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the process of clusters ended with code {done.returncode}: {done.stderr}")
    found = json.loads(done.stdout)
    return found["ready_at"] - began, found


def _start_kafka(folder: Path, *, nodes: int) -> float:
    cluster = KafkaNodes(folder, size=nodes, heap=KAFKA_HEAP)
    began = time.monotonic()
    try:
        cluster.start()
        cluster.wait_ready()
        return time.monotonic() - began
    finally:
        cluster.kill_all()


def _use(cluster: KafkaCluster) -> None:
    """Do what a test does: topics, a record in each, and a group that reads them."""
    for topic in TOPICS:
        cluster.create_topic(topic, partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for topic in TOPICS:
        producer.produce(topic, b"record")
    producer.flush()
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(list(TOPICS))
    consumer.consume(len(TOPICS), timeout=60)
    consumer.close()


def _child() -> None:
    pool = ClusterPool()
    try:
        pool.lend(NODES)
        ready_at = time.monotonic()
        cluster = pool.lend(NODES)
        warm = time.monotonic() - ready_at
        cleanings: list[float] = []
        waits: list[float] = []
        for _ in range(TESTS):
            _use(cluster)
            used_at = time.monotonic()
            pool.take_back(cluster)
            cleaned_at = time.monotonic()
            again = pool.lend(NODES)
            waits.append(time.monotonic() - cleaned_at)
            cleanings.append(cleaned_at - used_at)
            if again is not cluster:
                raise RuntimeError("the cluster was not cleaned, but stopped")
        single_at = time.monotonic()
        pool.lend(1)
        single = time.monotonic() - single_at
    finally:
        pool.close()
    found = {
        "ready_at": ready_at,
        "warm": warm,
        "single": single,
        "first_clean": cleanings[0],
        "clean": median(cleanings[1:]),
        "used_again": median(waits),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    _child()
