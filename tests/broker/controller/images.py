"""Images from records, and what a cache makes of committed ones."""

from collections.abc import Iterable, Sequence

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import Record
from quorate.broker.metadata.record_codec import decode, encode
from quorate.broker.metadata_cache import MetadataCache
from quorate.raft.state_machine.interface import CommittedBatch
from quorate.types import Epoch, Offset


def image_of(records: Iterable[Record]) -> MetadataImage:
    """The image that they make from offset 0 on."""
    image = MetadataImage()
    for offset, record in enumerate(records):
        image.apply(record, offset=offset, epoch=1)
    return image


def from_snapshot(image: MetadataImage) -> MetadataImage:
    """The image that a snapshot of `image` makes, through its bytes."""
    loaded = image_of(decode(encode(record)) for record in image.records())
    loaded.offset, loaded.epoch = image.offset, image.epoch
    return loaded


def feed(cache: MetadataCache, records: Sequence[Record]) -> None:
    """Commit them as one batch."""
    feed_encoded(cache, [encode(each) for each in records])


def feed_encoded(cache: MetadataCache, values: Sequence[bytes]) -> None:
    """Commit these bytes as one batch."""
    base = Offset(cache.offset + 1)
    batch = CommittedBatch(base_offset=base, epoch=Epoch(1), timestamp_ms=1, records=values)
    assert cache.apply(batch) == [None] * len(values)
