"""Earlier images: the last snapshot before a moment, and the log replayed up to it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from quorate.broker.metadata.batch_loader import BatchLoader, ImageLoader
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.record_codec import RecordDecodeError, decode
from quorate.broker.metadata.states import ImageError
from quorate.cli.console.cli_errors import CommandError, ExitCode
from quorate.cli.console.output import time_text
from quorate.history import MetadataHistory, StoredSnapshot
from quorate.log import DamagedSnapshotError, InvalidBatchError
from quorate.log.batches.batch import Batch
from quorate.log.batches.records import records_of
from quorate.types import Epoch, Offset


class ReplayError(CommandError):
    """The history has no image of this moment. The message names the remedy."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A point of the history. Neither field: the last that is committed."""

    last_offset: int | None = None
    """The last record (inclusive)."""
    timestamp_ms: int | None = None
    """The time before the first record that is left out, in milliseconds since the Unix epoch."""

    def __str__(self) -> str:
        if self.last_offset is not None:
            return f"offset {self.last_offset}"
        return "the end" if self.timestamp_ms is None else shown_time(self.timestamp_ms)


LATEST: Final = Moment()


def shown_time(timestamp_ms: int) -> str:
    """A time as this machine's clock on the wall shows it, with its zone, such as
    2026-11-22T17:40:00.250+01:00."""
    return time_text(timestamp_ms, lambda at: at.astimezone().isoformat("T", "milliseconds"))


class Replay:
    """The image at `end_offset` of a history, which can be moved forward."""

    def __init__(self, history: MetadataHistory, *, warn: Callable[[str], None]) -> None:
        """Begin at offset 0, with an empty image. `warn` gets problems that are no obstacle."""
        self._history = history
        self._warn = warn
        self._loader = BatchLoader()
        self._skipped = history.skipped()
        self.end_offset = 0
        """The end of the applied records, exclusive."""
        self.timestamp_ms: int | None = None
        """The time of the last record; None: unknown."""
        self.epoch = 0
        """The epoch of the last record."""

    @property
    def place(self) -> str:
        """The place of the history."""
        return self._history.place

    @property
    def image(self) -> MetadataImage:
        """The image as nodes publish it: without the records of an open transaction."""
        return self._loader.image

    @property
    def in_transaction(self) -> bool:
        return self._loader.in_transaction

    def move_to(self, moment: Moment, *, through: MetadataHistory | None = None) -> None:
        """Be at `moment`. `through`: the same history from now on, reached by other nodes. Raises
        `ReplayError` if that is before what this is at, or where the history does not reach;
        `HistoryError`, `LogError`."""
        self._history = through or self._history
        self._check_forward(moment)
        extent = self._history.extent()
        start = extent.start_offset
        target = self._target(moment, extent.end_offset)
        # The log leads on from here, unless this is the beginning, from where a snapshot leads on faster.
        if not self.end_offset or self.end_offset < start:
            self._load_best(moment, start)
        self._replay(target, moment.timestamp_ms)
        if moment.timestamp_ms is not None and not self.end_offset:
            raise self._too_early(moment)

    def move_to_earliest(self) -> None:
        """Be at the beginning of the history: before its first record, or at the oldest snapshot that is
        whole where the log no longer has that. Raises as `move_to`."""
        start = self._history.extent().start_offset
        if not start:
            return
        for stored in self._history.snapshots(self._warn):
            if stored.end_offset < start:
                continue
            try:
                self._load(stored)
            except DamagedSnapshotError as error:
                self._warn(str(error))
                continue
            return
        raise ReplayError(f"{self._history.place} has no beginning: {self._earliest()}", ExitCode.STORAGE)

    def walk_to(self, moment: Moment) -> Iterator[None]:
        """Move on to `moment` batch by batch, and yield after each. Raises as `move_to`, from where this
        is."""
        self._check_forward(moment)
        target = self._target(moment, self._history.extent().end_offset)
        yield from self._steps(target, moment.timestamp_ms)

    def _check_forward(self, moment: Moment) -> None:
        offset, timestamp_ms = moment.last_offset, moment.timestamp_ms
        if (offset is not None and offset + 1 < self.end_offset) or (
            timestamp_ms is not None and self.timestamp_ms is not None and timestamp_ms < self.timestamp_ms
        ):
            at = "" if self.timestamp_ms is None else f", of {shown_time(self.timestamp_ms)}"
            raise ReplayError(
                f"{moment} is before offset {self.end_offset - 1}{at}: give the earlier one first",
                ExitCode.USAGE,
            )

    def _target(self, moment: Moment, end: int) -> int:
        if moment.last_offset is None:
            return end
        if moment.last_offset >= end:
            raise ReplayError(
                f"offset {moment.last_offset} is not there yet: the last that is known to be committed in "
                f"{self._history.place} is {end - 1}"
            )
        return moment.last_offset + 1

    def _load_best(self, moment: Moment, start: int) -> None:
        damaged = False
        for stored in reversed(self._history.snapshots(self._warn)):
            if stored.end_offset < start or not _is_at_or_before(stored, moment):
                continue
            try:
                self._load(stored)
            except DamagedSnapshotError as error:
                self._warn(str(error))
                damaged = True
                continue
            return
        if start and damaged:
            raise ReplayError(
                f"no snapshot in {self._history.place} that is early enough is whole, and its log begins at "
                f"offset {start}; read another node",
                ExitCode.STORAGE,
            )
        if start:
            raise self._too_early(moment)

    def _load(self, stored: StoredSnapshot) -> None:
        loader: list[BatchLoader] = []
        filling = ImageLoader(stored.snapshot, loader.append)
        try:
            with self._history.opened(stored.snapshot) as reader:
                for chunk in reader:
                    filling.add(chunk)
            filling.install()
        except (RecordDecodeError, ImageError) as error:
            raise ReplayError(
                f"the snapshot at {stored.end_offset} in {self._history.place} holds no metadata of a broker "
                f"cluster, or that of a later version of quorate: {error}",
                ExitCode.STORAGE,
            ) from error
        self._loader = loader[0]
        self.end_offset = stored.end_offset
        self.epoch = stored.snapshot.epoch
        self.timestamp_ms = stored.last_timestamp_ms or None

    def _replay(self, end: int, latest_ms: int | None) -> None:
        for _ in self._steps(end, latest_ms):
            pass

    def _steps(self, end: int, latest_ms: int | None) -> Iterator[None]:
        for batch in self._history.batches(self.end_offset, end):
            header = batch.header
            if header.base_offset > self.end_offset:
                raise ReplayError(
                    f"{self._history.place} has no records {self.end_offset} to {header.base_offset - 1}: "
                    "they were deleted meanwhile, or their file is gone; try again, or read another node"
                )
            if not self._apply(batch, end, latest_ms):
                return
            yield
        if self.end_offset < end:
            raise ReplayError(
                f"{self._history.place} ends at offset {self.end_offset - 1}, where {end - 1} is committed; "
                "try again, or read another node",
                ExitCode.STORAGE,
            )

    def _apply(self, batch: Batch, end: int, latest_ms: int | None) -> bool:
        """Apply the records of `batch` in reach; False if one is later than that."""
        header = batch.header
        try:
            found = [each for each in records_of(batch) if self.end_offset <= each.offset < end]
            late = next((at for at, each in enumerate(found) if _is_later(each.timestamp, latest_ms)), None)
            taken = found if late is None else found[:late]
            if taken and not header.is_control and not self._leaves_out(batch):
                self._loader.load(
                    [decode(each.value or b"") for each in taken],
                    base_offset=taken[0].offset,
                    epoch=header.leader_epoch,
                )
        except (RecordDecodeError, ImageError, InvalidBatchError) as error:
            raise ReplayError(
                f"the batch at offset {header.base_offset} in {self._history.place} can't be applied: {error}"
                ". It was written by a later version of quorate, or is damaged. An offset below can be read",
                ExitCode.STORAGE,
            ) from error
        if taken:
            self.end_offset = taken[-1].offset + 1
            self.timestamp_ms = taken[-1].timestamp
            self.epoch = header.leader_epoch
        return late is None

    def _leaves_out(self, batch: Batch) -> bool:
        header = batch.header
        return bool(self._skipped) and self._skipped.skips(
            Offset(header.base_offset), Epoch(header.leader_epoch)
        )

    def _too_early(self, moment: Moment) -> ReplayError:
        return ReplayError(f"{moment} is before all that {self._history.place} has: {self._earliest()}")

    def _earliest(self) -> str:
        extent = self._history.extent()
        start = extent.start_offset
        if not start:
            first = next(self._history.batches(0, extent.end_offset), None)
            if first is None:
                return "it has no records"
            return f"the earliest is offset 0, of {shown_time(first.header.base_timestamp)}"
        oldest = next((each for each in self._history.snapshots(_ignore) if each.end_offset >= start), None)
        if oldest is None:
            return f"its log begins at offset {start}, and the snapshot of what was before is gone"
        return (
            f"the earliest is offset {oldest.end_offset - 1}, of {shown_time(oldest.last_timestamp_ms)} "
            "(the oldest snapshot)"
        )


def _is_at_or_before(stored: StoredSnapshot, moment: Moment) -> bool:
    if moment.last_offset is not None:
        return stored.end_offset <= moment.last_offset + 1
    return not _is_later(stored.last_timestamp_ms, moment.timestamp_ms)


def _is_later(timestamp_ms: int, latest_ms: int | None) -> bool:
    return latest_ms is not None and timestamp_ms > latest_ms


def _ignore(problem: str) -> None:
    """Drop a warning that was given before."""
