"""The metadata as they were at an offset: replayed from a snapshot and the log, in slices."""

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol
from uuid import UUID

import trio

from quorate.broker.metadata.batch_loader import BatchLoader, ImageLoader
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import Topic
from quorate.broker.metadata.record_codec import decode
from quorate.broker.page.log_changes import LogChange, PlacedRecord, changes_in
from quorate.broker.page.page_state import Elected, Seen
from quorate.log import DamagedSnapshotError, SnapshotMissingError
from quorate.log.batches.batch import Batch
from quorate.log.batches.control import leader_change_in, read_leader_change
from quorate.log.batches.records import Record, records_of
from quorate.log.snapshots.snapshot_file import SnapshotReader
from quorate.runtime import Slices, get_logger
from quorate.types import SnapshotId

log = get_logger(__name__)

AT_ONCE: Final = 2
"""Replays that run at the same time."""
_KEPT: Final = 24
_KEPT_PARTITIONS: Final = 400_000
"""The largest number of partitions in all images that are kept."""
_BEFORE, _AFTER = 30, 15
"""Changes that are told before an offset, and after it."""
_LOOKED_FIRST: Final = 256
"""Records before an offset that are looked through first: most logs say enough in them."""
_LOOKED_THROUGH: Final = 4000
"""Records on each side of an offset that are looked through for changes: most may say nothing."""
_PART: Final = 50
_STRIDE: Final = 256
"""A replay also keeps the image at the last multiple of this: who goes back a step goes on."""
_LONG_STRIDE: Final = 1024
_LONG_STRIDES: Final = 12
"""And the images at so many multiples of a longer one: who drags the slider back goes on, too."""


class OffsetGoneError(Exception):
    """The log begins later, and no snapshot is early enough."""

    def __init__(self, offset: int, earliest: int | None) -> None:
        kept = "nothing before the present is kept" if earliest is None else f"the earliest is {earliest}"
        super().__init__(f"offset {offset} is no longer there: {kept}")
        self.earliest = earliest


class OffsetAheadError(Exception):
    """Nothing is committed at the offset yet."""

    def __init__(self, offset: int, latest: int) -> None:
        super().__init__(f"offset {offset} is not there yet: the latest is {latest}")
        self.latest = latest


@dataclass(frozen=True, slots=True)
class Reach:
    """What is readable of a log: the committed offsets [start, end)."""

    start: int
    end: int


class PageLog(Protocol):
    """A metadata log with its snapshots, to be replayed."""

    def reach(self) -> Reach: ...

    def snapshots(self) -> Sequence[SnapshotId]:
        """Return those that may be loaded, in ascending order."""
        ...

    def open(self, snapshot: SnapshotId) -> AbstractContextManager[SnapshotReader]:
        """Raises `SnapshotMissingError`, `DamagedSnapshotError`."""
        ...

    async def read(self, start: int, end: int) -> Sequence[Batch]:
        """Return some whole batches, from the one that holds `start` on, and none that begins at `end` or
        later."""
        ...

    def skips(self, batch: Batch) -> bool:
        """Return whether an operator had the batch left out."""
        ...

    def epoch_start(self, epoch: int) -> int | None:
        """Return where an epoch begins. None: not known."""
        ...


class Past:
    """The images and changes of a log, by offset. The last few images are kept."""

    def __init__(self, page_log: PageLog) -> None:
        self.log = page_log
        self._kept: OrderedDict[int, Seen] = OrderedDict()
        self._running: dict[int, trio.Event] = {}
        """The replays under way, by the offset that others may wait for too."""
        self._limit = trio.Semaphore(AT_ONCE)
        self._elected: Elected | None = None
        self.replays = 0
        """The number of replays so far."""

    @property
    def latest(self) -> int:
        """The last committed offset; -1: none."""
        return self.log.reach().end - 1

    @property
    def earliest(self) -> int:
        """The first offset that `at` has."""
        earliest = self._earliest()
        return self.latest if earliest is None else earliest

    async def at(self, offset: int) -> Seen:
        """Return the metadata with all records up to `offset`. Raises `OffsetGoneError`,
        `OffsetAheadError`."""
        reach = self.log.reach()
        if offset >= reach.end:
            raise OffsetAheadError(offset, reach.end - 1)
        while True:
            if (kept := self._again(offset)) is not None:
                return kept
            running = self._running.get(offset)
            if running is None:
                break
            await running.wait()
        done = self._running[offset] = trio.Event()
        try:
            async with self._limit:
                self.replays += 1
                seen, resumable = await self._replay(offset)
            if resumable:
                self._keep(seen)
            return seen
        finally:
            del self._running[offset]
            done.set()

    def _again(self, offset: int) -> Seen | None:
        kept = self._kept.get(offset)
        if kept is not None:
            self._kept.move_to_end(offset)
        return kept

    def _keep(self, seen: Seen) -> None:
        self._kept[seen.offset] = seen
        while len(self._kept) > _KEPT or (
            len(self._kept) > 1
            and sum(each.image.partition_count() for each in self._kept.values()) > _KEPT_PARTITIONS
        ):
            self._kept.popitem(last=False)

    def _earliest(self) -> int | None:
        start = self.log.reach().start
        if not start:
            return 0
        return next((each.end_offset - 1 for each in self.log.snapshots() if each.end_offset >= start), None)

    async def _replay(self, offset: int) -> tuple[Seen, bool]:
        """Return also whether a later image can go on from there: not within a transaction."""
        loader, at, time_ms, epoch = await self._start(offset)
        began_at = at
        slices = Slices()
        while at <= offset:
            batches = await self.log.read(at, offset + 1)
            if not batches:
                # Deleted meanwhile.
                raise OffsetGoneError(offset, self._earliest())
            began = at
            for batch in batches:
                header = batch.header
                found = [each for each in records_of(batch) if at <= each.offset <= offset]
                if not found:
                    continue
                if header.base_offset > at:
                    raise OffsetGoneError(offset, self._earliest())
                if began_at < at and _is_mark(at, found[-1].offset, offset) and not loader.in_transaction:
                    self._keep(await self._seen(loader.image.copy(), at - 1, time_ms, epoch))
                if not header.is_control and not self.log.skips(batch):
                    for part in _parts(found):
                        loader.load(
                            [decode(each.value or b"") for each in part],
                            base_offset=part[0].offset,
                            epoch=header.leader_epoch,
                        )
                        await slices.pause()
                at, time_ms, epoch = found[-1].offset + 1, found[-1].timestamp, header.leader_epoch
                await slices.pause()
            if at == began:
                raise OffsetGoneError(offset, self._earliest())
        return await self._seen(loader.image, offset, time_ms, epoch), not loader.in_transaction

    async def _seen(self, image: MetadataImage, offset: int, time_ms: int | None, epoch: int) -> Seen:
        elected = await self.elected(epoch)
        return Seen(image=image, offset=offset, time_ms=time_ms, epoch=epoch, elected=elected)

    async def _start(self, offset: int) -> tuple[BatchLoader, int, int | None, int]:
        """Return where a replay begins, and the time and the epoch of the record before."""
        start = self.log.reach().start
        near = max((each for each in self._kept if each <= offset), default=-1)
        for snapshot in reversed(self.log.snapshots()):
            if not max(start, near + 2) <= snapshot.end_offset <= offset + 1:
                continue
            try:
                return await self._loaded(snapshot)
            except (DamagedSnapshotError, SnapshotMissingError) as error:
                log.warning("a snapshot can't be shown", reason=str(error))
        if near >= 0 and near + 1 >= start:
            kept = self._kept[near]
            # Whoever goes back step by step begins here each time.
            self._kept.move_to_end(near)
            return BatchLoader(kept.image.copy()), near + 1, kept.time_ms, kept.epoch
        if start:
            raise OffsetGoneError(offset, self._earliest())
        return BatchLoader(), 0, None, 0

    async def _loaded(self, snapshot: SnapshotId) -> tuple[BatchLoader, int, int | None, int]:
        loaded: list[BatchLoader] = []
        filling = ImageLoader(snapshot, loaded.append)
        slices = Slices()
        with self.log.open(snapshot) as reader:
            for chunk in reader:
                filling.add(chunk)
                await slices.pause()
            time_ms = reader.contents.last_timestamp_ms or None
        filling.install()
        return loaded[0], snapshot.end_offset, time_ms, snapshot.epoch

    async def elected(self, epoch: int) -> Elected | None:
        """Return the election of an epoch's leader, as far as the log has it."""
        known = self._elected
        if known is not None and known.epoch == epoch:
            return known
        begin, reach = self.log.epoch_start(epoch), self.log.reach()
        if begin is None or not reach.start <= begin < reach.end:
            return None
        for batch in await self.log.read(begin, begin + 1):
            if (found := elected_in(batch)) is not None and found.epoch == epoch:
                self._elected = found
                return found
        return None

    async def changes(self, around: int) -> tuple[list[LogChange], dict[UUID, str]]:
        """Return the changes before and after an offset, in the order of the log, and the names of topics
        that were created among them. Raises `OffsetAheadError`."""
        reach = self.log.reach()
        if around >= reach.end:
            raise OffsetAheadError(around, reach.end - 1)
        end = min(reach.end, around + 1 + _LOOKED_THROUGH)
        names: dict[UUID, str] = {}
        before: deque[LogChange] = deque(maxlen=_BEFORE)
        async with self._limit:
            for looked in (_LOOKED_FIRST, _LOOKED_THROUGH):
                start = max(reach.start, around + 1 - looked)
                before.clear()
                before.extend(await self._changes_in(start, around + 1, names, most=None))
                if len(before) == _BEFORE or start == reach.start:
                    break
            after = await self._changes_in(around + 1, end, names, most=_AFTER)
        return [*before, *after], names

    async def _changes_in(
        self, start: int, end: int, names: dict[UUID, str], *, most: int | None
    ) -> list[LogChange]:
        """Return the changes in [start, end), the first `most` of them, and add the names of topics."""
        found: list[LogChange] = []
        at, slices = start, Slices()
        while at < end and (most is None or len(found) < most) and (batches := await self.log.read(at, end)):
            for batch in batches:
                placed: list[PlacedRecord] = []
                for each in placed_records(batch):
                    if start <= each.offset < end:
                        placed.append(each)
                        if isinstance(each.record, Topic):
                            names[each.record.topic_id] = each.record.name
                    await slices.pause()
                found += changes_in(placed)
                at = max(at, batch.header.end_offset)
                if most is not None and len(found) >= most:
                    break
                await slices.pause()
        return found[:most]


def placed_records(batch: Batch) -> Iterator[PlacedRecord]:
    """Yield the records of a batch, and of a control batch the election that it tells of."""
    header = batch.header
    if header.is_control:
        elected = elected_in(batch)
        if elected is not None:
            yield PlacedRecord(elected.offset, elected.time_ms, elected.epoch, elected)
        return
    for each in records_of(batch):
        yield PlacedRecord(each.offset, each.timestamp, header.leader_epoch, decode(each.value or b""))


def elected_in(batch: Batch) -> Elected | None:
    """Return the election that a batch tells of; None if it tells of none."""
    if not batch.header.is_control or (value := leader_change_in(batch)) is None:
        return None
    change = read_leader_change(value)
    return Elected(
        leader=change.leader,
        epoch=batch.header.leader_epoch,
        offset=batch.header.base_offset,
        time_ms=batch.header.base_timestamp,
        voters=change.voters,
        granted=change.granting_voters,
    )


def _is_mark(first: int, last: int, offset: int) -> bool:
    """Return whether a replay to `offset` keeps the image before the records [first, last]."""
    if first <= offset - offset % _STRIDE <= last:
        return True
    return first <= last - last % _LONG_STRIDE and last > offset - _LONG_STRIDES * _LONG_STRIDE


def _parts(found: Sequence[Record]) -> Iterator[list[Record]]:
    at = iter(found)
    while part := list(islice(at, _PART)):
        yield part
