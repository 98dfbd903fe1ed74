"""The metadata in snapshots of the quorum: its records, one to a chunk (KIP-630).

One that is taken within a transaction holds what is published, and behind it the transaction as far as it is
there, from its BeginTransaction on.
"""

from collections.abc import Callable

from quorate.broker.metadata.batch_loader import BatchLoader
from quorate.broker.metadata.metadata_records import BeginTransaction
from quorate.broker.metadata.record_codec import decode
from quorate.types import SnapshotId


class ImageLoader:
    """`SnapshotLoader` that fills a `BatchLoader`, and hands it to `install`."""

    def __init__(self, snapshot: SnapshotId, install: Callable[[BatchLoader], None]) -> None:
        self._offset = snapshot.end_offset - 1
        self._epoch = snapshot.epoch
        self._install = install
        self._loader = BatchLoader()

    def add(self, chunk: bytes) -> None:
        """Raises `RecordDecodeError` or `ImageError`."""
        record, loader = decode(chunk), self._loader
        if loader.in_transaction or isinstance(record, BeginTransaction):
            loader.load((record,), base_offset=self._offset, epoch=self._epoch)
        else:
            loader.image.apply(record, offset=self._offset, epoch=self._epoch)

    def install(self) -> None:
        # Of an empty image there was nothing to apply.
        self._loader.image.offset = self._offset
        self._loader.image.epoch = self._epoch
        self._install(self._loader)
