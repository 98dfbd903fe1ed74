"""Fetch without a session, as its leader answers it: check, read, and wait until there is enough."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import trio

from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.foundation.purgatory import Purgatory, Waiter
from quorate.broker.replication.foundation.requests import FetchItem, FetchOptions, FetchResult
from quorate.broker.replication.replica.partition_replica import PartitionReplica
from quorate.broker.replication.serving.partition_fetch import take_in_fetch
from quorate.broker.replication.serving.partition_reader import (
    PartitionReader,
    QuietRead,
    ReadableEnd,
    is_urgent,
)
from quorate.runtime import Slices


class ParkedFetch(Waiter):
    """A fetch that waits for records. Its owner gets the answer from `results`, and calls `abandon` if the
    client has gone."""

    __slots__ = ("_finish", "_from_follower", "_watched", "expired", "quiet")

    def __init__(self, finish: Callable[[], Awaitable[list[FetchResult]]], *, from_follower: bool) -> None:
        super().__init__()
        self._finish = finish
        self._from_follower = from_follower
        self._watched: list[PartitionReplica] = []
        self.expired = False
        self.quiet: QuietRead | None = None
        """The results from before it waited, if they were asked for and may be used again."""

    def watch(self, partition: PartitionReplica) -> None:
        """Let the partition's next change complete the fetch."""
        self._watched.append(partition)
        partition.watchers.watch(self, follower=self._from_follower)

    def complete(self) -> None:
        if not self.done:
            for partition in self._watched:
                partition.watchers.unwatch(self)
            self._watched = []
        super().complete()

    def expire(self) -> None:
        self.expired = True
        self.complete()

    def abandon(self) -> None:
        self.complete()

    async def results(self) -> list[FetchResult]:
        """Wait until there is enough or time is up, and read."""
        await self.wait()
        return await self._finish()


async def finish(
    read_or_park: Callable[[bool], Awaitable[list[FetchResult] | ParkedFetch]], deadline: float
) -> list[FetchResult]:
    """Read for a fetch that has waited, and wait again while there is not enough and `deadline` is to come.
    `read_or_park` is told whether it may wait."""
    while True:
        outcome = await read_or_park(trio.current_time() < deadline)
        if not isinstance(outcome, ParkedFetch):
            return outcome
        try:
            await outcome.wait()
        finally:
            outcome.abandon()


class FetchService:
    """Reads for fetches and parks them. State of followers is taken in once, when a fetch arrives: a later
    read, or one at the deadline, changes nothing (KAFKA-15100)."""

    def __init__(self, reader: PartitionReader, purgatory: Purgatory, *, max_bytes: int) -> None:
        self._reader = reader
        self._purgatory = purgatory
        self._max_bytes = max_bytes

    async def begin(self, options: FetchOptions, *, again: bool = False) -> list[FetchResult] | ParkedFetch:
        """Begin a fetch. Return the answer if it needn't wait. `again`: the same may be asked again soon, so
        that what a consumer waits with is to be kept (`ParkedFetch.quiet`)."""
        deadline = trio.current_time() + options.max_wait_ms / 1000
        slices = Slices()
        for item in options.items if options.from_follower else ():
            self._note_follower(item, options)
            await slices.pause()
        return await self._read_or_park(options, deadline, wait=options.max_wait_ms > 0, again=again)

    def begin_again(self, options: FetchOptions, quiet: QuietRead) -> ParkedFetch | None:
        """Begin a repeated fetch from the earlier result `quiet`, without a read. None if another read may
        give more."""
        if not quiet.holds():
            return None
        deadline = trio.current_time() + options.max_wait_ms / 1000
        parked = self._waiting(options, deadline)
        parked.quiet = quiet
        for partition in quiet.partitions:
            parked.watch(partition)
        self._purgatory.hold(parked, deadline)
        return parked

    async def fetch(self, options: FetchOptions) -> list[FetchResult]:
        """Fetch, and wait if necessary."""
        begun = await self.begin(options)
        if not isinstance(begun, ParkedFetch):
            return begun
        try:
            return await begun.results()
        finally:
            begun.abandon()

    def _note_follower(self, item: FetchItem, options: FetchOptions) -> None:
        try:
            partition = self._reader.lookup(item.topic, item.partition_id)
            take_in_fetch(partition, item, replica_id=options.replica_id, replica_epoch=options.replica_epoch)
        except PartitionError:
            pass  # reported when it is read

    async def _read_or_park(
        self, options: FetchOptions, deadline: float, *, wait: bool, again: bool = False
    ) -> list[FetchResult] | ParkedFetch:
        while True:
            read = await self._read(options)
            if read.size >= options.min_bytes or not wait or not options.items or read.urgent:
                return read.results
            parked = await self._parked(read, options, deadline)
            if parked is None:
                continue
            if again and not parked.done:
                parked.quiet = self._reader.quiet(options, read.results)
            return parked

    def _waiting(self, options: FetchOptions, deadline: float) -> ParkedFetch:
        return ParkedFetch(
            lambda: finish(lambda wait: self._read_or_park(options, deadline, wait=wait), deadline),
            from_follower=options.from_follower,
        )

    async def _parked(self, read: "_FetchRead", options: FetchOptions, deadline: float) -> ParkedFetch | None:
        """Return a fetch that waits for changed partitions; None if one has changed since it was read. Cold
        or large reads let other tasks run, so each partition is watched first and then looked at."""
        parked = self._waiting(options, deadline)
        slices = Slices()
        try:
            for partition, readable_end in read.readable_ends:
                parked.watch(partition)
                if self._reader.readable_end(partition, options) != readable_end:
                    parked.abandon()
                    return None
                await slices.pause()
                if parked.done:
                    break
        except BaseException:
            parked.abandon()
            raise
        if not parked.done:
            self._purgatory.hold(parked, deadline)
        return parked

    async def _read(self, options: FetchOptions) -> "_FetchRead":
        read = _FetchRead()
        left = min(options.max_bytes, self._max_bytes)
        first = True
        slices = Slices()
        for item in options.items:
            one = await self._reader.read(item, options, left=left, first=first)
            read.results.append(one.result)
            read.urgent = read.urgent or is_urgent(item, options, one.result)
            if one.partition is not None:
                read.readable_ends.append((one.partition, one.readable_end))
            if one.result.records:
                read.size += one.result.size
                left -= one.result.size
                first = False
            await slices.pause()
        return read


@dataclass(slots=True)
class _FetchRead:
    """The results of all partitions of a request."""

    results: list[FetchResult] = field(default_factory=list)
    readable_ends: list[tuple[PartitionReplica, ReadableEnd | None]] = field(default_factory=list)
    """The end of the readable records of each partition at that moment."""
    size: int = 0
    urgent: bool = False
