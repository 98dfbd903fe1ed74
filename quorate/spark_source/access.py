"""A committed metadata log, wherever it is, and what can be found out about it by reading."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from quorate.log.batches.batch import Batch
from quorate.log.batches.records import records_of

NO_EPOCH: Final = -1
"""The epoch before the log's first record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The readable part of the log: offsets [start_offset, end_offset). The end is the high watermark."""

    cluster: str
    """The cluster's id. Empty: it is unknown."""
    start_offset: int
    end_offset: int


class LogAccess(Protocol):
    """A way to the log. Picklable: it holds no file and no connection, and each call opens its own."""

    @property
    def place(self) -> str:
        """The place of the log, for messages."""
        ...

    def extent(self, *, at_least: int = 0) -> Extent:
        """Return the readable part. `at_least`: an end that is known to be committed. A broker may not know
        it yet, so others are asked, several times. If none does, the extent that ends last is returned.
        Raises `LogUnavailableError`."""
        ...

    def batches(self, start: int, end: int) -> Iterator[Batch]:
        """Whole, undamaged batches in order, from the one that holds `start` or the next after it, while they
        begin below `end`. Ends early where the log does. Raises `LogUnavailableError`; `DamagedRecordError`.
        """
        ...


def epoch_before(access: LogAccess, offset: int, extent: Extent) -> int | None:
    """The epoch of the record before `offset`; None if the log does not have that record."""
    if offset == 0:
        return NO_EPOCH
    if not extent.start_offset < offset <= extent.end_offset:
        return None
    for batch in access.batches(offset - 1, offset):
        if batch.header.base_offset < offset <= batch.header.end_offset:
            return batch.header.leader_epoch
    return None


def offset_for_timestamp(access: LogAccess, timestamp_ms: int, extent: Extent) -> int | None:
    """The first offset whose timestamp is `timestamp_ms` or later; None if there is none.

    Found by reading: a new leader's clock may be behind, so that timestamps are not in order.
    """
    for batch in access.batches(extent.start_offset, extent.end_offset):
        if batch.header.max_timestamp >= timestamp_ms:
            for record in records_of(batch):
                if record.timestamp >= timestamp_ms and record.offset < extent.end_offset:
                    return record.offset
    return None
