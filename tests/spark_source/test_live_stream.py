"""A real streaming query on a real cluster: the quorum's leader is killed in mid-stream, then the query, then
another leader while no query runs. It continues from its checkpoint."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.record.memory_records import MemoryRecords
from pyspark.sql import SparkSession

from quorate.broker.metadata.metadata_records import Partition, PartitionChange, RemoveTopic, Topic
from quorate.broker.metadata.record_codec import decode
from quorate.cli.node.local_cluster import LocalCluster
from quorate.log.batches.control import read_leader_change

pytestmark = [pytest.mark.spark, pytest.mark.system, pytest.mark.slow]

SECONDS = 300.0
QUERY = """
import sys
from quorate.spark_source import spark_session

bootstrap, folder = sys.argv[1:]
spark = spark_session("a query that is killed")
(
    spark.readStream.format("quorate")
    .option("bootstrapServers", bootstrap)
    .option("startingOffsets", "earliest")
    .option("includeControl", True)
    .load()
    .writeStream.format("parquet")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .start(f"{folder}/rows")
    .awaitTermination()
)
"""


def wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {SECONDS:g} s"
        time.sleep(0.02)


@dataclass
class Checkpoint:
    """The state of a query in Spark's checkpoint folder."""

    folder: Path

    def planned(self) -> int:
        """The last batch whose offsets are logged; -1: none."""
        return self._last("offsets")

    def done(self) -> int:
        return self._last("commits")

    def end_offset(self) -> int:
        """Where the last batch ends that is done (exclusive)."""
        done = self.done()
        if done < 0:
            return 0
        position = json.loads((self.folder / "offsets" / str(done)).read_text().splitlines()[-1])
        return int(position["offset"])

    def _last(self, log: str) -> int:
        return max((int(file.name) for file in (self.folder / log).glob("[0-9]*")), default=-1)


@dataclass
class Topics:
    """Creates topics, and deletes every third, with a stock client, until told to stop."""

    bootstrap: str
    created: dict[str, tuple[float, float]] = field(default_factory=dict)
    """When each was asked for and when it was there (ms)."""
    deleted: list[str] = field(default_factory=list)
    problems: list[BaseException] = field(default_factory=list)

    @contextmanager
    def changing(self) -> Iterator[None]:
        stop = threading.Event()
        thread = threading.Thread(target=self._work, args=(stop,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        assert not self.problems, self.problems

    def _work(self, stop: threading.Event) -> None:
        try:
            admin = AdminClient({"bootstrap.servers": self.bootstrap})
            while not stop.is_set():
                name = f"topic-{len(self.created)}"
                asked = time.time() * 1000
                self._insist(
                    lambda name=name: admin.create_topics([NewTopic(name, 1, 3)], request_timeout=5)[name],
                    KafkaError.TOPIC_ALREADY_EXISTS,
                )
                self.created[name] = asked, time.time() * 1000
                if len(self.created) % 3 == 0:
                    self._insist(
                        lambda name=name: admin.delete_topics([name], request_timeout=5)[name],
                        KafkaError.UNKNOWN_TOPIC_OR_PART,
                    )
                    self.deleted.append(name)
                stop.wait(0.2)
        except BaseException as problem:
            self.problems.append(problem)

    def _insist(self, request: Callable[[], Any], done_before: int) -> None:
        """Again until it is answered. What was sent to a leader that died may have happened."""
        deadline = time.monotonic() + SECONDS
        tries = 0
        while True:
            tries += 1
            try:
                request().result(10)
                return
            except KafkaException as error:
                if tries > 1 and error.args[0].code() == done_before:
                    return
                if time.monotonic() > deadline:
                    raise


def kill_leader(cluster: LocalCluster) -> int:
    leader = cluster.describe_quorum()["leaderId"]
    assert isinstance(leader, int)
    cluster.kill(leader)
    return leader


def others_dump(log_folder: Path) -> list[tuple[int, int, bool]]:
    """(offset, timestamp, whether it is a control record) of each record, read by kafka-python."""
    found = []
    for file in sorted(log_folder.glob("*.log")):
        records = MemoryRecords(file.read_bytes())
        while (batch := records.next_batch()) is not None:
            found += [(record.offset, record.timestamp, batch.is_control_batch) for record in batch]
    return found


def test_a_query_sees_each_record_once_through_leader_changes_and_its_own_death(
    spark: SparkSession, make_cluster: Callable[..., LocalCluster], tmp_path: Path
) -> None:
    cluster = make_cluster()
    folder = tmp_path / "query"
    checkpoint = Checkpoint(folder / "checkpoint")
    topics = Topics(cluster.bootstrap)
    query = subprocess.Popen(
        [sys.executable, "-c", QUERY, cluster.bootstrap, str(folder)], start_new_session=True
    )
    try:
        with topics.changing():
            wait(lambda: checkpoint.done() >= 1, "the query reads while topics are made")
            leader = kill_leader(cluster)
            at_kill, created_at_kill = checkpoint.end_offset(), len(topics.created)
            wait(lambda: len(topics.created) > created_at_kill + 3, "topics are made by the next leader")
            answered = int(str(cluster.describe_quorum()["highWatermark"]))
            assert answered > at_kill
            wait(lambda: checkpoint.end_offset() >= answered, "the query follows the next leader")
            assert query.poll() is None
            cluster.start(leader)
            wait(lambda: checkpoint.planned() > checkpoint.done(), "a batch is under way")
            os.killpg(query.pid, signal.SIGKILL)
            query.wait()
            interrupted = checkpoint.planned()
            assert interrupted > checkpoint.done(), "the query was not killed within a batch"
            cluster.wait_ready()
            leader = kill_leader(cluster)
            created_at_kill = len(topics.created)
            wait(lambda: len(topics.created) > created_at_kill + 3, "topics are made by the third leader")
        cluster.start(leader)
        cluster.wait_ready()
    finally:
        if query.poll() is None:
            os.killpg(query.pid, signal.SIGKILL)
            query.wait()

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    told: dict[tuple[str, int], tuple[int, list[int]]] = {}
    kept = TopicCollection([name for name in topics.created if name not in topics.deleted])

    def all_in_sync() -> bool:
        for name, asked in admin.describe_topics(kept, request_timeout=10).items():
            for partition in asked.result().partitions:
                told[name, partition.id] = partition.leader.id, sorted(node.id for node in partition.isr)
        return all(len(isr) == 3 for _, isr in told.values())

    wait(all_in_sync, "all replicas are in sync")
    (
        spark.readStream.format("quorate")
        .option("bootstrapServers", cluster.bootstrap)
        .option("startingOffsets", "earliest")
        .option("includeControl", True)
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", str(checkpoint.folder))
        .trigger(availableNow=True)
        .start(str(folder / "rows"))
        .awaitTermination()
    )
    assert checkpoint.done() > interrupted
    rows = spark.read.parquet(str(folder / "rows")).orderBy("offset").collect()

    # Every record once, none left out.
    assert [row["offset"] for row in rows] == list(range(checkpoint.end_offset()))
    leaders = [read_leader_change(row["value"]) for row in rows if row["recordType"] == "LeaderChange"]
    assert len(leaders) >= 3
    assert [row["epoch"] for row in rows] == sorted(row["epoch"] for row in rows)

    # What the client was told: created, deleted, and who leads now.
    records = [(row, decode(bytes(row["value"]))) for row in rows if row["key"] is None]
    names = {each.topic_id: each.name for _, each in records if isinstance(each, Topic)}
    made = {
        each.name: row["timestamp"].timestamp() * 1000 for row, each in records if isinstance(each, Topic)
    }
    assert len(made) == sum(row["recordType"] == "Topic" for row in rows)
    assert made.keys() == topics.created.keys()
    for name, (asked, answered_at) in topics.created.items():
        assert asked - 1 <= made[name] <= answered_at + 1, name
    removed = [names[each.topic_id] for _, each in records if isinstance(each, RemoveTopic)]
    assert removed == topics.deleted
    last: dict[tuple[str, int], tuple[int, list[int]]] = {}
    for _, each in records:
        if isinstance(each, Partition | PartitionChange):
            partition = names[each.topic_id], each.partition_id
            before = last.get(partition, (-1, []))
            leader = before[0] if each.leader is None else each.leader
            isr = before[1] if each.isr is None else sorted(each.isr)
            last[partition] = leader, isr
    assert told == {key: state for key, state in last.items() if key[0] not in topics.deleted}

    # What is in the folders, decoded by others.
    assert set(cluster.stop().values()) == {0}
    for node in cluster.nodes:
        dump = others_dump(node.folder / "data" / "__cluster_metadata-0")
        assert len(dump) >= len(rows)
        assert dump[: len(rows)] == [
            (row["offset"], round(row["timestamp"].timestamp() * 1000), row["key"] is not None)
            for row in rows
        ]
