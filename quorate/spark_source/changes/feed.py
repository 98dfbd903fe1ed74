"""Changes as rows of a change feed: the columns of `view=changes`, and those of one entity."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quorate.log.snapshots.snapshot_file import SnapshotContents
from quorate.spark_source.changes.entities import ENTITY_FIELDS, Entity
from quorate.spark_source.changes.metadata_changes import Changed, EntityRow, MetadataChanges
from quorate.spark_source.changes.partition_table import PartitionRows
from quorate.spark_source.chunks import PLACE_FIELDS, Chunk, Longs, Places
from quorate.spark_source.columns import TIMESTAMP, columns, nulls, struct_array
from quorate.spark_source.partition_records import numbered

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

INSERT: Final = "insert"
UPDATE_PREIMAGE: Final = "update_preimage"
UPDATE_POSTIMAGE: Final = "update_postimage"
DELETE: Final = "delete"
SNAPSHOT: Final = "snapshot"
"""Everything that was known before is void: the state follows, as inserts from a snapshot."""
UNKNOWN: Final = "unknown"
"""A record of a later version of quorate changed something here."""
_LATER: Final = "Unknown"
_KINDS: Final = pa.array([INSERT, UPDATE_PREIMAGE, UPDATE_POSTIMAGE, DELETE], pa.string())
_INSERT, _PREIMAGE, _POSTIMAGE, _DELETE = range(4)
_ROWS_MAX: Final = 65_536
_TYPES: Final = ("PartitionChange", "Partition")

CHANGE_FIELDS: Final = (
    *PLACE_FIELDS,
    pa.field("row", pa.int32(), nullable=False),
    pa.field("_change_type", pa.string(), nullable=False),
    pa.field("record_type", pa.string()),
    pa.field("reason", pa.string()),
    pa.field("last_heard", TIMESTAMP),
)
"""The columns that all change feeds begin with. Rows of one thing are in order by (offset, row)."""
ALL_CHANGES: Final = pa.schema(
    [
        *CHANGE_FIELDS,
        pa.field("entity", pa.string()),
        *(pa.field(entity.value, pa.struct(fields)) for entity, fields in ENTITY_FIELDS.items()),
    ]
)
"""The columns of `view=changes`: a row has the struct of its entity, and null in the others."""


def feed_schema(entity: Entity | None) -> pa.Schema:
    """The columns of the change feed of one entity, or of all."""
    return ALL_CHANGES if entity is None else pa.schema([*CHANGE_FIELDS, *ENTITY_FIELDS[entity]])


def state_schema(entity: Entity) -> pa.Schema:
    """The columns of the state of an entity."""
    return pa.schema(ENTITY_FIELDS[entity])


@dataclass(slots=True)
class ChangeFeed:
    """Makes the rows of the changes that chunks make in `state`."""

    state: MetadataChanges
    entity: Entity | None
    """The only one that is shown. None: all."""
    shows_bare: bool = True
    """False: another task shows the rows that are of no entity."""
    _snapshot_rows: int = 2
    """The `row` of the next record in the snapshot: its marker is row 0, the quorum row 1."""

    def begin(self, contents: SnapshotContents, *, restarts: bool) -> Iterator[pa.RecordBatch]:
        """Begin with a snapshot, whose chunks follow. `restarts`: say that what was known before is void."""
        changed = self.state.begin(contents)
        if restarts and self.shows_bare:
            yield self._bare(changed.places, SNAPSHOT, None)
        if changed.entities:
            yield self._entity_rows(changed, Entity.QUORUM, changed.entities, 1)

    def rows(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """Apply the next chunk, and yield the rows that it makes."""
        changed = self.state.changes(chunk)
        row = 0
        if chunk.places.snapshot:
            row, self._snapshot_rows = self._snapshot_rows, self._snapshot_rows + len(chunk)
        if changed.partitions is not None:
            yield from self._partition_rows(changed, changed.partitions, row)
        for entity in Entity:
            found = [each for each in changed.entities if each.entity is entity]
            if found:
                yield self._entity_rows(changed, entity, found, row)
        if changed.unknown and self.shows_bare:
            yield self._bare(changed.places.take(np.array(changed.unknown)), UNKNOWN, _LATER)

    def _partition_rows(
        self, changed: Changed, rows: PartitionRows, first_row: int
    ) -> Iterator[pa.RecordBatch]:
        table = self.state.partitions
        for start in range(0, len(rows), _ROWS_MAX // 2):
            shown = table.shown(rows.part(start, start + _ROWS_MAX // 2))
            kinds = np.where(
                shown.has_other == 1,
                np.where(shown.is_before == 1, _PREIMAGE, _POSTIMAGE),
                np.where(shown.is_before == 1, _DELETE, _INSERT),
            )
            # 0 for a PartitionChange, 1 for a Partition, and others each by itself.
            is_alone = (shown.change < 0) & (kinds != _INSERT)
            of_row = np.where(is_alone, shown.at + 2, shown.change < 0)
            records, places = numbered(of_row)
            own = [int(each) - 2 for each in records]
            types = [_TYPES[at] if at < 0 else changed.types[at] for at in own]
            others = pa.array([changed.reasons.get(at) for at in own], pa.string()).take(pa.array(places))
            heard = [_microseconds(changed.last_heard_ms.get(at)) for at in own]
            at = _rows_at(changed.places, shown.at, first_row)
            yield self._batch(
                Entity.PARTITION,
                changed.places.take(shown.at),
                [
                    pa.array((at + shown.row).astype(np.int32)),
                    _KINDS.take(pa.array(kinds)),
                    pa.array(types, pa.string()).take(pa.array(places)),
                    pc.fill_null(table.reasons(shown.change), others),
                    pa.array(heard, TIMESTAMP).take(pa.array(places)),
                ],
                shown.columns,
            )

    def _entity_rows(
        self, changed: Changed, entity: Entity, rows: Sequence[EntityRow], first_row: int
    ) -> pa.RecordBatch:
        at: list[int] = []
        row: list[int] = []
        kinds: list[str] = []
        records: list[DataclassInstance] = []
        for each in rows:
            images = [
                (DELETE if each.after is None else UPDATE_PREIMAGE, each.before),
                (INSERT if each.before is None else UPDATE_POSTIMAGE, each.after),
            ]
            place = each.first_row
            for kind, record in images:
                if record is not None:
                    at.append(each.at)
                    row.append(place)
                    kinds.append(kind)
                    records.append(record)
                    place += 1
        places = np.array(at, np.int64)
        return self._batch(
            entity,
            changed.places.take(places),
            [
                pa.array((_rows_at(changed.places, places, first_row) + np.array(row)).astype(np.int32)),
                pa.array(kinds, pa.string()),
                pa.array([changed.types[each] for each in at], pa.string()),
                pa.array([changed.reasons.get(each) for each in at], pa.string()),
                pa.array([_microseconds(changed.last_heard_ms.get(each)) for each in at], TIMESTAMP),
            ],
            columns(records, ENTITY_FIELDS[entity]),
        )

    def _batch(
        self, entity: Entity, places: Places, about: list[pa.Array], shown: list[pa.Array]
    ) -> pa.RecordBatch:
        arrays = [*places.columns().values(), *about]
        count = len(places)
        if self.entity is None:
            arrays.append(pa.repeat(pa.scalar(entity.value), count))
            for each, fields in ENTITY_FIELDS.items():
                of = pa.struct(fields)
                arrays.append(struct_array(shown, of) if each is entity else nulls(count, of))
        else:
            arrays += shown
        return pa.RecordBatch.from_arrays(arrays, schema=feed_schema(self.entity))

    def _bare(self, places: Places, kind: str, record_type: str | None) -> pa.RecordBatch:
        """Rows that show no entity."""
        count = len(places)
        schema = feed_schema(self.entity)
        known = {
            **places.columns(),
            "row": pa.repeat(pa.scalar(0, pa.int32()), count),
            "_change_type": pa.repeat(pa.scalar(kind), count),
            "record_type": pa.array([record_type] * count, pa.string()),
        }
        arrays = [known[each.name] if each.name in known else nulls(count, each.type) for each in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def state_rows(state: MetadataChanges, entity: Entity) -> Iterator[pa.RecordBatch]:
    """Yield the state of every thing of this kind."""
    schema = state_schema(entity)
    if entity is not Entity.PARTITION:
        records = state.records(entity)
        if records:
            yield pa.RecordBatch.from_arrays(columns(records, ENTITY_FIELDS[entity]), schema=schema)
        return
    table = state.partitions
    live = table.live()
    for start in range(0, len(live), _ROWS_MAX):
        keys = live[start : start + _ROWS_MAX]
        yield pa.RecordBatch.from_arrays(table.state_columns(keys), schema=schema)


def _rows_at(places: Places, at: Longs, first_row: int) -> Longs:
    """The first `row` of each of these records: in a snapshot all have one offset."""
    return first_row + at if places.snapshot else np.zeros(len(at), np.int64)


def _microseconds(ms: int | None) -> int | None:
    return None if ms is None else ms * 1000
