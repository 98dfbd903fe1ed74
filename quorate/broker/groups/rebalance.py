"""Rebalances: the members of a group agree on members, leader and protocol, once per generation.

Empty ──join──▶ PreparingRebalance ──all joined──▶ CompletingRebalance ──leader synced──▶ Stable
  ▲                   │    ▲                              │                                 │
  └──nobody joined────┘    └──────── join, leave, silence ┴─────────────────────────────────┘
"""

from collections.abc import Iterable, Mapping
from typing import assert_never

from kio.schema.errors import ErrorCode

from quorate.broker.groups.group_messages import JoinResult, SyncResult
from quorate.broker.groups.group_records import GroupValue
from quorate.broker.groups.group_state import GroupHost, GroupLimits, GroupState, GroupTimer, GroupTimerKind
from quorate.broker.groups.member import Member
from quorate.runtime import get_logger

log = get_logger(__name__)


def shared_protocols(members: Iterable[Member]) -> set[str]:
    """The protocols that all of one or more members offer."""
    offered = ([each.name for each in member.protocols] for member in members)
    shared = set(next(offered))
    for names in offered:
        shared.intersection_update(names)
    return shared


class RebalancingGroup:
    """A group from one generation to the next; `Group` adds what members ask."""

    def __init__(self, group_id: str, host: GroupHost, limits: GroupLimits) -> None:
        self.group_id = group_id
        self._host = host
        self._limits = limits
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self._static: dict[str, str] = {}
        """Member id by instance id (KIP-345)."""
        self._pending: dict[str, None] = {}
        self._pending_sync: dict[str, None] = {}
        self._delay_left_ms = 0
        """How much longer an empty group may wait for more members; counts while `_initial`."""
        self._initial = False
        self._joined_meanwhile = False

    # Loading and unloading

    def load(self, value: GroupValue) -> None:
        """Take the place of whatever was loaded before."""
        self.members = {each.member_id: Member.loaded(each, value.protocol) for each in value.members}
        self._static = {
            each.instance_id: each.member_id for each in value.members if each.instance_id is not None
        }
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol = value.protocol
        self.leader = value.leader
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY

    def started(self) -> None:
        """Loading is over: the members have a session's time to be heard of."""
        for member in self.members.values():
            self._expect_heartbeat(member)

    def unload(self) -> None:
        """The coordinator moves away: whoever waits is sent to the next one."""
        self.state = GroupState.DEAD
        for member in self.members.values():
            member.answer_join(JoinResult(error=ErrorCode.not_coordinator, member_id=member.member_id))
            member.answer_sync(SyncResult(error=ErrorCode.not_coordinator))
            self._cancel(GroupTimerKind.HEARTBEAT, member.member_id)
        for member_id in self._pending:
            self._cancel(GroupTimerKind.PENDING, member_id)
        self._cancel(GroupTimerKind.JOIN)
        self._cancel(GroupTimerKind.SYNC)

    def value(self, assignments: Mapping[str, bytes]) -> GroupValue:
        """What is stored of the group."""
        return GroupValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            state_timestamp_ms=self._host.now_ms(),
            members=tuple(
                member.as_value(self.protocol, assignments.get(member.member_id, b""))
                for member in self.members.values()
            ),
        )

    # The rebalance

    def _rebalance(self, reason: str) -> None:
        """Begin one, or go on with the one under way."""
        if self.state is not GroupState.PREPARING_REBALANCE:
            self._prepare(reason)
        self._try_complete_join()

    def _prepare(self, reason: str) -> None:
        if self.state is GroupState.COMPLETING_REBALANCE:
            self._forget_assignments(ErrorCode.rebalance_in_progress)
        self._pending_sync.clear()
        self._cancel(GroupTimerKind.SYNC)
        self._initial = self.state is GroupState.EMPTY
        self.state = GroupState.PREPARING_REBALANCE
        timeout_ms = self._rebalance_timeout_ms()
        if self._initial:
            delay_ms = min(self._limits.initial_rebalance_delay_ms, timeout_ms)
            self._delay_left_ms = timeout_ms - delay_ms
            self._joined_meanwhile = False
            self._arm(GroupTimerKind.JOIN, delay_ms / 1000)
        else:
            self._arm(GroupTimerKind.JOIN, timeout_ms / 1000)
        log.info("group rebalances", group=self.group_id, generation=self.generation, reason=reason)

    def _rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def _try_complete_join(self) -> None:
        if (
            self.state is GroupState.PREPARING_REBALANCE
            and not self._initial
            and not self._pending
            and all(member.on_join is not None for member in self.members.values())
        ):
            self._complete_join()

    def _join_timed_out(self) -> None:
        if self.state is not GroupState.PREPARING_REBALANCE:
            return
        if self._initial and self._joined_meanwhile and self._delay_left_ms > 0:
            self._joined_meanwhile = False
            delay_ms = min(self._limits.initial_rebalance_delay_ms, self._delay_left_ms)
            self._delay_left_ms -= delay_ms
            self._arm(GroupTimerKind.JOIN, delay_ms / 1000)
        else:
            self._complete_join()

    def _complete_join(self) -> None:
        self._initial = False
        self._cancel(GroupTimerKind.JOIN)
        for member in [each for each in self.members.values() if each.on_join is None]:
            # Static members are given their session's time to come back.
            if member.instance_id is None:
                log.info("member did not join again in time", group=self.group_id, member=member.member_id)
                self._drop(member)
        if self.members and not self._elect_leader():
            self._arm(GroupTimerKind.JOIN, self._rebalance_timeout_ms() / 1000)
            return
        self.generation = (self.generation + 1) & 0x7FFFFFFF
        self._pending_sync.clear()
        if not self.members:
            self._became_empty()
            return
        self.protocol = self._select_protocol()
        self.state = GroupState.COMPLETING_REBALANCE
        log.info(
            "group has a new generation",
            group=self.group_id,
            generation=self.generation,
            members=len(self.members),
            protocol=self.protocol,
        )
        self._arm(GroupTimerKind.SYNC, self._rebalance_timeout_ms() / 1000)
        for member in list(self.members.values()):
            self._pending_sync[member.member_id] = None
            member.is_new = False
            self._expect_heartbeat(member)
            member.answer_join(self._joined(member))

    def _became_empty(self) -> None:
        self.state = GroupState.EMPTY
        self.protocol = None
        self.leader = None
        log.info("group is empty", group=self.group_id, generation=self.generation)
        self._host.store(self.group_id, self.value({}), lambda error: None)

    def _elect_leader(self) -> bool:
        """Whether there is a leader that has joined."""
        held = None if self.leader is None else self.members.get(self.leader)
        if held is None or held.on_join is None:
            self.leader = next(
                (each.member_id for each in self.members.values() if each.on_join is not None), None
            )
        return self.leader is not None

    def _select_protocol(self) -> str:
        """Each member votes for the first of its protocols that all have; most votes win, and of equals the
        one that was voted for first."""
        shared = shared_protocols(self.members.values())
        votes: dict[str, int] = {}
        for member in self.members.values():
            for offered in member.protocols:
                if offered.name in shared:
                    votes[offered.name] = votes.get(offered.name, 0) + 1
                    break
        return max(votes, key=votes.__getitem__)

    def _joined(self, member: Member) -> JoinResult:
        leads = member.member_id == self.leader
        return JoinResult(
            member_id=member.member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader or "",
            members=tuple(each.as_joined(self.protocol) for each in self.members.values()) if leads else (),
        )

    def _synced_result(self, member: Member) -> SyncResult:
        return SyncResult(
            protocol_type=self.protocol_type, protocol=self.protocol, assignment=member.assignment
        )

    def _forget_assignments(self, error: ErrorCode) -> None:
        for member in list(self.members.values()):
            member.assignment = b""
            if member.on_sync is not None:
                self._expect_heartbeat(member)
                member.answer_sync(SyncResult(error=error))

    # Silence and departure

    def timed_out(self, timer: GroupTimer) -> None:
        """A timer that this group armed has fired."""
        match timer.kind:
            case GroupTimerKind.JOIN:
                self._join_timed_out()
            case GroupTimerKind.SYNC:
                self._sync_timed_out()
            case GroupTimerKind.PENDING:
                self._pending.pop(timer.member_id, None)
                self._try_complete_join()
            case GroupTimerKind.HEARTBEAT:
                member = self.members.get(timer.member_id)
                if member is None:
                    return
                if member.waits and not member.is_new:
                    self._expect_heartbeat(member)
                else:
                    self._remove(member, f"was silent for {member.session_timeout_ms} ms")
            case _:
                assert_never(timer.kind)

    def _sync_timed_out(self) -> None:
        late = [self.members[each] for each in self._pending_sync if each in self.members]
        if self.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not late:
            return
        for member in late:
            self._drop(member)
        self._rebalance("members did not sync in time")

    def _remove(self, member: Member, what: str) -> None:
        log.info("member is removed", group=self.group_id, member=member.member_id, reason=what)
        self._drop(member)
        if self.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self._prepare(f"member {member.member_id} {what}")
        self._try_complete_join()

    def _drop(self, member: Member) -> None:
        gone = ErrorCode.unknown_member_id
        member.answer_join(JoinResult(error=gone, member_id=member.member_id))
        member.answer_sync(SyncResult(error=gone))
        self._cancel(GroupTimerKind.HEARTBEAT, member.member_id)
        del self.members[member.member_id]
        self._pending_sync.pop(member.member_id, None)
        if member.instance_id is not None:
            self._static.pop(member.instance_id, None)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def _forget_pending(self, member_id: str) -> None:
        del self._pending[member_id]
        self._cancel(GroupTimerKind.PENDING, member_id)

    # Timers

    def _expect_heartbeat(self, member: Member) -> None:
        self._arm(GroupTimerKind.HEARTBEAT, member.session_timeout_ms / 1000, member.member_id)

    def _arm(self, kind: GroupTimerKind, seconds: float, member_id: str = "") -> None:
        self._host.arm(GroupTimer(self.group_id, kind, member_id), seconds)

    def _cancel(self, kind: GroupTimerKind, member_id: str = "") -> None:
        self._host.cancel(GroupTimer(self.group_id, kind, member_id))
