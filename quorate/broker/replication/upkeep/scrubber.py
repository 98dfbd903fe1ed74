"""The scrub reads data that was not asked for in a long time, before the last good copy is gone.

Disks lose bits, and nothing tells before a read. So closed segments are read in the background, each replica
once in `interval_ms`, the one checked longest ago first, at a bounded rate per directory. Every batch is
checked against its CRC, its offset and its epoch, and both indexes against the batches.
"""

import os.path
from collections.abc import Awaitable, Callable, Container
from typing import Final, NamedTuple

import trio

from quorate.broker.replication.foundation.failures import DamageFound, Failures
from quorate.broker.replication.foundation.stats import ReplicationStats
from quorate.broker.replication.replica.disk_failures import remedy_for
from quorate.broker.replication.replica.hosted_replicas import HostedReplicas
from quorate.broker.replication.replica.partition_replica import DamageRead, PartitionReplica
from quorate.broker.replication.storage.log_directory import LogDirectory
from quorate.broker.replication.storage.log_manager import LogManager
from quorate.log import (
    DamagedRange,
    Log,
    LogError,
    SegmentFindings,
    TopicPartition,
    UnreadableCheckpointError,
    decode_lines,
    encode_lines,
    is_number,
)
from quorate.runtime import (
    DescriptorsExhaustedError,
    Disk,
    DiskError,
    Slices,
    TokenBucket,
    get_logger,
    read_file,
    write_file_atomically,
)
from quorate.types import Offset

log = get_logger(__name__)

SCRUB_CHECKPOINT: Final = "quorate-scrub-checkpoint"
"""Not in Kafka: lines of `topic partition checkedMs nextOffset`."""


class LastCheck(NamedTuple):
    """The last check of one replica."""

    at_ms: int = 0
    """The end of its last whole check, on the wall clock; 0: never."""
    next_offset: Offset = Offset(0)
    """The base of the segment with which a check under way goes on; 0: none is under way."""


NEVER: Final = LastCheck()


class ScrubProgress:
    """The last checks of a directory's replicas. It is mutable, and owned by the scrub of the directory.
    Nothing depends on the file: without it everything is checked anew."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._path = f"{folder}/{SCRUB_CHECKPOINT}"
        self._checked: dict[TopicPartition, LastCheck] = {}
        self._dirty = False

    async def load(self) -> None:
        """Read the file, if there is one that can be read."""
        try:
            slices = Slices()
            for line in decode_lines(self._path, read_file(self._disk, self._path)):
                fields = line.split(" ")
                if len(fields) != 4 or not all(map(is_number, fields[1:])):
                    raise UnreadableCheckpointError(self._path, f"{line[:60]!r} is no line of it")
                self._checked[fields[0], int(fields[1])] = LastCheck(int(fields[2]), Offset(int(fields[3])))
                await slices.pause()
        except FileNotFoundError:
            pass
        except (UnreadableCheckpointError, DiskError) as error:
            log.warning(
                "a checkpoint can't be read; the scrub begins anew", path=self._path, reason=str(error)
            )
            self._checked.clear()

    def of(self, key: TopicPartition) -> LastCheck:
        return self._checked.get(key, NEVER)

    def note(self, key: TopicPartition, checked: LastCheck) -> None:
        """Remember how far a replica is."""
        if self.of(key) != checked:
            self._checked[key] = checked
            self._dirty = True

    def keep(self, keys: Container[TopicPartition]) -> None:
        """Forget all replicas but these."""
        removed = [key for key in self._checked if key not in keys]
        for key in removed:
            del self._checked[key]
            self._dirty = True

    async def store(self) -> None:
        """Write the file durably, unless nothing changed. Raises `DiskError`."""
        if not self._dirty:
            return
        self._dirty = False
        lines, slices = list[str](), Slices()
        for (topic, partition), checked in list(self._checked.items()):
            lines.append(f"{topic} {partition} {checked.at_ms} {checked.next_offset}")
            await slices.pause()
        await write_file_atomically(self._disk, self._path, encode_lines(lines))


_LOOK_SECONDS: Final = 60.0
"""The pause between two looks for replicas that are due."""
_BURST_SECONDS: Final = 0.25


class Scrubber:
    """Checks the replicas of all directories. `run` checks those that are due, and `suspect` has a segment
    checked at once. `DamageFound` is reported whenever a check has found damage in a replica that was not
    known."""

    def __init__(
        self,
        logs: LogManager,
        hosted: HostedReplicas,
        failures: Failures,
        *,
        interval_ms: int,
        bytes_per_second: int,
        disk: Disk,
        now_ms: Callable[[], int],
        stats: ReplicationStats,
    ) -> None:
        """`interval_ms`: 0 for no scrub; suspects are checked all the same."""
        self._logs = logs
        self._interval_ms = interval_ms
        self._rate = bytes_per_second
        self._disk = disk
        self._hosted = hosted
        self._failures = failures
        self._now_ms = now_ms
        self._stats = stats
        self._suspects: dict[TopicPartition, set[Offset]] = {}
        self._wake = trio.Event()

    async def run(self) -> None:
        """Scrub until cancelled, each directory in a task of its own."""
        self._stats.scrubbed_since_ms.update({each.path: 0 for each in self._logs.directories})
        async with trio.open_nursery() as nursery:
            for where in self._logs.directories:
                nursery.start_soon(self._run, where)

    def suspect(self, met: DamageRead) -> None:
        """Have the segment checked now in which a read met damage. The check finds all that is damaged in
        it."""
        partition, error = met.partition, met.error
        name = os.path.basename(error.path).partition(".")[0]
        key = (partition.topic, partition.partition_id)
        bases = self._suspects.setdefault(key, set())
        if name.isdecimal() and Offset(int(name)) not in bases:
            bases.add(Offset(int(name)))
            log.warning(
                "a read met damage; the segment is checked", partition=str(partition), reason=str(error)
            )
            self._wake.set()

    async def _run(self, where: LogDirectory) -> None:
        progress = ScrubProgress(self._disk, where.path)
        await progress.load()
        while where.failure is None:
            wake = self._wake
            with trio.move_on_after(min(_LOOK_SECONDS, self._interval_ms / 1000 or _LOOK_SECONDS)):
                await wake.wait()
            if self._wake is wake and wake.is_set():
                self._wake = trio.Event()
            try:
                await self._check_suspects(where)
                if self._interval_ms:
                    await self._scrub_due(where, progress)
            except DescriptorsExhaustedError as error:
                log.error("the scrub can't go on for now", path=where.path, reason=str(error))
            except DiskError as error:
                self._logs.forsake()
                log.error("the scrub can't note its progress", path=where.path, reason=str(error))

    async def _scrub_due(self, where: LogDirectory, progress: ScrubProgress) -> None:
        bucket = TokenBucket(burst_s=_BURST_SECONDS)

        async def pace(size: int) -> None:
            bucket.use(size, self._rate, now=trio.current_time())
            await trio.sleep(bucket.wait_s(self._rate, now=trio.current_time()))

        slices, now_ms = Slices(), self._now_ms()
        due: list[tuple[int, TopicPartition]] = []
        for key in list(where.logs):
            at_ms = progress.of(key).at_ms
            # A clock that was set back must not put off a check for years.
            if not now_ms - self._interval_ms < at_ms <= now_ms:
                due.append((at_ms, key))
            await slices.pause()
        for _, key in sorted(due):
            await self._scrub(where, key, progress, pace)
            await self._check_suspects(where)
            await slices.pause()
        progress.keep(where.identities)
        await progress.store()
        oldest = [progress.of(key).at_ms for key in where.identities]
        self._stats.scrubbed_since_ms[where.path] = min(oldest, default=now_ms)

    async def _scrub(
        self,
        where: LogDirectory,
        key: TopicPartition,
        progress: ScrubProgress,
        pace: Callable[[int], Awaitable[None]],
    ) -> None:
        """Check the closed segments of one replica, from where an earlier check of it was interrupted."""
        opened, before = where.logs.get(key), progress.of(key)
        if opened is None:
            return
        began_ms, damaged = self._now_ms(), False
        for base in opened.bases():
            if base < before.next_offset:
                continue
            if where.logs.get(key) is not opened or where.failure is not None:
                return
            if base > opened.first_base_offset:
                progress.note(key, LastCheck(before.at_ms, base))
                await progress.store()
            damaged |= await self._check(where, key, opened, base, pace)
        partition = self._hosted.find(*key)
        damaged |= partition is not None and bool(partition.damage)
        # A damaged replica is the first to be read again after a restart.
        progress.note(key, NEVER if damaged else LastCheck(began_ms))

    async def _check_suspects(self, where: LogDirectory) -> None:
        async def pace(size: int) -> None:
            await trio.lowlevel.checkpoint()

        for key in [key for key in self._suspects if key in where.logs]:
            for base in self._suspects[key].copy():
                if not await self._check(where, key, where.logs[key], base, pace):
                    log.warning("the damage that a read met isn't there", topic=key[0], partition=key[1])
                if key not in where.logs:
                    break
            self._suspects.pop(key, None)
        for key in list(self._suspects):
            if not any(key in each.logs for each in self._logs.directories):
                del self._suspects[key]

    async def _check(
        self,
        where: LogDirectory,
        key: TopicPartition,
        opened: Log,
        base: Offset,
        pace: Callable[[int], Awaitable[None]],
    ) -> bool:
        """Check one segment, and return whether it is damaged."""
        try:
            findings = await opened.verify_segment(base, pace=pace)
        except LogError as error:
            log.error("a segment can't be checked", topic=key[0], partition=key[1], reason=str(error))
            return False
        partition = self._hosted.find(*key)
        if findings is None:
            return False
        self._stats.scrubbed_bytes += findings.bytes_read
        if partition is not None and partition.log is opened:
            self._take(partition, f"{opened.folder}/{base:020}.log", findings)
        return bool(findings.damaged)

    def _take(self, partition: PartitionReplica, path: str, findings: SegmentFindings) -> None:
        partition.damage.keep(partition.log.log_start_offset, partition.log.end_offset)
        new = partition.damage.found(path, findings.damaged)
        for each in new:
            _tell(partition, each)
        if new:
            self._failures.report(DamageFound(partition.topic, partition.partition_id))


def _tell(partition: PartitionReplica, found: DamagedRange) -> None:
    log.error(
        "a replica is damaged",
        topic=partition.topic,
        partition=partition.partition_id,
        segment=found.path,
        position=found.position,
        offsets=f"[{found.start_offset}, {found.end_offset})",
        reason=found.problem,
        remedy=remedy_for(partition.topic, partition.partition_id, partition.broker_id),
    )
