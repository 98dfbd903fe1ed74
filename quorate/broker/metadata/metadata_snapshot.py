"""The metadata image in snapshots of the quorum: its records, one to a chunk (KIP-630)."""

from collections.abc import Callable, Iterator

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.record_codec import decode, encode
from quorate.types import SnapshotId


def image_chunks(image: MetadataImage) -> Iterator[bytes]:
    """The image as it is at the call."""
    copy = image.copy()
    return (encode(record) for record in copy.records())


class ImageLoader:
    """`SnapshotLoader` that fills an image, and hands it to `install`."""

    def __init__(self, snapshot: SnapshotId, install: Callable[[MetadataImage], None]) -> None:
        self._snapshot = snapshot
        self._install = install
        self._image = MetadataImage()

    def add(self, chunk: bytes) -> None:
        """Raises `RecordDecodeError` or `ImageError`."""
        self._image.apply(decode(chunk), offset=self._snapshot.end_offset - 1, epoch=self._snapshot.epoch)

    def install(self) -> None:
        # Of an empty image there was nothing to apply.
        self._image.offset = self._snapshot.end_offset - 1
        self._image.epoch = self._snapshot.epoch
        self._install(self._image)
