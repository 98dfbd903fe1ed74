"""A view of the log: it turns entries into rows, and remembers the values that later rows need.

A view is fed every entry from the start of the log, in order. So the same log gives the same rows in every
division: a task that starts in the middle gets a view that was fed all earlier entries.
"""

import uuid
from collections.abc import Iterable
from typing import ClassVar, Final, Protocol, TypeAlias

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from quorate.broker.metadata.metadata_records import (
    BrokerRegistrationChange,
    Config,
    ConfigType,
    Partition,
    PartitionChange,
    RegisterBroker,
    RemoveTopic,
    ShrinkTopic,
    Topic,
    UnregisterBroker,
)
from quorate.history import Entry, type_number

Row: TypeAlias = tuple[object, ...]

TEXT: Final = StringType()
INTEGER: Final = IntegerType()
LONG: Final = LongType()
BOOLEAN: Final = BooleanType()
TIMESTAMP: Final = TimestampType()
INTEGERS: Final = ArrayType(IntegerType(), containsNull=False)
TEXTS: Final = ArrayType(StringType(), containsNull=False)


def schema(*columns: tuple[str, DataType]) -> StructType:
    """The first columns of every view (where in the log, in which epoch, and the leader's clock at the
    append), and the view's own, which may be null."""
    return StructType(
        [
            StructField("offset", LONG, nullable=False),
            StructField("epoch", INTEGER, nullable=False),
            StructField("timestamp", TIMESTAMP, nullable=False),
            *(StructField(name, of) for name, of in columns),
        ]
    )


def common(entry: Entry) -> Row:
    """Return the values of the first columns. Timestamps are microseconds from here on, as in Spark."""
    return entry.offset, entry.epoch, entry.timestamp_ms * 1000


def said(change: PartitionChange | BrokerRegistrationChange) -> str | None:
    """Return the name of the change's reason. None: its version does not say."""
    return None if change.reason is None else change.reason.name


_ID: Final = uuid.UUID(int=0)
TOPIC: Final = type_number(Topic(name="t", topic_id=_ID))
SHRINK_TOPIC: Final = type_number(ShrinkTopic(topic_id=_ID, num_partitions=1))
REMOVE_TOPIC: Final = type_number(RemoveTopic(topic_id=_ID))
PARTITION: Final = type_number(Partition(topic_id=_ID, partition_id=0, replicas=(), isr=()))
PARTITION_CHANGE: Final = type_number(PartitionChange(topic_id=_ID, partition_id=0))
CONFIG: Final = type_number(Config(resource_type=ConfigType.TOPIC, resource_name="t", name="n", value=None))
REGISTER_BROKER: Final = type_number(RegisterBroker(broker_id=0, incarnation_id=_ID, broker_epoch=0))
BROKER_CHANGE: Final = type_number(BrokerRegistrationChange(broker_id=0, broker_epoch=0))
UNREGISTER_BROKER: Final = type_number(UnregisterBroker(broker_id=0, broker_epoch=0))


class View(Protocol):
    """Picklable; equal state gives equal rows."""

    schema: ClassVar[StructType]
    remembers: ClassVar[frozenset[int]]
    """The types of the records that change its memory. Where no rows are wanted, it needs only these."""
    wants: ClassVar[frozenset[int] | None]
    """The types of the records that make rows or change its memory. None: all."""

    def rows(self, entry: Entry) -> Iterable[Row]:
        """Return the rows of this entry, none to many, in the order of `schema`."""
        ...


class TopicNames:
    """The names of the existing topics by id."""

    __slots__ = ("_names",)

    def __init__(self) -> None:
        self._names: dict[uuid.UUID, str] = {}

    def created(self, record: Topic) -> None:
        self._names[record.topic_id] = record.name

    def removed(self, topic_id: uuid.UUID) -> str | None:
        """Remove a topic, and return its name."""
        return self._names.pop(topic_id, None)

    def of(self, topic_id: uuid.UUID) -> str | None:
        """Return the name of a topic. None: the log has not named it yet."""
        return self._names.get(topic_id)
