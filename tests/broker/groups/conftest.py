"""A coordinator over offsets partitions that live in memory."""

import random
from collections.abc import AsyncIterator, Callable, Sequence

import pytest
import trio
import trio.testing
from kio.schema.errors import ErrorCode

from quorate.broker.groups.coordinator import GroupCoordinator
from quorate.broker.groups.group_messages import (
    JoinRequest,
    JoinResult,
    MemberRef,
    OffsetToCommit,
    Protocol,
    SyncRequest,
    SyncResult,
)
from quorate.broker.settings.group_config import GroupConfig, GroupLimits
from quorate.log.batches.records import Record, RecordContent
from quorate.runtime.entropy import Entropy

PARTITIONS = 4


class MemoryLog:
    """`GroupLog`: appends are done at once, or when `release` is called."""

    def __init__(self) -> None:
        self.partitions: dict[int, list[RecordContent]] = {}
        self.error = ErrorCode.none
        self.errors: dict[int, ErrorCode] = {}
        """By partition, where they differ from `error`."""
        self.held: list[Callable[[], None]] | None = None

    async def records(self, partition: int) -> AsyncIterator[Sequence[Record]]:
        await trio.lowlevel.checkpoint()
        yield [
            Record(offset, 0, record.key, record.value)
            for offset, record in enumerate(self.partitions.get(partition, []))
        ]

    def append(
        self, partition: int, records: Sequence[RecordContent], done: Callable[[ErrorCode, int], None]
    ) -> None:
        error, base = self.errors.get(partition, self.error), -1
        if error is ErrorCode.none:
            held = self.partitions.setdefault(partition, [])
            base = len(held)
            held.extend(records)
        if self.held is None:
            done(error, base)
        else:
            self.held.append(lambda: done(error, base))

    def release(self) -> None:
        held, self.held = self.held or [], None
        for each in held:
            each()


class WallClock:
    def __init__(self) -> None:
        self.ms = 1000

    def now_ms(self) -> int:
        return self.ms


class Waiting:
    """An answer to come."""

    def __init__(self) -> None:
        self.answers: list[object] = []
        self._event = trio.Event()

    def __call__(self, answer: object) -> None:
        self.answers.append(answer)
        self._event.set()

    @property
    def answered(self) -> bool:
        return bool(self.answers)

    async def wait(self) -> None:
        await self._event.wait()


class Cluster:
    """A coordinator that leads every partition, and what members do with it."""

    def __init__(self, log: MemoryLog, nursery: trio.Nursery, limits: GroupLimits) -> None:
        self.log = log
        self._nursery = nursery
        self._limits = limits
        self.clock = WallClock()
        self.missing: set[tuple[str, int]] = set()
        """Partitions that do not exist."""
        self.groups = self._start()

    def _start(self) -> GroupCoordinator:
        groups = GroupCoordinator(
            GroupConfig(limits=self._limits),
            self.log,
            partition_count=lambda: PARTITIONS,
            partition_exists=lambda *key: key not in self.missing,
            entropy=Entropy(random.Random(1)),
            wall_clock=self.clock,
        )
        self._nursery.start_soon(groups.run)
        for partition in range(PARTITIONS):
            groups.elect(partition, 0)
        return groups

    async def loaded(self) -> "Cluster":
        await trio.testing.wait_all_tasks_blocked()
        assert all(self.groups.check(f"g{n}") is ErrorCode.none for n in range(20))
        return self

    async def move(self) -> None:
        """Another coordinator takes over, as after a crash of the first."""
        await self.restart()
        await self.loaded()

    async def restart(self) -> None:
        """Another coordinator takes over, and loads as far as it can."""
        for partition in range(PARTITIONS):
            self.groups.resign(partition)
        self.groups = self._start()
        await trio.testing.wait_all_tasks_blocked()

    def start_join(
        self,
        member_id: str = "",
        *,
        group: str = "g1",
        instance: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = (("range", b"sub"),),
        needs_member_id: bool = True,
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        protocol_type: str = "consumer",
        skips_assignment: bool = False,
        reason: str = "",
    ) -> Waiting:
        waiting = Waiting()
        request = JoinRequest(
            group_id=group,
            member_id=member_id,
            instance_id=instance,
            client_id="client",
            client_host="/127.0.0.1",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=tuple(Protocol(*each) for each in protocols),
            needs_member_id=needs_member_id,
            skips_assignment=skips_assignment,
            reason=reason,
        )
        self.groups.join(request, waiting)
        return waiting

    async def join(self, member_id: str = "", **values: object) -> JoinResult:
        """With the second round for a new member."""
        waiting = self.start_join(member_id, **values)  # type: ignore[arg-type]
        await waiting.wait()
        result = waiting.answers[0]
        assert isinstance(result, JoinResult)
        if result.error is ErrorCode.member_id_required:
            return await self.join(result.member_id, **values)
        return result

    def start_sync(self, joined: JoinResult, *, group: str = "g1", **assignments: bytes) -> Waiting:
        waiting = Waiting()
        given = tuple(assignments.items())
        self.groups.sync(
            SyncRequest(member=self.ref(joined, group=group), assignments=given),
            waiting,
        )
        return waiting

    async def sync(
        self, joined: JoinResult, assignments: dict[str, bytes] | None = None, *, group: str = "g1"
    ) -> SyncResult:
        waiting = Waiting()
        self.groups.sync(
            SyncRequest(member=self.ref(joined, group=group), assignments=tuple((assignments or {}).items())),
            waiting,
        )
        await waiting.wait()
        result = waiting.answers[0]
        assert isinstance(result, SyncResult)
        return result

    def ref(self, joined: JoinResult, *, group: str = "g1", generation: int | None = None) -> MemberRef:
        return MemberRef(
            group_id=group,
            member_id=joined.member_id,
            generation=joined.generation if generation is None else generation,
        )

    async def stable_pair(self) -> tuple[JoinResult, JoinResult]:
        """A leader and a follower in a stable group, with assignments `one` and `two`."""
        results: list[JoinResult] = []

        async def take_part() -> None:
            results.append(await self.join())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(take_part)
            nursery.start_soon(take_part)
        leader = next(each for each in results if each.member_id == each.leader)
        other = next(each for each in results if each is not leader)
        follower = Waiting()
        self.groups.sync(SyncRequest(member=self.ref(other)), follower)
        synced = await self.sync(leader, {leader.member_id: b"one", other.member_id: b"two"})
        assert synced.assignment == b"one"
        assert follower.answers == [SyncResult(protocol_type="consumer", protocol="range", assignment=b"two")]
        return leader, other

    def commit(
        self, ref: MemberRef, offset: int, *, topic: str = "t", partition: int = 0, metadata: str = ""
    ) -> Waiting:
        waiting = Waiting()
        self.groups.commit(
            ref, [OffsetToCommit(topic=topic, partition=partition, offset=offset, metadata=metadata)], waiting
        )
        return waiting


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """A coordinator. Tests name `autojump_clock` too: pytest-trio takes a clock from their own arguments
    only."""
    async with trio.open_nursery() as nursery:
        yield await Cluster(MemoryLog(), nursery, GroupLimits()).loaded()
        nursery.cancel_scope.cancel()
