"""The tasks that compact a broker's logs, at the rate of `log.cleaner.io.max.bytes.per.second`."""

import math
from collections import deque
from functools import partial
from typing import Final

import trio

from quorate.broker.replication.foundation.failures import Failures
from quorate.broker.replication.replica.hosted_replicas import HostedReplicas
from quorate.broker.replication.replica.partition_replica import LogFailed, PartitionReplica
from quorate.broker.replication.replica.replica_parts import (
    CompactionPass,
    CompactionSettings,
    CompactionStoppedError,
)
from quorate.broker.replication.storage.log_manager import LogManager
from quorate.broker.replication.upkeep.cleaning_choice import (
    CleaningState,
    CleaningStats,
    Look,
    is_due,
    look_at,
)
from quorate.broker.settings.replication_config import ReplicationConfig
from quorate.log import CompactionAbandonedError, LogError, LogFailedError
from quorate.log.batches.batch import BatchHeader
from quorate.log.compaction.compactor import compact
from quorate.log.compaction.terms import CompactionResult, CompactionRules
from quorate.runtime import (
    Compute,
    DescriptorsExhaustedError,
    DiskError,
    DiskFullError,
    Slices,
    TokenBucket,
    WallClock,
    get_logger,
)
from quorate.types import Offset

log = get_logger(__name__)

_BURST_S: Final = 0.3
_PAUSE_MIN_S: Final = 0.001
"""A rest of a rounding error is no time at all, and would be waited for again and again."""
_PAUSE_MAX_S: Final = 1.0
"""The longest pause until the rate is looked at again: it may have been raised."""
_NO_BOUND: Final = 1e300


class CleaningThrottle:
    """The bytes that all passes of a broker read and write, and their bound (bytes per second)."""

    __slots__ = ("_bound", "_bucket")

    def __init__(self, bound: float) -> None:
        self._bucket = TokenBucket(burst_s=_BURST_S)
        self._bound = math.inf
        self.configure(bound)

    def configure(self, bound: float) -> None:
        """Apply another bound from now on."""
        self._bound = bound if bound < _NO_BOUND else math.inf

    async def used(self, size: int, under_way: CompactionPass) -> None:
        """Count `size` bytes and wait until the rate is back at the bound, or the pass should end. Raises
        `CompactionStoppedError`."""
        under_way.check()
        if not math.isinf(self._bound):
            self._bucket.use(size, self._bound, now=trio.current_time())
        while not math.isinf(self._bound):
            wait_s = self._bucket.wait_s(self._bound, now=trio.current_time())
            if wait_s <= 0:
                return
            with trio.move_on_after(min(max(wait_s, _PAUSE_MIN_S), _PAUSE_MAX_S)):
                await under_way.stopped.wait()
            under_way.check()


class PassPace:
    """The pace of one pass."""

    __slots__ = ("_pass", "_throttle")

    def __init__(self, throttle: CleaningThrottle, under_way: CompactionPass) -> None:
        self._throttle = throttle
        self._pass = under_way

    async def moved(self, bytes_read: int, bytes_written: int) -> None:
        """Count what the pass has read and written. Raises `CompactionStoppedError` if it should end."""
        await self._throttle.used(bytes_read + bytes_written, self._pass)


class PartitionSequences:
    """The sequences of one partition, as its producers are now."""

    __slots__ = ("_partition",)

    def __init__(self, partition: PartitionReplica) -> None:
        self._partition = partition

    def __call__(self, header: BatchHeader) -> bool:
        """Return whether a batch of the log is the last of a producer that is still known."""
        producer = self._partition.producers.producers.get(header.producer_id)
        return (
            producer is not None
            and producer.epoch == header.producer_epoch
            and producer.last.last_offset == header.end_offset - 1
        )


_SHORTAGE_S: Final = 60.0
"""The pause of a log after the disk was full or no file descriptor was left."""
_BACKOFF_MIN_S: Final = 0.01
_TABLE_MIN_BYTES: Final = 1 << 20
"""The keys' table of one of several passes at once. Kafka doesn't start with less."""


class LogCleaner:
    """Rounds: a look at all logs, then passes over those that are due, the dirtiest first."""

    def __init__(
        self,
        config: ReplicationConfig,
        logs: LogManager,
        hosted: HostedReplicas,
        failures: Failures,
        *,
        wall_clock: WallClock,
        compute: Compute,
    ) -> None:
        self.stats = CleaningStats(uncleanable=dict.fromkeys(logs.paths, (0, 0)))
        self._config = config
        self._logs = logs
        self._hosted = hosted
        self._failures = failures
        self._now_ms = wall_clock.now_ms
        self._compute = compute
        self._throttle = CleaningThrottle(config.log_cleaner_io_max_bytes_per_second)
        self._states: dict[PartitionReplica, CleaningState] = {}
        self._reconfigured = trio.Event()

    def reconfigure(self, config: ReplicationConfig) -> None:
        """Apply other settings. The rate counts at once, the rest from the next round on."""
        if config == self._config:
            return
        self._config = config
        self._throttle.configure(config.log_cleaner_io_max_bytes_per_second)
        self._reconfigured.set()

    async def run(self) -> None:
        """Compact logs that are due, until cancelled."""
        if not self._config.log_cleaner_enable:
            return
        while True:
            await self._round()
            with trio.move_on_after(max(self._config.log_cleaner_backoff_ms / 1000, _BACKOFF_MIN_S)):
                await self._reconfigured.wait()
            self._reconfigured = trio.Event()

    @property
    def _threads(self) -> int:
        """Return how many passes may run at once, as each has its part of the keys' table."""
        parts = max(1, self._config.log_cleaner_dedupe_buffer_size // _TABLE_MIN_BYTES)
        return min(self._config.log_cleaner_threads, parts)

    async def _round(self) -> None:
        before = (self.stats.bytes_before, self.stats.bytes_after)
        longest_s, self.stats.longest_s = self.stats.longest_s, 0.0
        passes = -1
        # As long as passes end well: those that fail at once are tried again after the pause.
        while self.stats.passes > passes and (threads := self._threads):
            passes = self.stats.passes
            found = await self._choose()
            if not found:
                break
            async with trio.open_nursery() as nursery:
                for _ in range(min(threads, len(found))):
                    nursery.start_soon(partial(self._work, found, threads))
            await self._store()
        read = self.stats.bytes_before - before[0]
        if read:
            self.stats.recopied_percent = 100 * (self.stats.bytes_after - before[1]) / read
        self.stats.longest_s = self.stats.longest_s or longest_s

    async def _store(self) -> None:
        try:
            await self._logs.store_cleaned()
        except DescriptorsExhaustedError as error:
            log.error("a checkpoint can't be written for now", reason=str(error))
        except DiskError as error:
            self._logs.forsake()
            log.error("a checkpoint can't be written", reason=str(error))

    # The choice

    async def _choose(self) -> deque[PartitionReplica]:
        """Look at all compacted logs. Return those that are due, the dirtiest first."""
        slices = Slices()
        states: dict[PartitionReplica, CleaningState] = {}
        due: list[tuple[float, PartitionReplica]] = []
        uncleanable: dict[str, tuple[int, int]] = dict.fromkeys(self._logs.paths, (0, 0))
        dirtiest, delay_ms = 0.0, 0
        for partition in self._hosted.each():
            settings = partition.compaction.settings
            if settings is None or partition.failure is not None or not self._hosted.has(partition):
                continue
            state = states[partition] = self._states.get(partition) or CleaningState()
            self._states[partition] = state
            look = await self._look(partition, state, settings)
            await slices.pause()
            if look is None:
                continue
            if state.uncleanable is not None:
                path = partition.log.folder.rpartition("/")[0]
                count, size = uncleanable[path]
                uncleanable[path] = (count + 1, size + look.survey.dirty_bytes)
                continue
            dirtiest = max(dirtiest, look.ratio)
            delay_ms = max(delay_ms, look.delay_ms(settings, now_ms=self._now_ms()))
            if self._may_pass(partition, state, look) and self._is_due(look, settings, state):
                due.append((look.ratio, partition))
        self._states = states
        stats = self.stats
        stats.dirtiest, stats.longest_delay_s, stats.uncleanable = dirtiest, delay_ms / 1000, uncleanable
        stats.looked_at = trio.current_time()
        due.sort(key=lambda each: each[0], reverse=True)
        return deque(partition for _, partition in due)

    async def _look(
        self, partition: PartitionReplica, state: CleaningState, settings: CompactionSettings
    ) -> Look | None:
        try:
            self._roll_if_idle(partition, state, settings)
            state.look = await look_at(
                partition,
                settings,
                cleaned=self._cleaned(partition),
                now_ms=self._now_ms(),
                before=state.look,
            )
        except (DiskError, LogError) as error:
            self._failed(partition, state, error)
            return None
        return state.look

    def _cleaned(self, partition: PartitionReplica) -> Offset:
        where = self._logs.folders.log_directory_of(partition.topic, partition.partition_id)
        key = (partition.topic, partition.partition_id)
        return Offset(0) if where is None else where.cleaned.get(key, Offset(0))

    def _roll_if_idle(
        self, partition: PartitionReplica, state: CleaningState, settings: CompactionSettings
    ) -> None:
        """Close an active segment that is too old, though nothing is appended that would roll it."""
        log_end = partition.log.end_offset
        idle, state.seen_end = state.seen_end == log_end, log_end
        if idle and partition.mirror is None:
            partition.log.roll_if_older(self._now_ms() - settings.segment_ms)

    def _may_pass(self, partition: PartitionReplica, state: CleaningState, look: Look) -> bool:
        key = (partition.topic, partition.partition_id)
        return (
            partition.compaction.is_open
            and state.fruitless != look.bounds
            and trio.current_time() >= state.postponed_until
            # A copy must not take one half from before a pass and the other from after it.
            and self._logs.futures.find(key) is None
        )

    def _is_due(self, look: Look, settings: CompactionSettings, state: CleaningState) -> bool:
        now_ms = self._now_ms()
        if is_due(look, settings, now_ms=now_ms):
            return True
        return state.tombstones_until_ms is not None and now_ms >= state.tombstones_until_ms

    # The passes

    async def _work(self, found: deque[PartitionReplica], threads: int) -> None:
        while found and self._threads >= threads:
            partition = found.popleft()
            state = self._states.get(partition)
            settings = partition.compaction.settings
            if state is None or settings is None or not self._hosted.has(partition):
                continue
            # Much may have changed since the look.
            look = await self._look(partition, state, settings)
            if (
                look is not None
                and partition.failure is None
                and self._may_pass(partition, state, look)
                and self._is_due(look, settings, state)
            ):
                await self._pass(partition, state, look, settings.delete_retention_ms, threads)

    async def _pass(
        self,
        partition: PartitionReplica,
        state: CleaningState,
        look: Look,
        delete_retention_ms: int,
        threads: int,
    ) -> None:
        began = trio.current_time()
        rules = CompactionRules(
            delete_retention_ms=delete_retention_ms,
            now_ms=self._now_ms(),
            map_bytes=self._config.log_cleaner_dedupe_buffer_size // threads,
            uncompressed_max_bytes=self._config.batch_uncompressed_max_bytes,
        )
        state.look = None
        with partition.compaction.passing() as under_way:
            try:
                result = await compact(
                    partition.log,
                    look.bounds,
                    rules,
                    PassPace(self._throttle, under_way),
                    PartitionSequences(partition),
                    self._compute,
                )
            except (CompactionStoppedError, CompactionAbandonedError) as stopped:
                log.info("a log is not compacted for now", partition=str(partition), reason=str(stopped))
                return
            except (DiskError, LogError) as error:
                self._failed(partition, state, error)
                return
            self._note(partition, state, look, result)
        self.stats.ended(result, seconds=trio.current_time() - began)
        log.info(
            "a log was compacted",
            partition=str(partition),
            cleaned_to=result.cleaned_to,
            bytes_before=result.bytes_before,
            bytes_after=result.bytes_after,
            records_before=result.records_before,
            records_after=result.records_after,
            seconds=round(trio.current_time() - began, 3),
        )

    def _note(
        self, partition: PartitionReplica, state: CleaningState, look: Look, result: CompactionResult
    ) -> None:
        key = (partition.topic, partition.partition_id)
        where = self._logs.folders.log_directory_of(*key)
        if where is not None:
            where.cleaned[key] = max(result.cleaned_to, where.cleaned.get(key, Offset(0)))
        state.tombstones_until_ms = result.next_horizon_ms
        fruitless = look.survey.dirty_bytes and result.cleaned_to <= look.bounds.dirty_start
        state.fruitless = look.bounds if fruitless else None

    def _failed(self, partition: PartitionReplica, state: CleaningState, error: Exception) -> None:
        """Handle an error of a look or a pass. The log is as it was."""
        if isinstance(error, LogFailedError) or not self._hosted.has(partition):
            return  # the failure was reported when it happened, or the replica is being removed
        if isinstance(error, DiskFullError | DescriptorsExhaustedError):
            state.postponed_until = trio.current_time() + _SHORTAGE_S
            log.error("a log can't be compacted for now", partition=str(partition), reason=str(error))
        elif isinstance(error, DiskError):
            self._failures.report(LogFailed(partition, error))
        elif state.uncleanable is None:
            state.uncleanable = str(error)
            log.error(
                "a log can't be compacted, and is left as it is until the broker starts again",
                partition=str(partition),
                reason=str(error),
            )
