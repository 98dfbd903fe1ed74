"""`view=topics`: one row per topic created, configured or removed."""

from collections.abc import Iterable
from typing import ClassVar

from pyspark.sql.types import StructType

from quorate.broker.metadata.metadata_records import Config, ConfigType, RemoveTopic, Topic
from quorate.history import Entry
from quorate.runtime import uuid_text
from quorate.spark_source.views.typed_view import BOUNDS, TypedView
from quorate.spark_source.views.view import CONFIG, REMOVE_TOPIC, TEXT, TOPIC, Row, TopicNames, common, schema

_KINDS = BOUNDS | {TOPIC, REMOVE_TOPIC, CONFIG}


class TopicsView(TypedView):
    """`change`: created, configured or removed. A configuration that was removed has no value."""

    schema: ClassVar[StructType] = schema(
        ("change", TEXT),
        ("topic", TEXT),
        ("topic_id", TEXT),
        ("config", TEXT),
        ("value", TEXT),
    )
    remembers: ClassVar[frozenset[int]] = _KINDS
    wants: ClassVar[frozenset[int] | None] = _KINDS

    def __init__(self) -> None:
        super().__init__()
        self._names = TopicNames()
        self._ids: dict[str, str] = {}

    def rows_of(self, entry: Entry) -> Iterable[Row]:
        match entry.record:
            case Topic() as record:
                self._names.created(record)
                topic_id = self._ids[record.name] = uuid_text(record.topic_id)
                yield *common(entry), "created", record.name, topic_id, None, None
            case RemoveTopic(topic_id=removed):
                name = self._names.removed(removed)
                if name is not None:
                    self._ids.pop(name, None)
                yield *common(entry), "removed", name, uuid_text(removed), None, None
            case Config(resource_type=ConfigType.TOPIC, resource_name=name, name=key, value=value):
                yield *common(entry), "configured", name, self._ids.get(name), key, value
