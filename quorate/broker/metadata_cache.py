"""The metadata of this node: committed records applied to the image, and the changes of each batch for
subscribers."""

from collections.abc import Callable, Iterator, Sequence

import trio

from quorate.broker.metadata.batch_loader import BatchLoader, ImageLoader
from quorate.broker.metadata.delta import MetadataDelta
from quorate.broker.metadata.difference import difference
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import Record
from quorate.broker.metadata.partition_runs import PartitionRun, decode_runs
from quorate.broker.metadata.record_codec import decode, encode
from quorate.raft.state_machine.interface import CommittedBatch, SnapshotLoader
from quorate.types import SnapshotId

_CHECKED_MAX = 100_000

MetadataListener = Callable[[MetadataDelta, MetadataImage], None]
"""Called for each committed batch, in order, after it was applied. Must not block; the image is live."""


class MetadataCache:
    """The quorum's state machine on every node, brokers and controllers alike."""

    __slots__ = (
        "_changed",
        "_checked",
        "_listeners",
        "_loader",
        "apply_errors",
        "last_applied_timestamp_ms",
        "load_errors",
    )

    def __init__(self, image: MetadataImage | None = None) -> None:
        """`image`: where to go on from; an empty one by default."""
        self._loader = BatchLoader(image)
        self.last_applied_timestamp_ms = 0
        """The leader's wall clock when it appended the last applied batch; 0: none yet."""
        self.load_errors = 0
        """Batches that could not be decoded or did not fit the image."""
        self.apply_errors = 0
        """Batches that a listener failed to act upon."""
        self._checked: dict[bytes, Record] = {}
        """Decoded by `check`, so that the leader does not do it again when they are committed."""
        self._listeners: list[MetadataListener] = []
        self._changed = trio.Event()

    @property
    def image(self) -> MetadataImage:
        """The published image, without the records of an open transaction."""
        return self._loader.image

    @property
    def in_transaction(self) -> bool:
        """True if a transaction of metadata has begun and not ended."""
        return self._loader.in_transaction

    @property
    def offset(self) -> int:
        """The last applied record's offset (inclusive); -1: none yet."""
        return self.image.offset

    def subscribe(self, listener: MetadataListener) -> None:
        """Hear of every batch from the next one on."""
        self._listeners.append(listener)

    def unsubscribe(self, listener: MetadataListener) -> None:
        """End a subscription. Idempotent."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    async def wait_until(self, condition: Callable[[MetadataImage], bool]) -> None:
        """Return when `condition` holds of the image; looked at after each batch."""
        while not condition(self.image):
            await self._changed.wait()

    async def wait_change(self) -> None:
        """Return when the next batch was applied."""
        await self._changed.wait()

    # The quorum's side

    def check(self, records: Sequence[bytes]) -> None:
        """Check a batch. Raises `RecordDecodeError` for a record that `apply` could not read."""
        decoded = {data: decode(data) for data in records}
        if len(self._checked) > _CHECKED_MAX:
            # Of leaderships that were lost: they are not going to be applied from here.
            self._checked.clear()
        self._checked.update(decoded)

    def apply(self, batch: CommittedBatch) -> Sequence[None]:
        """Raises `RecordDecodeError` or `ImageError`, which stop the node."""
        try:
            checked = self._checked
            records: Sequence[Record | PartitionRun]
            if checked:
                records = [checked.pop(data) if data in checked else decode(data) for data in batch.records]
            else:
                records = decode_runs(batch.records)
            deltas = self._loader.load(records, base_offset=batch.base_offset, epoch=batch.epoch)
        except Exception:
            self.load_errors += 1
            raise
        self.last_applied_timestamp_ms = batch.timestamp_ms
        for delta in deltas:
            self._tell(delta)
        return [None] * len(batch.records)

    def _tell(self, delta: MetadataDelta) -> None:
        try:
            for listener in self._listeners:
                listener(delta, self.image)
        except Exception:
            self.apply_errors += 1
            raise
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    def take_snapshot(self) -> Iterator[bytes]:
        return map(encode, self._loader.records())

    def load_snapshot(self, snapshot: SnapshotId) -> SnapshotLoader:
        return ImageLoader(snapshot, self._replace)

    def _replace(self, loader: BatchLoader) -> None:
        before, self._loader = self._loader, loader
        self._tell(difference(before.image, loader.image))


def whole_image(image: MetadataImage) -> MetadataDelta:
    """The delta from nothing to `image`, for a subscriber that begins now."""
    return difference(MetadataImage(), image)
