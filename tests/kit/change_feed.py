"""Rows of `view=changes`, written as a story: what happened to brokers, topics and partitions, in order."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

SCHEMA = """
offset bigint, epoch int, timestamp timestamp, batch_offset bigint, snapshot boolean, row int,
_change_type string, record_type string, reason string, last_heard timestamp, entity string,
partition struct<topic: string, topic_id: string, partition_id: int, replicas: array<int>, isr: array<int>,
  removing_replicas: array<int>, adding_replicas: array<int>, leader: int, leader_recovery_state: string,
  leader_epoch: int, partition_epoch: int, eligible_leader_replicas: array<int>, last_known_elr: array<int>,
  directories: array<string>, offline_replicas: array<int>>,
topic struct<name: string, topic_id: string,
  first_epochs: array<struct<partition_id: int, leader_epoch: int>>>,
broker struct<broker_id: int, incarnation_id: string, broker_epoch: bigint,
  listeners: array<struct<name: string, host: string, port: int>>, rack: string,
  features: array<struct<name: string, min_level: int, max_level: int>>, fenced: boolean,
  in_controlled_shutdown: boolean, log_dirs: array<string>, inactive_reason: string, proven_epoch: bigint>,
config struct<resource_type: string, resource_name: string, name: string, value: string>,
quota struct<entity: struct<user: string, client_id: string, ip: string>, key: string, value: double>,
feature struct<name: string, level: int>,
quorum struct<leader: int, leader_epoch: int, kraft_version: int,
  voters: array<struct<id: int, directory_id: string, host: string, port: int>>>
"""
"""The schema of the view, as its reference has it."""
T0 = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)

Fields = dict[str, Any]


@dataclass(slots=True)
class ChangeFeed:
    """Each call is a record in a batch of its own, at `now`, unless it stands in `with feed.batch():`."""

    now: datetime = T0
    rows: list[Fields] = field(default_factory=list)
    offset: int = 0
    partitions: dict[tuple[str, int], Fields] = field(default_factory=dict)
    brokers: dict[int, Fields] = field(default_factory=dict)
    topics: dict[str, Fields] = field(default_factory=dict)
    configs: dict[tuple[str, str, str], Fields] = field(default_factory=dict)
    quorum: Fields | None = None
    created: int = 0
    _batch: int | None = None
    _row: int = 0

    def wait(self, seconds: float) -> None:
        """Let time pass, or with a negative number go back: another leader has another clock."""
        self.now += timedelta(seconds=seconds)

    @contextmanager
    def batch(self) -> Iterator[None]:
        around, self._batch = self._batch, self.offset if self._batch is None else self._batch
        yield
        self._batch = around

    def elect_controller(self, leader: int) -> None:
        epoch = 0 if self.quorum is None else self.quorum["leader_epoch"]
        before, self.quorum = (
            self.quorum,
            {"leader": leader, "leader_epoch": epoch + 1, "kraft_version": 1, "voters": []},
        )
        self._record("LeaderChange", [self._became("quorum", before, self.quorum)])

    def register(self, broker: int) -> None:
        """Register a new process of the broker, which is fenced."""
        self.created += 1
        state = {
            "broker_id": broker,
            "broker_epoch": self.offset,
            "incarnation_id": f"process-{self.created}",
            "fenced": True,
            "in_controlled_shutdown": False,
            "log_dirs": [],
            "listeners": [],
            "features": [],
        }
        before = self.brokers.get(broker)
        self.brokers[broker] = state
        self._record("RegisterBroker", [self._became("broker", before, state)])

    def unfence(self, broker: int) -> None:
        self._change_broker(broker, "BROKER_UNFENCED", fenced=False, in_controlled_shutdown=False)

    def fence(self, broker: int, reason: str, *, last_heard: datetime | None = None) -> None:
        self._change_broker(broker, reason, last_heard, fenced=True, inactive_reason=reason)

    def shut_down(self, broker: int) -> None:
        self._change_broker(
            broker, "CONTROLLED_SHUTDOWN", in_controlled_shutdown=True, inactive_reason="CONTROLLED_SHUTDOWN"
        )

    def create(self, topic: str, *assignments: list[int]) -> None:
        """Create a topic with partitions on these replicas, led by the first."""
        self.created += 1
        with self.batch():
            state = {"name": topic, "topic_id": f"{topic}-{self.created}", "first_epochs": []}
            self.topics[topic] = state
            self._record("Topic", [self._became("topic", None, state)])
            for number, replicas in enumerate(assignments):
                partition = {
                    "topic": topic,
                    "topic_id": state["topic_id"],
                    "partition_id": number,
                    "leader": replicas[0],
                    "leader_epoch": 0,
                    "partition_epoch": 0,
                    "replicas": replicas,
                    "isr": replicas,
                    "leader_recovery_state": "RECOVERED",
                    "adding_replicas": [],
                    "removing_replicas": [],
                    "eligible_leader_replicas": [],
                    "last_known_elr": [],
                    "directories": [],
                    "offline_replicas": self._offline(replicas),
                }
                self.partitions[topic, number] = partition
                self._record("Partition", [self._became("partition", None, partition)])

    def change(self, topic: str, partition: int, reason: str, **fields: Any) -> None:
        """Change a partition. A leader that is named begins another leader epoch."""
        before = self.partitions[topic, partition]
        after = {**before, **fields, "partition_epoch": before["partition_epoch"] + 1}
        after["leader_epoch"] += "leader" in fields
        after["offline_replicas"] = self._offline(after["replicas"])
        self.partitions[topic, partition] = after
        self._record("PartitionChange", [self._became("partition", before, after)], reason)

    def remove(self, topic: str) -> None:
        gone = [key for key in self.partitions if key[0] == topic]
        set_keys = [key for key in self.configs if key[:2] == ("TOPIC", topic)]
        changes = [("topic", [("delete", self.topics.pop(topic))])]
        changes += [("partition", [("delete", self.partitions.pop(key))]) for key in gone]
        changes += [("config", [("delete", self.configs.pop(key))]) for key in set_keys]
        self._record("RemoveTopic", changes)

    def configure(self, resource_type: str, resource_name: str, name: str, value: str | None) -> None:
        key = (resource_type, resource_name, name)
        before = self.configs.pop(key, None)
        if value is None:
            self._record("Config", [("config", [("delete", before)])])
            return
        state = dict(zip(("resource_type", "resource_name", "name", "value"), (*key, value), strict=True))
        self.configs[key] = state
        self._record("Config", [self._became("config", before, state)])

    def restart(self) -> None:
        """Begin anew from a snapshot of what is now."""
        states = [
            *(("quorum", each) for each in [self.quorum] if each is not None),
            *(("broker", each) for each in self.brokers.values()),
            *(("topic", each) for each in self.topics.values()),
            *(("partition", each) for each in self.partitions.values()),
            *(("config", each) for each in self.configs.values()),
        ]
        self._add({"snapshot": True, "_change_type": "snapshot"})
        for entity, state in states:
            row = {"snapshot": True, "_change_type": "insert", "entity": entity, entity: deepcopy(state)}
            self._add(row)
        self._next()

    def tuples(self, rows: Iterable[Fields] | None = None) -> list[tuple[Any, ...]]:
        """The rows for `createDataFrame(..., SCHEMA)`, or some of them."""
        names = [each.split()[0] for each in _columns(SCHEMA)]
        return [tuple(row.get(name) for name in names) for row in (self.rows if rows is None else rows)]

    def _offline(self, replicas: Iterable[int]) -> list[int]:
        return [each for each in replicas if each in self.brokers and self.brokers[each]["fenced"]]

    def _change_broker(
        self, broker: int, reason: str, last_heard: datetime | None = None, **fields: Any
    ) -> None:
        before = self.brokers[broker]
        after = self.brokers[broker] = {**before, **fields}
        changes = [self._became("broker", before, after)]
        for key, partition in self.partitions.items():
            offline = self._offline(partition["replicas"])
            if offline != partition["offline_replicas"]:
                self.partitions[key] = {**partition, "offline_replicas": offline}
                changes.append(self._became("partition", partition, self.partitions[key]))
        self._record("BrokerRegistrationChange", changes, reason, last_heard)

    @staticmethod
    def _became(
        entity: str, before: Fields | None, after: Fields
    ) -> tuple[str, list[tuple[str, Fields | None]]]:
        if before is None:
            return entity, [("insert", after)]
        return entity, [("update_preimage", before), ("update_postimage", after)]

    def _record(
        self,
        record_type: str,
        changes: Iterable[tuple[str, list[tuple[str, Fields | None]]]],
        reason: str | None = None,
        last_heard: datetime | None = None,
    ) -> None:
        for entity, states in changes:
            for change_type, state in states:
                said: Mapping[str, Any] = {
                    "record_type": record_type,
                    "reason": reason,
                    "last_heard": last_heard,
                }
                self._add({**said, "_change_type": change_type, "entity": entity, entity: deepcopy(state)})
        self._next()

    def _add(self, row: Fields) -> None:
        batch = self.offset if self._batch is None else self._batch
        place = {"offset": self.offset, "row": self._row, "epoch": 1, "timestamp": self.now}
        self.rows.append(
            {"snapshot": False, **place, "batch_offset": None if row.get("snapshot") else batch, **row}
        )
        self._row += 1

    def _next(self) -> None:
        self.offset += 1
        self._row = 0


def _columns(schema: str) -> Iterator[str]:
    """The top-level columns of a schema."""
    depth, column = 0, ""
    for char in schema:
        depth += {"<": 1, ">": -1}.get(char, 0)
        if char == "," and depth == 0:
            yield column.strip()
            column = ""
        else:
            column += char
    yield column.strip()
