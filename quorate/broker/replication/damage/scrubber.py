"""The scrub: it reads what nobody has asked for in a long time, before the last good copy is gone.

Disks lose bits, and nothing tells before a read. So closed segments are read in the background, each replica
once in `interval_ms`, the one checked longest ago first, at a bounded rate per directory. Every batch is
checked against its CRC, its offset and its epoch, and both indexes against the batches.
"""

import os.path
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from quorate.broker.replication.damage.scrub_progress import NEVER, LastCheck, ScrubProgress
from quorate.broker.replication.replica import PartitionReplica
from quorate.broker.replication.stats import ReplicationStats
from quorate.broker.replication.storage import LogDirectory, LogManager
from quorate.log import DamagedLogError, DamagedRange, Log, LogError, SegmentFindings, TopicPartition
from quorate.runtime import DescriptorsExhaustedError, Disk, DiskError, Slices, TokenBucket, get_logger
from quorate.types import Offset

log = get_logger(__name__)

_LOOK_SECONDS: Final = 60.0
"""The pause between two looks for replicas that are due."""
_BURST_SECONDS: Final = 0.25


def remedy_for(topic: str, partition_id: int, broker_id: int) -> str:
    """Return what a person can do about a damaged replica."""
    return (
        f"fetch it anew: quorate log-dirs refetch --replica {topic}:{partition_id}:{broker_id} "
        "(docs/how-to/recover-a-damaged-replica.md)"
    )


class Scrubber:
    """`run` checks what is due; `suspect` has a segment checked at once.

    `found` is called with a replica whenever a check has found damage in it that was not known.
    """

    def __init__(
        self,
        logs: LogManager,
        *,
        interval_ms: int,
        bytes_per_second: int,
        disk: Disk,
        find: Callable[[str, int], PartitionReplica | None],
        now_ms: Callable[[], int],
        stats: ReplicationStats,
        found: Callable[[PartitionReplica], None],
    ) -> None:
        """`interval_ms`: 0 for no scrub; suspects are checked all the same."""
        self._logs = logs
        self._interval_ms = interval_ms
        self._rate = bytes_per_second
        self._disk = disk
        self._find = find
        self._now_ms = now_ms
        self._stats = stats
        self._found = found
        self._suspects: dict[TopicPartition, set[Offset]] = {}
        self._wake = trio.Event()

    async def run(self) -> None:
        """Scrub until cancelled, each directory in a task of its own."""
        self._stats.scrubbed_since_ms.update({each.path: 0 for each in self._logs.directories})
        async with trio.open_nursery() as nursery:
            for where in self._logs.directories:
                nursery.start_soon(self._run, where)

    def suspect(self, partition: PartitionReplica, error: DamagedLogError) -> None:
        """A read met damage: have the segment checked now, with which the rest is known."""
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
        partition = self._find(*key)
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
        partition = self._find(*key)
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
            self._found(partition)


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
