"""Rebalances: the members of a group agree on members, leader and protocol, once per generation.

Empty ──join──▶ PreparingRebalance ──all joined──▶ CompletingRebalance ──leader synced──▶ Stable
  ▲                   │    ▲                              │                                 │
  └──nobody joined────┘    └──────── join, leave, silence ┴─────────────────────────────────┘
"""

from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from quorate.broker.groups.group_messages import JoinResult, SyncResult
from quorate.broker.groups.group_records import GroupValue
from quorate.broker.groups.group_state import GroupHost, GroupState, GroupTimerKind, GroupTimers
from quorate.broker.groups.group_store import GroupStore
from quorate.broker.groups.members import Member, MemberList
from quorate.broker.settings.group_config import GroupLimits
from quorate.runtime import get_logger

log = get_logger(__name__)


class Rebalance:
    """A group's state and generation, and its way to the next one. Owns the timers of joins and syncs."""

    def __init__(
        self,
        group_id: str,
        members: MemberList,
        timers: GroupTimers,
        *,
        host: GroupHost,
        limits: GroupLimits,
    ) -> None:
        self._group_id = group_id
        self._members = members
        self._timers = timers
        self._host = host
        self._limits = limits
        self.store = GroupStore(group_id, members, timers, host)
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.empty_since_ms: int | None = None
        """The time by the wall clock; None while it has members, and if it is unknown."""
        self._pending_sync: dict[str, None] = {}
        self._delay_left_ms = 0
        """The time that an empty group may still wait for more members; counts while `_initial`."""
        self._initial = False
        self._joined_meanwhile = False

    def load(self, value: GroupValue) -> None:
        """Replace the generation that was loaded before. The members are loaded already."""
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol = value.protocol
        self.state = GroupState.STABLE if self._members else GroupState.EMPTY
        known = self.state is GroupState.EMPTY and value.state_timestamp_ms >= 0
        self.empty_since_ms = value.state_timestamp_ms if known else None

    def unload(self) -> None:
        self.state = GroupState.DEAD
        self._timers.cancel(GroupTimerKind.JOIN)
        self._timers.cancel(GroupTimerKind.SYNC)
        self.store.close()

    def value(self, assignments: Mapping[str, bytes]) -> GroupValue:
        """Return the group's stored value."""
        return GroupValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self._members.leader,
            state_timestamp_ms=self._host.now_ms() if self.empty_since_ms is None else self.empty_since_ms,
            members=tuple(
                member.as_value(self.protocol, assignments.get(member.member_id, b""))
                for member in self._members
            ),
        )

    # Members come and go

    def add(self, member: Member, protocol_type: str, because: str) -> None:
        """Rebalance with a new member. The first one decides the type of protocol. `because`: the end of the
        log line, with the member's reason."""
        if not self._members:
            self.protocol_type = protocol_type
        self._members.add(member)
        self._joined_meanwhile = True
        self.begin(f"member {member.member_id} joined{because}")

    def replace(self, old: Member, member: Member) -> None:
        """Expect the sync of a static member under its new id."""
        self._members.replace(old, member)
        if old.member_id in self._pending_sync:
            del self._pending_sync[old.member_id]
            self._pending_sync[member.member_id] = None

    def remove(self, member: Member, reason: str) -> None:
        log.info("member is removed", group=self._group_id, member=member.member_id, reason=reason)
        self._drop(member)
        if self.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self._prepare(f"member {member.member_id} {reason}")
        self.try_complete_join()

    def _drop(self, member: Member) -> None:
        self._members.drop(member)
        self._pending_sync.pop(member.member_id, None)

    # Joins

    def begin(self, reason: str) -> None:
        """Begin a rebalance, or go on with the one under way."""
        if self.state is not GroupState.PREPARING_REBALANCE:
            self._prepare(reason)
        self.try_complete_join()

    def _prepare(self, reason: str, *, again: bool = False) -> None:
        """`again`: the log has a line with this reason already."""
        if self.state is GroupState.COMPLETING_REBALANCE:
            self._forget_assignments(ErrorCode.rebalance_in_progress)
        self._pending_sync.clear()
        self._timers.cancel(GroupTimerKind.SYNC)
        self._initial = self.state is GroupState.EMPTY
        self.empty_since_ms = None
        self.state = GroupState.PREPARING_REBALANCE
        timeout_ms = self._members.rebalance_timeout_ms
        if self._initial:
            delay_ms = min(self._limits.initial_rebalance_delay_ms, timeout_ms)
            self._delay_left_ms = timeout_ms - delay_ms
            self._joined_meanwhile = False
            self._timers.arm(GroupTimerKind.JOIN, delay_ms / 1000)
        else:
            self._timers.arm(GroupTimerKind.JOIN, timeout_ms / 1000)
        report = log.debug if again else log.info
        report("group rebalances", group=self._group_id, generation=self.generation, reason=reason)

    def try_complete_join(self) -> None:
        """Begin the next generation if all members have joined."""
        preparing = self.state is GroupState.PREPARING_REBALANCE
        if preparing and not self._initial and self._members.all_joined:
            self._complete_join()

    def end_join_wait(self) -> None:
        """End the members' time to join."""
        if self.state is not GroupState.PREPARING_REBALANCE:
            return
        if self._initial and self._joined_meanwhile and self._delay_left_ms > 0:
            self._joined_meanwhile = False
            delay_ms = min(self._limits.initial_rebalance_delay_ms, self._delay_left_ms)
            self._delay_left_ms -= delay_ms
            self._timers.arm(GroupTimerKind.JOIN, delay_ms / 1000)
        else:
            self._complete_join()

    def _complete_join(self) -> None:
        self._initial = False
        self._timers.cancel(GroupTimerKind.JOIN)
        for member in [each for each in self._members if each.on_join is None]:
            # Static members are given their session's time to come back.
            if member.instance_id is None:
                log.info("member did not join again in time", group=self._group_id, member=member.member_id)
                self._drop(member)
        if self._members and not self._members.elect_leader():
            self._timers.arm(GroupTimerKind.JOIN, self._members.rebalance_timeout_ms / 1000)
            return
        self.generation = (self.generation + 1) & 0x7FFFFFFF
        self._pending_sync.clear()
        if not self._members:
            self._end_empty()
            return
        self.protocol = self._members.select_protocol()
        self.state = GroupState.COMPLETING_REBALANCE
        report = log.debug if self.store.failures else log.info
        report(
            "group has a new generation",
            group=self._group_id,
            generation=self.generation,
            members=len(self._members),
            protocol=self.protocol,
        )
        self._timers.arm(GroupTimerKind.SYNC, self._members.rebalance_timeout_ms / 1000)
        for member in list(self._members):
            self._pending_sync[member.member_id] = None
            member.is_new = False
            self._members.expect_heartbeat(member)
            member.answer_join(self.joined(member))

    def _end_empty(self) -> None:
        self.state = GroupState.EMPTY
        self.empty_since_ms = self._host.now_ms()
        self.protocol = None
        self._members.leader = None
        log.info("group is empty", group=self._group_id, generation=self.generation)
        self.store.write(self.value({}), lambda error: None)

    def joined(self, member: Member) -> JoinResult:
        leader = self._members.leader
        leads = member.member_id == leader
        return JoinResult(
            member_id=member.member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=leader or "",
            members=tuple(each.as_joined(self.protocol) for each in self._members) if leads else (),
        )

    # Syncs

    def take_sync(self, member: Member) -> None:
        """Record that this member has synced."""
        self._pending_sync.pop(member.member_id, None)
        if not self._pending_sync:
            self._timers.cancel(GroupTimerKind.SYNC)

    def end_sync_wait(self) -> None:
        """End the members' time to sync."""
        late = [each for name in self._pending_sync if (each := self._members.get(name)) is not None]
        if self.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not late:
            return
        for member in late:
            self._drop(member)
        self.begin("members did not sync in time")

    def store_assignment(self, assignments: Mapping[str, bytes]) -> None:
        """The generation is stable once the leader's assignment is stored."""
        generation = self.generation

        def stored(error: ErrorCode) -> None:
            if self.state is not GroupState.COMPLETING_REBALANCE or self.generation != generation:
                return  # another rebalance began, and whoever waited was told
            if error is not ErrorCode.none:
                self._forget_assignments(error)
                reason = f"the assignment could not be stored: {error.name}"
                self._prepare(reason, again=self.store.failures > 1)
                self.try_complete_join()
                return
            for member in self._members:
                member.assignment = assignments.get(member.member_id, b"")
            self.state = GroupState.STABLE
            log.info("group is stable", group=self._group_id, generation=generation)
            self._answer_syncs(ErrorCode.none)

        self.store.write(self.value(assignments), stored)

    def synced(self, member: Member) -> SyncResult:
        return SyncResult(
            protocol_type=self.protocol_type, protocol=self.protocol, assignment=member.assignment
        )

    def _forget_assignments(self, error: ErrorCode) -> None:
        for member in self._members:
            member.assignment = b""
        self._answer_syncs(error)

    def _answer_syncs(self, error: ErrorCode) -> None:
        for member in list(self._members):
            if member.on_sync is not None:
                self._members.expect_heartbeat(member)
                member.answer_sync(
                    self.synced(member) if error is ErrorCode.none else SyncResult(error=error)
                )
