"""Reading a real cluster of processes, without Spark: what clients were told, what brokers serve, what is in
the folders, and what others decode from them."""

import json
import pickle
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cbor2
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.record.memory_records import MemoryRecords
from pyspark.sql.streaming.datasource import ReadAllAvailable

from quorate.cli.node.local_cluster import LocalCluster
from quorate.runtime.entropy import uuid_text
from quorate.spark_source import MetadataLogSource
from tests.spark_source.conftest import read_rows

pytestmark = pytest.mark.system
TOPIC_RECORD = 4


class Stream:
    """A stream whose every trigger is planned and read as after a restart."""

    def __init__(self, **options: str) -> None:
        self._options = options
        self._checkpoint: str | None = None
        self.rows: list[dict[str, Any]] = []

    def trigger(self) -> None:
        source = MetadataLogSource(self._options | {"view": "decoded", "startingOffsets": "earliest"})
        reader = source.streamReader(source.schema())
        start = json.loads(self._checkpoint or json.dumps(reader.initialOffset()))
        end = reader.latestOffset(start, ReadAllAvailable())
        for part in pickle.loads(pickle.dumps(reader.partitions(start, end))):
            self.rows += [row for batch in reader.read(part) for row in batch.to_pylist()]
        self._checkpoint = json.dumps(end)

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline
            self.trigger()

    def topics(self) -> list[str]:
        return [row["topic"]["name"] for row in self.rows if row["type"] == "Topic"]


def by_offset(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: int(row["offset"]))


def create(admin: AdminClient, name: str) -> tuple[float, float]:
    """When the topic was requested, and when the answer came (ms)."""
    asked = time.time() * 1000
    while True:
        try:
            admin.create_topics([NewTopic(name, num_partitions=2, replication_factor=3)])[name].result(30)
        except KafkaException as error:
            # The request was on its way to the killed node: librdkafka doesn't send it again.
            if error.args[0].code() == KafkaError._TRANSPORT:
                continue
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        return asked, time.time() * 1000


def others_dump(log_folder: Path) -> list[tuple[int, int, str, str]]:
    """(offset, timestamp, name, id) of Topic records: framing by kafka-python, records by cbor2."""
    found = []
    for file in sorted(log_folder.glob("*.log")):
        records = MemoryRecords(file.read_bytes())
        while (batch := records.next_batch()) is not None:
            for record in () if batch.is_control_batch else batch:
                number, _, body = cbor2.loads(record.value)
                if number == TOPIC_RECORD:
                    topic_id = uuid_text(uuid.UUID(bytes=body[1]))
                    found.append((record.offset, record.timestamp, body[0], topic_id))
    return found


def topic_of(row: dict[str, Any]) -> tuple[str, str]:
    return row["topic"]["name"], row["topic"]["topic_id"]


@pytest.mark.slow
def test_all_tell_the_same_through_a_leader_change(make_cluster: Callable[..., LocalCluster]) -> None:
    cluster = make_cluster()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    stream = Stream(bootstrapServers=cluster.bootstrap)
    answered = {name: create(admin, name) for name in ("orders", "scratch")}
    admin.delete_topics(["scratch"])["scratch"].result(30)
    stream.until(lambda: "scratch" in stream.topics())

    leader = cluster.describe_quorum()["leaderId"]
    assert isinstance(leader, int)
    cluster.kill(leader)
    answered["later"] = create(admin, "later")
    stream.until(lambda: "later" in stream.topics())
    cluster.start(leader)
    cluster.wait_ready()
    stream.trigger()

    live = by_offset(read_rows(bootstrapServers=cluster.bootstrap, view="decoded"))
    assert by_offset(stream.rows) == live[: len(stream.rows)]
    assert live[-1]["epoch"] > live[0]["epoch"]
    created = {row["topic"]["name"]: row for row in live if row["type"] == "Topic"}
    for name, (asked, told) in answered.items():
        assert asked - 1 <= created[name]["timestamp"].timestamp() * 1000 <= told + 1
    removed = [row["remove_topic"]["topic_id"] for row in live if row["type"] == "RemoveTopic"]
    assert removed == [created["scratch"]["topic"]["topic_id"]]
    changes = read_rows(bootstrapServers=cluster.bootstrap, view="partitions", readChangeFeed=True)
    for kind, names in {"insert": {"orders", "scratch", "later"}, "delete": {"scratch"}}.items():
        assert {row["topic"] for row in changes if row["_change_type"] == kind} == names
    state = read_rows(bootstrapServers=cluster.bootstrap, view="topics")
    assert {row["name"] for row in state} == {"orders", "later"}

    codes = cluster.stop()
    assert set(codes.values()) == {0}
    for node in cluster.nodes:
        offline = by_offset(read_rows(path=str(node.folder / "data"), view="decoded"))
        # A node that stopped first may know less, and the last to stop more.
        shared = min(len(offline), len(live))
        assert offline[:shared] == live[:shared]
        assert shared > len(live) // 2
        known = offline[-1]["offset"]
        dump = others_dump(node.folder / "data" / "__cluster_metadata-0")
        assert [each for each in dump if each[0] <= known] == [
            (row["offset"], round(row["timestamp"].timestamp() * 1000), *topic_of(row))
            for row in offline
            if row["type"] == "Topic"
        ]
