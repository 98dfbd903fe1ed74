"""Watchers of a simulated quorum, and the check that they heard of exactly what was applied."""

import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import trio

from quorate.client import Client, Watch, Watched
from quorate.raft import LeaderNotFoundError, OffsetGoneError, OutcomeUnknownError, PeerProtocolError
from quorate.simulation.cluster_run import Clients
from quorate.simulation.patience import must_end
from quorate.simulation.quorum.quorum_clients import outside_client
from quorate.simulation.quorum.quorum_cluster import QuorumCluster
from quorate.simulation.violations import SafetyViolation
from quorate.types import Offset


@dataclass(slots=True)
class Stretch:
    """What one watch heard, from the offset that it began at up to `end_offset`."""

    watcher: str
    from_offset: Offset
    end_offset: Offset
    heard: list[tuple[int, bytes]] = field(default_factory=list)
    earliest: Offset | None = None
    """The offset that the watch was told of when it ended because records were gone."""

    @property
    def next_offset(self) -> Offset:
        """The offset that the next watch goes on from."""
        return self.end_offset if self.earliest is None else self.earliest

    def check(self, applied: Sequence[tuple[int, bytes]]) -> None:
        """Raise `SafetyViolation` unless it heard of each applied record of the stretch once and in order."""
        if self.heard == applied:
            return
        heard = Counter(offset for offset, _ in self.heard)
        problem = "heard of records out of order"
        if strange := [offset for offset, record in self.heard if (offset, record) not in applied]:
            problem = f"heard of what was not applied there, at {strange[:5]}"
        elif twice := [offset for offset, count in heard.items() if count > 1]:
            problem = f"heard twice of what is at {twice[:5]}"
        elif missed := [offset for offset, _ in applied if offset not in heard]:
            problem = f"did not hear of what is at {missed[:5]}"
        raise SafetyViolation(
            f"WatchedIsApplied: {self.watcher}, from {self.from_offset} to {self.end_offset}, {problem}"
        )


class Watchers(Clients[QuorumCluster]):
    """Clients on hosts of their own, each with one watch after another. Most go on where the one before
    ended, as a program does that was killed and had kept its offset."""

    def __init__(self, cluster: QuorumCluster, count: int, source: random.Random) -> None:
        super().__init__(cluster, source)
        self._count = count
        self._running = count
        self._ended = trio.Event()
        self._stretches: list[Stretch] = []
        self.gone = 0
        """The number of watches that were told that their records are gone."""

    @property
    def heard(self) -> int:
        return sum(len(stretch.heard) for stretch in self._stretches)

    def start(self, nursery: trio.Nursery) -> None:
        for number in range(1, self._count + 1):
            nursery.start_soon(self._run, f"watcher-{number}", self._derived())

    async def finish_at_the_end(self, within_s: float) -> None:
        """Return when each watcher has heard of all that is in the log. Raises `LivenessViolation`."""
        self.finish()
        if self._count:
            with must_end(within_s, "WatchersReachTheEnd: a watch did not come to the end of the log"):
                await self._ended.wait()

    def check(self, log: Sequence[tuple[int, bytes]]) -> None:
        """Raise `SafetyViolation` unless each watch heard of exactly its part of `log`, all applied
        (offset, record) pairs in order."""
        offsets = [offset for offset, _ in log]
        for stretch in self._stretches:
            begin = bisect_left(offsets, stretch.from_offset)
            stretch.check(log[begin : bisect_left(offsets, stretch.end_offset)])

    async def _run(self, name: str, source: random.Random) -> None:
        next_offset: Offset | None = None
        while not self._finish.is_set():
            async with outside_client(self._cluster, name, source) as client:
                for _ in range(source.randint(1, 3)):
                    start = next_offset
                    if source.random() < 0.2:
                        start = source.choice((None, Offset(0)))
                    next_offset = await self._roam(client, name, start, source)
                    await self._pause(source, 1.0)
                    if self._finish.is_set():
                        break
        async with outside_client(self._cluster, name, source) as client:
            await self._go_to_the_end(client, name, next_offset or Offset(0))
        self._running -= 1
        if self._running == 0:
            self._ended.set()

    async def _roam(
        self, client: Client, name: str, start: Offset | None, source: random.Random
    ) -> Offset | None:
        """Watch for a while, at a pace of its own. Return the offset to go on from, if one is known."""
        patience_s, pause_chance = source.choice((0.1, 1.0, 5.0)), source.choice((0.0, 0.0, 0.2))
        idle_ms, timeout_ms = source.choice((None, None, 0, 500)), source.choice((1000, 10_000))
        leave_at = trio.current_time() + source.uniform(0.2, 4.0)
        try:
            async with client.watch(start, idle_ms=idle_ms, timeout_ms=timeout_ms) as watch:
                stretch = self._begin(name, watch)
                goes_on = True
                while goes_on and trio.current_time() < leave_at and not self._finish.is_set():
                    with trio.move_on_after(patience_s):
                        goes_on = await self._hear(watch, stretch)
                    stretch.end_offset = watch.next_offset
                    if source.random() < pause_chance:
                        await self._pause(source, 0.5)
        except (LeaderNotFoundError, OutcomeUnknownError):
            return start  # the end of the log was asked for, and no leader answered
        return stretch.next_offset

    async def _go_to_the_end(self, client: Client, name: str, start: Offset) -> None:
        """Watch until the log's end is reached, again from where it begins if records are gone."""
        while True:
            async with client.watch(start, idle_ms=0) as watch:
                stretch = self._begin(name, watch)
                while await self._hear(watch, stretch):
                    stretch.end_offset = watch.next_offset
                stretch.end_offset = watch.next_offset
            if stretch.earliest is None:
                return
            start = stretch.earliest

    def _begin(self, name: str, watch: Watch) -> Stretch:
        stretch = Stretch(name, watch.next_offset, watch.next_offset)
        self._stretches.append(stretch)
        self._cluster.trace.add(name, f"watches from {stretch.from_offset}")
        return stretch

    async def _hear(self, watch: Watch, stretch: Stretch) -> bool:
        """Wait for the next record. Return whether there may be another one."""
        try:
            watched = await anext(watch)
        except (LeaderNotFoundError, OutcomeUnknownError):
            return True  # the next call asks again
        except StopAsyncIteration:
            return False
        except OffsetGoneError as gone:
            self._lose(watch, stretch, gone.earliest)
            return False
        except PeerProtocolError as error:
            self._found(stretch, str(error))
            return False
        self._check_committed(stretch, watched)
        stretch.heard.append((watched.offset, watched.record))
        self._cluster.trace.add(stretch.watcher, f"hears of {watched.offset}")
        return True

    def _lose(self, watch: Watch, stretch: Stretch, earliest: Offset) -> None:
        self.gone += 1
        stretch.earliest = earliest
        self._cluster.trace.add(
            stretch.watcher, f"the records from {watch.next_offset} to {earliest} are gone"
        )
        if not watch.next_offset < earliest <= self._cluster.checker.committed.end_offset:
            self._found(stretch, f"at {watch.next_offset} the records before {earliest} were called gone")

    def _check_committed(self, stretch: Stretch, watched: Watched) -> None:
        """Check at once what may look right at the end: a record may be committed after it was heard of."""
        piece = self._cluster.checker.committed.holding(watched.offset)
        if piece is None or piece.epoch != watched.epoch or watched.record not in piece.data:
            self._found(stretch, f"heard of offset {watched.offset} in epoch {watched.epoch}: not committed")

    def _found(self, stretch: Stretch, problem: str) -> None:
        self._cluster.found("WatchedIsCommitted", SafetyViolation(f"{stretch.watcher}: {problem}"))
