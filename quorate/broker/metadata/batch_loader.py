"""Committed records into an image, transactions as one change (KIP-868, Kafka's MetadataBatchLoader).

A change that is too large for one batch comes as several, between a BeginTransaction and its end. They are
applied to an image of their own that nobody sees: at EndTransaction it takes the published one's place, at
AbortTransaction it is dropped. A controller that finds one open when it becomes active aborts it.
"""

from collections.abc import Iterator, Sequence
from itertools import chain

from quorate.broker.metadata.delta import Changes, MetadataDelta, apply_records
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    AbortTransaction,
    BeginTransaction,
    EndTransaction,
    Record,
)
from quorate.broker.metadata.states import ImageError

_BOUNDS = (BeginTransaction, EndTransaction, AbortTransaction)


class _Hidden:
    """An open transaction."""

    __slots__ = ("changes", "image", "records")

    def __init__(self, published: MetadataImage, begin: BeginTransaction) -> None:
        self.image = published.copy()
        self.changes = Changes(self.image)
        self.records: list[Record] = [begin]
        """All of them so far, for snapshots."""


class BatchLoader:
    """`image` is what is published: the records up to its offset, without those of an open transaction."""

    __slots__ = ("_hidden", "image")

    def __init__(self, image: MetadataImage | None = None) -> None:
        """`image`: where to go on from, the loader's own from here on; an empty one by default."""
        self.image = MetadataImage() if image is None else image
        self._hidden: _Hidden | None = None

    @property
    def in_transaction(self) -> bool:
        return self._hidden is not None

    def load(self, records: Sequence[Record], *, base_offset: int, epoch: int) -> list[MetadataDelta]:
        """Apply a run of consecutive records. What each part of it made visible: one part, where no
        transaction begins or ends. Raises `ImageError`."""
        deltas: list[MetadataDelta] = []
        start = 0
        for at, record in enumerate(records):
            if isinstance(record, _BOUNDS):
                if start < at:
                    deltas.append(
                        self._apply(records[start:at], base_offset=base_offset + start, epoch=epoch)
                    )
                deltas.append(self._cross(record, offset=base_offset + at, epoch=epoch))
                start = at + 1
        if start < len(records):
            deltas.append(self._apply(records[start:], base_offset=base_offset + start, epoch=epoch))
        return deltas

    def _apply(self, records: Sequence[Record], *, base_offset: int, epoch: int) -> MetadataDelta:
        hidden = self._hidden
        if hidden is None:
            return apply_records(self.image, records, base_offset=base_offset, epoch=epoch)
        hidden.changes.apply(records, base_offset=base_offset, epoch=epoch)
        hidden.records += records
        return self._unchanged(base_offset, base_offset + len(records), epoch)

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
        """Records that nobody sees are applied all the same: whoever waits for an offset waits for that."""
        self.image.offset, self.image.epoch = end_offset - 1, epoch
        return MetadataDelta(
            base_offset=base_offset,
            end_offset=end_offset,
            partitions=(),
            created_topics=(),
            deleted_topics=(),
            brokers=(),
            configs=(),
        )

    def records(self) -> Iterator[Record]:
        """What makes an empty loader equal to this one as it is at the call, an open transaction included."""
        copy = self.image.copy()
        return chain(copy.records(), () if self._hidden is None else tuple(self._hidden.records))
