"""The log of a future replica that has everything: it takes whatever the replica's own log takes, in the same
call, until it takes that log's place."""

from collections.abc import Callable, Sequence

from quorate.log import Log, LogError
from quorate.log.batches import BatchHeader
from quorate.runtime import Buffer, DiskError
from quorate.types import Epoch


class Mirror:
    """Its end and its epochs are always the log's. An error doesn't reach whoever appends: `lost` is called,
    which takes the mirror away, or fails the replica if the mirror is needed."""

    __slots__ = ("_lost", "log")

    def __init__(self, log: Log, lost: Callable[[Exception], None]) -> None:
        self.log = log
        self._lost = lost

    def append_as_leader(self, records: Buffer, epoch: int, *, headers: Sequence[BatchHeader]) -> None:
        """Append what the log has just appended."""
        self._try(lambda: self.log.append_as_leader(records, epoch, headers=headers))

    def append_as_follower(self, records: Buffer, *, headers: Sequence[BatchHeader]) -> None:
        """Append what the log has just appended."""
        self._try(lambda: self.log.append_as_follower(records, headers=headers, in_memory=False))

    def start_epoch(self, epoch: Epoch) -> None:
        """Begin the epoch that the log has begun."""
        self.log.start_epoch(epoch)

    def _try(self, append: Callable[[], object]) -> None:
        try:
            append()
        except (DiskError, LogError) as error:
            self._lost(error)
