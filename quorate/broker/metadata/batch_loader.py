"""Committed records are applied to an image, transactions as one change (KIP-868, Kafka's
MetadataBatchLoader).

A change that is too large for one batch comes as several, between a BeginTransaction and its end. They are
applied to a hidden image. EndTransaction publishes it, AbortTransaction drops it. A controller that finds an
open transaction when it becomes active aborts it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from quorate.broker.metadata.delta import Changes, MetadataDelta, apply_records
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    AbortTransaction,
    BeginTransaction,
    EndTransaction,
    Record,
)
from quorate.broker.metadata.partition_runs import (
    RUN_MAX,
    PartitionRun,
    decode_runs,
    records_in,
)
from quorate.broker.metadata.record_codec import BYTES_KNOWN_MAX
from quorate.broker.metadata.states import ImageError
from quorate.types import SnapshotId

_BOUNDS = (BeginTransaction, EndTransaction, AbortTransaction)


class _Hidden:
    """An open transaction."""

    __slots__ = ("changes", "image", "records")

    def __init__(self, published: MetadataImage, begin: BeginTransaction) -> None:
        self.image = published.copy()
        self.changes = Changes(self.image)
        self.records: list[Record | PartitionRun] = [begin]
        """All of them so far, for snapshots."""


class BatchLoader:
    """Applies committed records. `image` is the published one: the records up to its offset, without those of
    an open transaction."""

    __slots__ = ("_hidden", "image")

    def __init__(self, image: MetadataImage | None = None) -> None:
        """`image`: the image to continue from, the loader's own from here on; an empty one by default."""
        self.image = MetadataImage() if image is None else image
        self._hidden: _Hidden | None = None

    @property
    def in_transaction(self) -> bool:
        return self._hidden is not None

    def load(
        self, records: Sequence[Record | PartitionRun], *, base_offset: int, epoch: int
    ) -> list[MetadataDelta]:
        """Apply a run of consecutive records. Return what each part of it made visible: one part, where no
        transaction begins or ends. Raises `ImageError`."""
        deltas: list[MetadataDelta] = []
        start, offset = 0, base_offset
        for at, record in enumerate(records):
            if isinstance(record, _BOUNDS):
                if start < at:
                    part = records[start:at]
                    deltas.append(self._apply(part, base_offset=offset, epoch=epoch))
                    offset += records_in(part)
                deltas.append(self._cross(record, offset=offset, epoch=epoch))
                start, offset = at + 1, offset + 1
        if start < len(records):
            deltas.append(self._apply(records[start:], base_offset=offset, epoch=epoch))
        return deltas

    def _apply(
        self, records: Sequence[Record | PartitionRun], *, base_offset: int, epoch: int
    ) -> MetadataDelta:
        hidden = self._hidden
        if hidden is None:
            return apply_records(self.image, records, base_offset=base_offset, epoch=epoch)
        hidden.changes.apply(records, base_offset=base_offset, epoch=epoch)
        hidden.records += records
        return self._unchanged(base_offset, base_offset + records_in(records), epoch)

    def _cross(
        self, record: BeginTransaction | EndTransaction | AbortTransaction, *, offset: int, epoch: int
    ) -> MetadataDelta:
        hidden = self._hidden
        if isinstance(record, BeginTransaction):
            if hidden is not None:
                raise ImageError(f"a transaction begins at offset {offset}, within another")
            self._hidden = _Hidden(self.image, record)
            return self._unchanged(offset, offset + 1, epoch)
        if hidden is None:
            raise ImageError(f"{type(record).__name__} at offset {offset}, and no transaction is open")
        self._hidden = None
        if isinstance(record, AbortTransaction):
            return self._unchanged(offset, offset + 1, epoch)
        self.image = hidden.image
        self.image.offset, self.image.epoch = offset, epoch
        return hidden.changes.delta(base_offset=offset, end_offset=offset + 1)

    def _unchanged(self, base_offset: int, end_offset: int, epoch: int) -> MetadataDelta:
        """Advance the offset over hidden records: a node may wait for the offset of one."""
        self.image.offset, self.image.epoch = end_offset - 1, epoch
        return MetadataDelta(base_offset=base_offset, end_offset=end_offset)

    def records(self) -> Iterator[Record]:
        """Return the records that make an empty loader equal to this one as it is at the call, with those of
        an open transaction."""
        copy = self.image.copy()
        hidden = () if self._hidden is None else tuple(self._hidden.records)
        return chain(copy.records(), chain.from_iterable(map(_one_by_one, hidden)))


def _one_by_one(record: Record | PartitionRun) -> Iterable[Record]:
    return record.records() if isinstance(record, PartitionRun) else (record,)


class ImageLoader:
    """A `SnapshotLoader` that fills a `BatchLoader` from the metadata in a snapshot of the quorum, and passes
    it to `install`.

    A snapshot has one record to a chunk (KIP-630). One that is taken within a transaction holds the published
    image, and behind it the records of the transaction so far, from its BeginTransaction on.
    """

    def __init__(self, snapshot: SnapshotId, install: Callable[[BatchLoader], None]) -> None:
        self._offset = snapshot.end_offset - 1
        self._epoch = snapshot.epoch
        self._install = install
        self._loader = BatchLoader()
        self._chunks: list[bytes] = []
        """The chunks to be decoded together."""

    def add(self, chunk: bytes) -> None:
        """Add a chunk. Raises `RecordDecodeError` or `ImageError`, perhaps for an earlier one."""
        self._chunks.append(chunk)
        if len(self._chunks) >= RUN_MAX or len(chunk) > BYTES_KNOWN_MAX:
            self._add_all()

    def install(self) -> None:
        """Install the loaded image. Raises `RecordDecodeError` or `ImageError`."""
        self._add_all()
        # An empty image has no record that sets these.
        self._loader.image.offset = self._offset
        self._loader.image.epoch = self._epoch
        self._install(self._loader)

    def _add_all(self) -> None:
        loader = self._loader
        for record in decode_runs(self._chunks):
            if loader.in_transaction or isinstance(record, BeginTransaction):
                loader.load((record,), base_offset=self._offset, epoch=self._epoch)
            elif isinstance(record, PartitionRun):
                loader.image.apply_run(record, offset=self._offset, epoch=self._epoch)
            else:
                loader.image.apply(record, offset=self._offset, epoch=self._epoch)
        self._chunks.clear()
