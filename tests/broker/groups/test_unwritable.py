"""Groups in a partition of `__consumer_offsets` that can't be written: too few replicas are in sync."""

from collections.abc import Sequence

import pytest
import trio
from captured_logs import captured_logs
from kio.schema.errors import ErrorCode

from quorate.broker.groups.group_messages import JoinResult, MemberRef
from quorate.broker.groups.group_state import GroupState
from quorate.broker.groups.offsets_topic import partition_of
from quorate.simulation.world.trace import LogEntry

PARTITION = partition_of("g1", 4)
OTHER = next(f"other-{n}" for n in range(9) if partition_of(f"other-{n}", 4) != PARTITION)


class Member:
    """A consumer that joins again as soon as it hears of an error, as librdkafka does."""

    def __init__(self, cluster, *, group: str = "g1", **join: object) -> None:
        self._cluster = cluster
        self._group = group
        self._join = join
        self.joined: JoinResult | None = None
        self.generations = 0
        self.pauses: list[float] = []
        """The seconds that each SyncGroup was without its answer."""

    async def take_part(self, *, generations_max: int = 100) -> None:
        """Return when it has an assignment."""
        member_id = "" if self.joined is None else self.joined.member_id
        while True:
            joined = self.joined = await self._cluster.join(member_id, group=self._group, **self._join)
            assert joined.error is ErrorCode.none
            member_id = joined.member_id
            self.generations += 1
            assert self.generations <= generations_max, f"at {trio.current_time()} s"
            began = trio.current_time()
            synced = await self._cluster.sync(joined, {member_id: b"mine"}, group=self._group)
            self.pauses.append(trio.current_time() - began)
            if synced.error is ErrorCode.none:
                assert synced.assignment == b"mine"
                return
            assert synced.error is ErrorCode.coordinator_not_available

    async def beat(self) -> None:
        """Send heartbeats until cancelled. The member is known to all."""
        while True:
            await trio.sleep(0.7)
            if self.joined is not None:
                ref = self._cluster.ref(self.joined, group=self._group)
                error = self._cluster.groups.heartbeat(ref)
                assert error in (ErrorCode.none, ErrorCode.rebalance_in_progress), trio.current_time()


def lines(log: Sequence[LogEntry]) -> list[object]:
    """The texts of the lines that an operator sees."""
    return [entry["event"] for entry in log if entry["log_level"] != "debug"]


UNWRITABLE = (
    "groups and offsets can't be stored: assignments and commits of this partition of "
    "__consumer_offsets fail until enough replicas are in sync"
)
WRITABLE = "groups and offsets are stored again"


async def test_a_group_that_cannot_be_stored_joins_a_few_times_a_minute_and_keeps_its_member(
    cluster, autojump_clock
) -> None:
    member, other = Member(cluster), Member(cluster, group=OTHER)
    await other.take_part()
    cluster.log.errors[PARTITION] = ErrorCode.not_enough_replicas
    async with trio.open_nursery() as nursery:
        nursery.start_soon(member.beat)
        nursery.start_soon(other.beat)
        with captured_logs() as log, trio.move_on_after(60):
            await member.take_part()
        assert 10 <= member.generations <= 25
        assert cluster.groups.failed_writes == member.generations
        assert lines(log) == [
            "group rebalances",
            "group has a new generation",
            UNWRITABLE,
            "group rebalances",
        ]

        # The other group of this coordinator goes on meanwhile.
        assert other.joined is not None
        assert cluster.commit(cluster.ref(other.joined, group=OTHER), 7).answers == [[ErrorCode.none]]
        await other.take_part()
        assert other.pauses == [0, 0]
        nursery.cancel_scope.cancel()


async def test_the_group_is_stable_soon_after_it_can_be_stored_again(cluster, autojump_clock) -> None:
    member = Member(cluster)
    cluster.log.errors[PARTITION] = ErrorCode.not_enough_replicas_after_append
    with captured_logs() as log:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(member.take_part)
            await trio.sleep(30)
            cluster.log.errors.clear()
            began = trio.current_time()
        assert trio.current_time() - began < 5
    group = cluster.groups.group("g1")
    assert group is not None
    assert group.state is GroupState.STABLE
    assert lines(log)[-2:] == [WRITABLE, "group is stable"]
    assert lines(log).count(UNWRITABLE) == lines(log).count(WRITABLE) == 1


async def test_the_pause_doubles_up_to_a_third_of_the_session_and_begins_anew_after_a_success(
    cluster, autojump_clock
) -> None:
    member = Member(cluster, session_ms=6000)
    cluster.log.errors[PARTITION] = ErrorCode.not_enough_replicas
    with trio.move_on_after(12):
        await member.take_part()
    assert member.pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 2, 2])
    cluster.log.errors.clear()
    await member.take_part()
    member.pauses.clear()
    cluster.log.errors[PARTITION] = ErrorCode.not_enough_replicas
    with trio.move_on_after(1):
        await member.take_part()
    assert member.pauses == pytest.approx([0.1, 0.2, 0.4])


async def test_the_pause_stays_below_the_rebalance_timeout(cluster, autojump_clock) -> None:
    member = Member(cluster, session_ms=30_000, rebalance_ms=1500)
    cluster.log.errors[PARTITION] = ErrorCode.not_enough_replicas
    with trio.move_on_after(60):
        await member.take_part(generations_max=1000)
    assert max(member.pauses) == pytest.approx(0.5)
    assert member.joined is not None
    assert cluster.groups.heartbeat(cluster.ref(member.joined)) is ErrorCode.none


async def test_a_write_that_took_as_long_to_fail_is_answered_without_another_pause(
    cluster, autojump_clock
) -> None:
    joined = await cluster.join()
    cluster.log.error = ErrorCode.request_timed_out
    cluster.log.held = []
    waiting = cluster.start_sync(joined)
    await trio.sleep(5)
    cluster.log.release()
    began = trio.current_time()
    await waiting.wait()
    assert trio.current_time() == began


async def test_members_that_wait_for_the_pause_are_sent_to_the_next_coordinator(
    cluster, autojump_clock
) -> None:
    joined = await cluster.join()
    cluster.log.error = ErrorCode.not_enough_replicas
    waiting = cluster.start_sync(joined)
    assert not waiting.answered
    cluster.groups.resign(PARTITION)
    assert waiting.answers[0].error is ErrorCode.not_coordinator
    await trio.sleep(10)
    assert len(waiting.answers) == 1


async def test_a_static_member_that_comes_back_waits_for_the_pause_too(cluster, autojump_clock) -> None:
    joined = await cluster.join(instance="i")
    await cluster.sync(joined)
    cluster.log.error = ErrorCode.not_enough_replicas
    began = trio.current_time()
    for _ in range(4):
        back = await cluster.join(instance="i")
        assert back.error is ErrorCode.coordinator_not_available
    assert trio.current_time() - began == pytest.approx(0.1 + 0.2 + 0.4 + 0.8)
    waiting = cluster.start_join(instance="i")
    cluster.groups.resign(PARTITION)
    assert [each.error for each in waiting.answers] == [ErrorCode.not_coordinator]


async def test_a_commit_that_cannot_be_stored_is_answered_at_once(cluster, autojump_clock) -> None:
    """Stock clients pace their commits. An answer that is held would hold those to heartbeats behind it."""
    joined = await cluster.join()
    await cluster.sync(joined)
    cluster.log.error = ErrorCode.not_enough_replicas
    with captured_logs() as log:
        for offset in range(10):
            refused = cluster.commit(cluster.ref(joined), offset)
            assert refused.answers == [[ErrorCode.coordinator_not_available]]
        cluster.log.error = ErrorCode.none
        for offset in range(10):
            assert cluster.commit(cluster.ref(joined), offset).answers == [[ErrorCode.none]]
    assert lines(log) == [UNWRITABLE, WRITABLE]
    assert cluster.groups.failed_writes == 10


async def test_offsets_of_deleted_partitions_that_cannot_be_removed_make_one_line(
    cluster, autojump_clock
) -> None:
    joined = await cluster.join()
    await cluster.sync(joined)
    cluster.commit(cluster.ref(joined), 1)
    cluster.log.error = ErrorCode.not_enough_replicas
    with captured_logs() as log:
        cluster.groups.expiry.partition_deleted("t", 0)
        await trio.sleep(9)
    assert cluster.groups.failed_writes > 5
    assert lines(log) == [UNWRITABLE]


async def test_an_assignment_that_is_too_large_is_an_error_of_the_server_as_in_kafka(
    cluster, autojump_clock
) -> None:
    joined = await cluster.join()
    cluster.log.error = ErrorCode.message_too_large
    result = await cluster.sync(joined)
    assert result.error is ErrorCode.unknown_server_error
    refused = cluster.commit(MemberRef(group_id="g2", member_id=""), 1)
    assert refused.answers == [[ErrorCode.invalid_commit_offset_size]]
