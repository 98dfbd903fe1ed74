"""What a cluster costs a test: `quorate.testing` from a process that has imported nothing, and its slate."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median

from confluent_kafka import Consumer, Producer
from report import Measure, Report

from quorate.testing import ClusterPool, KafkaCluster

NODES = 3
TOPICS = tuple(f"topic-{number}" for number in range(3))
PARTITIONS = 3
TESTS = 5


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


def run(*, rounds: int) -> Report:
    found = [_measure() for _ in range(rounds)]
    return Report(
        title=f"clusters of {NODES} brokers for tests, {rounds} rounds",
        systems=["quorate"],
        measures=[
            _of("first cluster of a process, ready", "s", [each.cold for each in found], aim=2),
            _of("further cluster, ready", "s", [each.warm for each in found], aim=1),
            _of("kept cluster, ready", "ms", [1000 * each.used_again for each in found]),
            _of(
                f"{len(TOPICS)} topics of {PARTITIONS} partitions and a group, gone",
                "ms",
                [1000 * each.clean for each in found],
                aim=50,
            ),
            _of("the same, after the first test", "ms", [1000 * each.first_clean for each in found]),
        ],
        rounds=[asdict(each) for each in found],
    )


def _of(name: str, unit: str, values: Sequence[float], *, aim: float | None = None) -> Measure:
    middle = median(values)
    return Measure(
        name=name,
        unit=unit,
        values={"quorate": middle},
        aim="" if aim is None else f"at most {aim:g}",
        met=None if aim is None else middle <= aim,
    )


def _measure() -> Times:
    began = time.monotonic()
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the process of clusters ended with code {done.returncode}: {done.stderr}")
    found = json.loads(done.stdout)
    return Times(
        cold=found["ready_at"] - began,
        warm=found["warm"],
        used_again=found["used_again"],
        clean=found["clean"],
        first_clean=found["first_clean"],
    )


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
    finally:
        pool.close()
    found = {
        "ready_at": ready_at,
        "warm": warm,
        "first_clean": cleanings[0],
        "clean": median(cleanings[1:]),
        "used_again": median(waits),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    _child()
