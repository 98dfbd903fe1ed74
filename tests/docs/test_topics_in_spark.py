"""docs/how-to/topics-in-spark.md: Spark's Kafka source and sink while brokers are killed, and both logs."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from documents import BLOCKS, ENVIRONMENT, run
from spark_packages import spark_package

from quorate.cli.node.local_cluster import LocalCluster
from tests.kit.clusters import running_cluster, wait_in_sync
from tests.kit.waiting import wait_until

pytestmark = [
    pytest.mark.clients,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(1800),  # 4 minutes on a quiet machine, 11 on one with a load of 10.
]

PAGE = "topics-in-spark.md"
TOPIC = "orders"
PARTITIONS = 3
SENT_BY_SPARK = 100_000
"""By each run of the page's program. Its own number would be sent before a broker can be killed."""
QUITE_SOME = 2_000
"""More than what the stock producer has not heard of."""
PER_SECOND = 200
DOWN_SECONDS = 3.0
SECONDS = 300.0


@pytest.fixture(scope="module")
def jars() -> list[Path]:
    """Spark's Kafka source, from Maven."""
    return spark_package("kafka")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with running_cluster(tmp_path / "cluster") as cluster:
        yield cluster


@pytest.fixture
def program(cluster: LocalCluster, jars: list[Path], tmp_path: Path) -> Callable[[str], Path]:
    """Writes a program of the page, for this cluster and with the jars that Maven fetched."""

    def write(name: str) -> Path:
        (block,) = (each for each in BLOCKS if each.file.name == PAGE and each.file_name == name)
        text = block.body.replace("localhost:9092,localhost:9093,localhost:9094", cluster.bootstrap)
        package = re.search(
            r'"spark.jars.packages": "org.apache.spark:(?P<name>[^:]*):(?P<version>[^"]*)"', text
        )
        if package is not None:
            assert f"{package['name']}-{package['version']}.jar" in {jar.name for jar in jars}
            text = text.replace(package[0], f'"spark.jars": "{",".join(map(str, jars))}"')
        file = tmp_path / name
        file.write_text(text)
        return file

    return write


@contextmanager
def running(program: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program that goes on, and kill it with all that it started."""
    with program.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, program],
            cwd=program.parent,
            env=ENVIRONMENT,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):  # it has ended
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def log_of(program: Path) -> str:
    return program.with_suffix(".log").read_text()


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes], program: Path) -> None:
    """Return when `condition` holds. Fails if the program ends before."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert process.poll() is None, log_of(program)
        assert time.monotonic() < deadline, f"{program.name} has not come so far: {log_of(program)}"
        time.sleep(0.02)


@dataclass
class Sender:
    """A stock producer that sends at a steady pace, and knows what was acknowledged."""

    bootstrap: str
    acknowledged: list[bytes] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        number = 0
        while not self.over.wait(1 / PER_SECOND):
            value = b"sent %d" % number
            producer.produce(TOPIC, value, key=value, on_delivery=self._delivered)
            producer.poll(0)
            number += 1
        assert producer.flush(60) == 0, "records wait for an acknowledgement"

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged.append(message.value())  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Interval:
    """Seconds since the Unix epoch."""

    begin: float
    end: float


@dataclass(frozen=True)
class Record:
    value: bytes
    leader_epoch: int


def read_topic(bootstrap: str) -> dict[tuple[int, int], Record]:
    """Return all records by their partition and offset, as a stock consumer sees them."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "truth", "enable.auto.commit": False})
    found = {}
    try:
        for number in range(PARTITIONS):
            part = TopicPartition(TOPIC, number, 0)
            _, end = consumer.get_watermark_offsets(part, timeout=30)
            consumer.assign([part])
            at = 0
            while at < end:
                for message in consumer.consume(1000, timeout=30):
                    assert message.error() is None, message.error()
                    at = message.offset() + 1
                    found[number, message.offset()] = Record(message.value(), message.leader_epoch())
    finally:
        consumer.close()
    return found


@contextmanager
def asking_for_ends(bootstrap: str) -> Iterator[Callable[[], dict[str, int]]]:
    """Provide a function that returns the end offsets of the partitions, as Spark writes them."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ends"})
    parts = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    try:
        yield lambda: {
            str(part.partition): consumer.get_watermark_offsets(part, timeout=30)[1] for part in parts
        }
    finally:
        consumer.close()


def kept(checkpoint: Path) -> dict[str, int]:
    """Return the end offsets of the stream's last batch that is complete."""
    done = [int(file.name) for file in (checkpoint / "commits").glob("[0-9]*")]
    if not done:
        return {}
    line = (checkpoint / "offsets" / str(max(done))).read_text().splitlines()[-1]
    offsets: dict[str, int] = json.loads(line)[TOPIC]
    return offsets


def led_by(cluster: LocalCluster) -> list[int]:
    partitions: Any = cluster.describe_topic(TOPIC)["partitions"]
    return [partition["leader"] for partition in partitions]


def test_files_have_each_record_once_though_brokers_and_the_job_are_killed(
    cluster: LocalCluster, program: Callable[[str], Path], tmp_path: Path
) -> None:
    (create,) = (each.body for each in BLOCKS if each.file.name == PAGE and each.language == "sh")
    made = run("bash", "-euc", create.replace("localhost:9092", cluster.bootstrap), folder=tmp_path)
    assert made.returncode == 0, made.stderr
    wait_in_sync(cluster, TOPIC)
    keep, send = program("keep_orders.py"), program("send_orders.py")
    checkpoint = tmp_path / "orders-checkpoint"
    send.write_text(send.read_text().replace("10_000", str(SENT_BY_SPARK)))
    sender = Sender(cluster.bootstrap)

    def kill_while_all_are_at_work(node: int) -> Interval:
        before = kept(checkpoint)
        with running(keep) as job, asking_for_ends(cluster.bootstrap) as ends:
            wait_for(lambda: kept(checkpoint) != before, job, keep)
            assert node in led_by(cluster), f"node {node} leads nothing, so its death shows nothing"

            def sent_by_spark() -> int:
                return sum(ends().values()) - len(sender.acknowledged)

            sent = sent_by_spark()
            with running(send) as sink:
                wait_for(lambda: sent_by_spark() > sent + QUITE_SOME, sink, send)
                cluster.kill(node)
                wait_until(lambda: node not in led_by(cluster), f"{node} leads nothing", seconds=30)
                down = Interval(time.time(), time.time() + DOWN_SECONDS)
                time.sleep(DOWN_SECONDS)
                cluster.start(node)
                cluster.wait_ready(seconds=60)
                wait_in_sync(cluster, TOPIC)
                assert sink.wait(SECONDS) == 0, log_of(send)
        return down

    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(sender.run)
        try:
            # Each time with another job, which continues where the one before it was killed.
            downs = {node: kill_while_all_are_at_work(node) for node in (1, 2, 3)}
        finally:
            sender.over.set()
        sending.result()
    with asking_for_ends(cluster.bootstrap) as ends, running(keep) as job:
        everything = ends()
        wait_for(lambda: kept(checkpoint) == everything, job, keep)

    truth = read_topic(cluster.bootstrap)
    found, expected = Counter(record.value for record in truth.values()), Counter(sender.acknowledged)
    expected.update({b"order %d" % number: len(downs) for number in range(SENT_BY_SPARK)})
    lost, more = expected - found, found - expected
    assert not sender.failed
    assert (lost.total(), more.total()) == (0, 0), "the topic has what was sent, each record once"

    rows = joined(program("orders_and_leaders.py"))
    places = Counter((row["partition"], row["offset"]) for row in rows)
    lost_places, more_places = truth.keys() - places.keys(), places - Counter(truth.keys())
    assert (len(lost_places), more_places.total()) == (0, 0), "the files have the topic, each record once"
    others = 0
    for row in rows:
        record = truth[row["partition"], row["offset"]]
        assert row["value"] == record.value
        others += row["leader_epoch"] != record.leader_epoch
    for node, down in downs.items():
        beside = [row for row in rows if down.begin < row["timestamp"].timestamp() < down.end]
        assert any(row["value"].startswith(b"sent") for row in beside), "the stock producer sent meanwhile"
        assert any(row["value"].startswith(b"order") for row in beside), "Spark sent meanwhile"
        assert not [row for row in beside if row["leader"] == node or node in row["isr"]]
    print(f"{len(rows)} records, {len(sender.acknowledged)} of the stock producer; "
          f"{others} beside the state before or after their own")  # fmt: skip
    assert others * 1000 < len(rows)


def joined(program: Path) -> list[dict[str, Any]]:
    """Return the rows of which the page's program shows a summary."""
    text = program.read_text()
    program.write_text(text.replace("spark.stop()", "led.write.parquet('led')\nspark.stop()"))
    ended = run(sys.executable, program, folder=program.parent)
    assert ended.returncode == 0, ended.stderr
    print(ended.stdout)
    rows: list[dict[str, Any]] = pq.read_table(program.parent / "led").to_pylist()
    return rows
