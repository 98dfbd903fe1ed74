"""The groups that this broker coordinates: those whose partition of `__consumer_offsets` it leads."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.groups.group import Group
from quorate.broker.groups.group_administration import GroupAdministration
from quorate.broker.groups.group_messages import (
    CommittedOffset,
    GroupMovedError,
    JoinReply,
    JoinRequest,
    JoinResult,
    MemberRef,
    OffsetToCommit,
    SyncReply,
    SyncRequest,
    SyncResult,
)
from quorate.broker.groups.group_records import (
    GroupKey,
    GroupValue,
    OffsetKey,
    OffsetValue,
    group_record,
    offset_record,
)
from quorate.broker.groups.group_state import GroupState, GroupTimer
from quorate.broker.groups.offset_expiry import OffsetExpiry
from quorate.broker.groups.offsets_topic import GroupLog
from quorate.broker.groups.shard import Shard
from quorate.broker.groups.shards import Shards
from quorate.broker.settings.group_config import GroupConfig
from quorate.runtime import Entropy, Timers, WallClock
from quorate.types import UNKNOWN_OFFSET, Epoch, Offset

MOST_NAME_CHARACTERS: Final = 1000
"""The characters of a client's or a static member's name in the id that the member gets: a string of Kafka's
protocol has 32,767 bytes at most, and a uuid follows."""


class GroupCoordinator:
    """The coordinator of a broker. All methods belong to the trio run that `run` runs in."""

    def __init__(
        self,
        config: GroupConfig,
        group_log: GroupLog,
        *,
        partition_count: Callable[[], int],
        partition_exists: Callable[[str, int], bool] = lambda topic, partition: True,
        entropy: Entropy,
        wall_clock: WallClock,
    ) -> None:
        """`partition_count`: of `__consumer_offsets`; 0 while it does not exist. `partition_exists`: for any
        topic, in the metadata that made this broker the leader of its partitions."""
        self._config = config
        self._entropy = entropy
        self._wall_clock = wall_clock
        self._shards = Shards(
            group_log,
            partition_count=partition_count,
            new_group=lambda group_id: Group(group_id, self, config.limits),
            loaded=lambda shard: self.expiry.loaded(shard),
        )
        self.administration = GroupAdministration(self._shards)
        self.expiry = OffsetExpiry(
            self._shards,
            self.administration,
            retention=config.retention,
            now_ms=wall_clock.now_ms,
            exists=partition_exists,
        )
        self._timers: Timers[GroupTimer] = Timers(self._timed_out)

    async def run(self) -> None:
        """Run the timers and loads until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._timers.run)
            nursery.start_soon(self.expiry.run)
            await self._shards.run()

    # Leadership of partitions

    def elect(self, partition: int, leader_epoch: Epoch) -> None:
        """Load the groups of a partition that this broker leads now."""
        self._shards.elect(partition, leader_epoch)

    def resign(self, partition: int) -> None:
        """Unload the groups of a partition that this broker leads no more."""
        self._shards.resign(partition)

    # Requests of members

    def join(self, request: JoinRequest, reply: JoinReply) -> None:
        """Answer a JoinGroup request, or let its group answer later."""
        shard = self._shard(request.group_id)
        if isinstance(shard, ErrorCode):
            reply(JoinResult(error=shard, member_id=request.member_id))
            return
        config = self._config
        if not config.min_session_timeout_ms <= request.session_timeout_ms <= config.max_session_timeout_ms:
            reply(JoinResult(error=ErrorCode.invalid_session_timeout, member_id=request.member_id))
            return
        group = shard.groups.get(request.group_id)
        if group is None:
            if request.member_id:
                reply(JoinResult(error=ErrorCode.unknown_member_id, member_id=request.member_id))
                return
            group = shard.group(request.group_id)
        group.join(request, reply)

    def sync(self, request: SyncRequest, reply: SyncReply) -> None:
        """Answer a SyncGroup request, or let its group answer later."""
        shard = self._shard(request.member.group_id)
        if shard is ErrorCode.coordinator_load_in_progress:
            # As Kafka: clients of old versions know no other answer to this one that makes them join again.
            reply(SyncResult(error=ErrorCode.rebalance_in_progress))
        elif isinstance(shard, ErrorCode):
            reply(SyncResult(error=shard))
        elif (group := shard.groups.get(request.member.group_id)) is None:
            reply(SyncResult(error=ErrorCode.unknown_member_id))
        else:
            group.sync(request, reply)

    def heartbeat(self, ref: MemberRef) -> ErrorCode:
        """Return the answer to a heartbeat."""
        shard = self._shard(ref.group_id)
        if shard is ErrorCode.coordinator_load_in_progress:
            return ErrorCode.none  # it will be heard of again when the group is there (as Kafka)
        if isinstance(shard, ErrorCode):
            return shard
        group = shard.groups.get(ref.group_id)
        return ErrorCode.unknown_member_id if group is None else group.heartbeat(ref)

    def leave(self, group_id: str, member_id: str, instance_id: str | None, reason: str = "") -> ErrorCode:
        """Remove a member; `reason` is its own (KIP-800)."""
        shard = self._shard(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        group = shard.groups.get(group_id)
        return ErrorCode.unknown_member_id if group is None else group.leave(member_id, instance_id, reason)

    def commit(
        self,
        ref: MemberRef,
        offsets: Sequence[OffsetToCommit],
        reply: Callable[[Sequence[ErrorCode]], None],
        *,
        unknown_group: ErrorCode = ErrorCode.illegal_generation,
    ) -> None:
        """Commit the offsets. `reply` gets an error for each, in order, when every replica in sync has
        them. `unknown_group`: the error of a member of a group that is not there."""

        def refuse(error: ErrorCode) -> None:
            reply([error] * len(offsets))

        shard = self._shard(ref.group_id)
        if isinstance(shard, ErrorCode):
            refuse(shard)
            return
        group = shard.groups.get(ref.group_id)
        if group is None and ref.generation >= 0:
            refuse(unknown_group)
            return
        error = (group or shard.group(ref.group_id)).check_commit(ref)
        if error is not ErrorCode.none:
            refuse(error)
            return
        most = self._config.offset_metadata_max_bytes
        fits = [len(each.metadata.encode()) <= most for each in offsets]
        self._commit(shard, ref.group_id, offsets, fits, reply)

    def _commit(
        self,
        shard: Shard,
        group_id: str,
        offsets: Sequence[OffsetToCommit],
        fits: Sequence[bool],
        reply: Callable[[Sequence[ErrorCode]], None],
    ) -> None:
        now_ms = self._wall_clock.now_ms()
        values = [
            (
                OffsetKey(group_id, each.topic, each.partition),
                OffsetValue(
                    offset=each.offset,
                    leader_epoch=each.leader_epoch,
                    metadata=each.metadata,
                    commit_timestamp_ms=now_ms,
                ),
            )
            for each, fit in zip(offsets, fits, strict=True)
            if fit
        ]

        held = shard.offsets_of(group_id)  # not the group's next ones, should it be deleted meanwhile
        ticket = held.begin([key for key, _ in values])

        def stored(error: ErrorCode, base_offset: Offset) -> None:
            if error is ErrorCode.none:
                for place, (key, value) in enumerate(values, base_offset):
                    held.put(key.topic, key.partition, value, record_offset=place)
            held.end(ticket)
            reply([error if fit else ErrorCode.offset_metadata_too_large for fit in fits])

        if not values:
            stored(ErrorCode.none, UNKNOWN_OFFSET)
            return
        self._shards.append(shard, [offset_record(key, value) for key, value in values], stored)

    def fetch_offset(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        """Return the committed offset, or None. Ask `check` first."""
        shard = self._shard(group_id)
        if isinstance(shard, ErrorCode) or group_id not in shard.offsets:
            return None
        value = shard.offsets[group_id].get(topic, partition)
        return None if value is None else _committed(value)

    def committed(self, group_id: str) -> Iterator[tuple[str, list[tuple[int, CommittedOffset]]]]:
        """Yield each topic with committed offsets of the group, and its partitions as they are at the topic's
        turn. Ask `check` first. Raises `GroupMovedError` if the group has moved away meanwhile, even if it is
        back."""
        shard = self._shard(group_id)
        if not isinstance(shard, ErrorCode) and group_id in shard.offsets:
            offsets = shard.offsets[group_id]
            for topic in offsets.topics():
                if shard.is_closed:
                    raise GroupMovedError(f"group '{group_id}' moved meanwhile")
                yield topic, [(index, _committed(value)) for index, value in offsets.of_topic(topic)]

    def check(self, group_id: str) -> ErrorCode:
        """Return NONE if this broker coordinates the group now, else the reason."""
        shard = self._shard(group_id)
        return shard if isinstance(shard, ErrorCode) else ErrorCode.none

    @property
    def failed_writes(self) -> int:
        """Return how many writes to `__consumer_offsets` have failed: of groups, commits and deletions."""
        return self._shards.failed_appends

    def group(self, group_id: str) -> Group | None:
        """Return the group for inspection."""
        shard = self._shard(group_id)
        return None if isinstance(shard, ErrorCode) else shard.groups.get(group_id)

    # `GroupHost`

    def arm(self, timer: GroupTimer, seconds: float) -> None:
        self._timers.arm(timer, seconds)

    def cancel(self, timer: GroupTimer) -> None:
        self._timers.cancel(timer)

    def store(self, group_id: str, value: GroupValue, done: Callable[[ErrorCode], None]) -> None:
        shard = self._shard(group_id)
        if isinstance(shard, ErrorCode):
            done(shard)
            return
        record = group_record(GroupKey(group_id), value)

        def stored(error: ErrorCode, base_offset: Offset) -> None:
            # INVALID_COMMIT_OFFSET_SIZE is the error of commits alone (as in Kafka).
            too_large = error is ErrorCode.invalid_commit_offset_size
            done(ErrorCode.unknown_server_error if too_large else error)

        self._shards.append(shard, [record], stored)

    def draw_member_id(self, prefix: str) -> str:
        return f"{prefix[:MOST_NAME_CHARACTERS]}-{self._entropy.uuid()}"

    def now_ms(self) -> int:
        return self._wall_clock.now_ms()

    # Inside

    def _shard(self, group_id: str) -> Shard | ErrorCode:
        return self._shards.of(group_id) if group_id else ErrorCode.invalid_group_id

    def _timed_out(self, timer: GroupTimer) -> None:
        group = self.group(timer.group_id)
        if group is not None and group.state is not GroupState.DEAD:
            group.timed_out(timer)


def _committed(value: OffsetValue) -> CommittedOffset:
    return CommittedOffset(offset=value.offset, leader_epoch=value.leader_epoch, metadata=value.metadata)
