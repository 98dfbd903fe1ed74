"""`view=records`: one row per metadata record."""

from collections.abc import Iterable
from typing import ClassVar, NamedTuple
from uuid import UUID

from pyspark.sql.types import StructType

from quorate.broker.metadata.metadata_records import (
    BrokerRegistrationChange,
    Config,
    ConfigType,
    Partition,
    PartitionChange,
    ProducerIds,
    RegisterBroker,
    RemoveTopic,
    ShrinkTopic,
    Topic,
    UnregisterBroker,
)
from quorate.history import Entry, record_json
from quorate.runtime import uuid_text
from quorate.spark_source.views.view import (
    BOOLEAN,
    INTEGER,
    LONG,
    REMOVE_TOPIC,
    TEXT,
    TOPIC,
    Row,
    TopicNames,
    common,
    schema,
)


class _Key(NamedTuple):
    """What the record is about; None where it is not about such a thing."""

    topic: str | None = None
    topic_id: UUID | None = None
    partition: int | None = None
    broker: int | None = None


class RecordsView:
    """Names of topics come from the Topic records before."""

    schema: ClassVar[StructType] = schema(
        ("batch_offset", LONG),
        ("control", BOOLEAN),
        ("type", TEXT),
        ("version", INTEGER),
        ("topic", TEXT),
        ("topic_id", TEXT),
        ("partition", INTEGER),
        ("broker", INTEGER),
        ("record", TEXT),
    )
    remembers: ClassVar[frozenset[int]] = frozenset({TOPIC, REMOVE_TOPIC})
    wants: ClassVar[frozenset[int] | None] = None

    def __init__(self, *, include_control: bool = False) -> None:
        self._include_control = include_control
        self._names = TopicNames()

    def rows(self, entry: Entry) -> Iterable[Row]:
        if entry.control and not self._include_control:
            return
        key = self._key(entry)
        yield (
            *common(entry),
            entry.batch_offset,
            entry.control,
            entry.type,
            entry.version,
            key.topic,
            None if key.topic_id is None else uuid_text(key.topic_id),
            key.partition,
            key.broker,
            record_json(entry),
        )

    def _key(self, entry: Entry) -> _Key:
        match entry.record:
            case Topic() as record:
                self._names.created(record)
                return _Key(record.name, record.topic_id)
            case ShrinkTopic(topic_id=topic_id):
                return _Key(self._names.of(topic_id), topic_id)
            case RemoveTopic(topic_id=topic_id):
                return _Key(self._names.removed(topic_id), topic_id)
            case (
                Partition(topic_id=topic_id, partition_id=partition)
                | PartitionChange(topic_id=topic_id, partition_id=partition)
            ):
                return _Key(self._names.of(topic_id), topic_id, partition)
            case (
                RegisterBroker(broker_id=broker)
                | BrokerRegistrationChange(broker_id=broker)
                | UnregisterBroker(broker_id=broker)
                | ProducerIds(broker_id=broker)
            ):
                return _Key(broker=broker)
            case Config(resource_type=ConfigType.TOPIC, resource_name=name):
                return _Key(name)
            case Config(resource_type=ConfigType.BROKER, resource_name=name) if name.isdecimal():
                return _Key(broker=int(name))
        return _Key()
