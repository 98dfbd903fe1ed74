"""One classic consumer group: who its members are and what each of them reads.

States and rules are those of Kafka's GroupCoordinator (KIP-62, KIP-345, KIP-394). Every method is
synchronous; answers go to callbacks, at once or when the group gets there.

    Empty ──join──▶ PreparingRebalance ──all joined──▶ CompletingRebalance ──leader synced──▶ Stable
      ▲                   │    ▲                              │                                 │
      └──nobody joined────┘    └──────── join, leave, silence ┴─────────────────────────────────┘
"""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, assert_never

import structlog
from kio.schema.errors import ErrorCode

from quorate.broker.groups.member import Member
from quorate.broker.groups.messages import (
    JoinReply,
    JoinRequest,
    JoinResult,
    MemberRef,
    SyncReply,
    SyncRequest,
    SyncResult,
)
from quorate.broker.groups.records import GroupValue

log = structlog.get_logger(__name__)

NEW_MEMBER_SECONDS: Final = 300.0
"""How long a new member may wait for its first generation without a word (as in Kafka)."""


class GroupState(enum.Enum):
    """Kafka's names, as ListGroups shows them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class TimerKind(enum.Enum):
    HEARTBEAT = "heartbeat"
    """Of a member."""
    PENDING = "pending"
    """Of a member id that was handed out and that nobody has come back with."""
    JOIN = "join"
    SYNC = "sync"


class GroupTimer(NamedTuple):
    group_id: str
    kind: TimerKind
    member_id: str = ""


class GroupHost(Protocol):
    """What a group needs of its coordinator."""

    def arm(self, timer: GroupTimer, seconds: float) -> None: ...

    def cancel(self, timer: GroupTimer) -> None: ...

    def store(self, group_id: str, value: GroupValue, done: Callable[[ErrorCode], None]) -> None:
        """Write the group's record; `done` hears of it, unless the coordinator moves away before."""
        ...

    def draw_member_id(self, prefix: str) -> str: ...

    def now_ms(self) -> int:
        """Wall clock, for the stored timestamp only."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    initial_rebalance_delay_ms: int = 3000
    max_size: int = (1 << 31) - 1


class Group:
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
            self._cancel(TimerKind.HEARTBEAT, member.member_id)
        for member_id in self._pending:
            self._cancel(TimerKind.PENDING, member_id)
        self._cancel(TimerKind.JOIN)
        self._cancel(TimerKind.SYNC)

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

    # Join

    def join(self, request: JoinRequest, reply: JoinReply) -> None:
        def refuse(error: ErrorCode, member_id: str = request.member_id) -> None:
            reply(JoinResult(error=error, member_id=member_id))

        known = request.member_id in self.members or request.member_id in self._pending
        if self.state is GroupState.DEAD:
            refuse(ErrorCode.coordinator_not_available)
        elif not known and len(self.members) + len(self._pending) >= self._limits.max_size:
            refuse(ErrorCode.group_max_size_reached)
        elif not self._supports(request):
            refuse(ErrorCode.inconsistent_group_protocol)
        elif not request.member_id:
            self._join_new(request, reply)
        elif request.member_id in self._pending and request.instance_id is None:
            self._forget_pending(request.member_id)
            self._add(Member.joining(request.member_id, request), request, reply)
        else:
            error = self._check_identity(request.member_id, request.instance_id)
            if error is not ErrorCode.none:
                refuse(error)
            else:
                self._rejoin(self.members[request.member_id], request, reply)

    def _join_new(self, request: JoinRequest, reply: JoinReply) -> None:
        if request.instance_id is not None:
            member_id = self._host.draw_member_id(request.instance_id)
            held = self._static.get(request.instance_id)
            if held is None:
                self._add(Member.joining(member_id, request), request, reply)
            else:
                self._replace_static(self.members[held], member_id, request, reply)
            return
        member_id = self._host.draw_member_id(request.client_id)
        if not request.needs_member_id:
            self._add(Member.joining(member_id, request), request, reply)
            return
        self._pending[member_id] = None
        self._arm(TimerKind.PENDING, request.session_timeout_ms / 1000, member_id)
        reply(JoinResult(error=ErrorCode.member_id_required, member_id=member_id))

    def _add(self, member: Member, request: JoinRequest, reply: JoinReply) -> None:
        member.on_join = reply
        member.is_new = True
        if not self.members:
            self.protocol_type = request.protocol_type
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self._joined_meanwhile = True
        self._arm(TimerKind.HEARTBEAT, NEW_MEMBER_SECONDS, member.member_id)
        self._rebalance(f"member {member.member_id} joined")

    def _replace_static(self, old: Member, member_id: str, request: JoinRequest, reply: JoinReply) -> None:
        """A static member came back without its id, after a restart: the old one is fenced (KIP-345)."""
        old_leader = self.leader
        unchanged = old.metadata(self.protocol) == next(
            (each.metadata for each in request.protocols if each.name == self.protocol), None
        )
        old.answer_join(JoinResult(error=ErrorCode.fenced_instance_id, member_id=old.member_id))
        old.answer_sync(SyncResult(error=ErrorCode.fenced_instance_id))
        self._cancel(TimerKind.HEARTBEAT, old.member_id)
        member = Member.joining(member_id, request)
        member.assignment = old.assignment
        # In the old one's place, so that the order of members stays.
        self.members = {
            member_id if each is old else key: member if each is old else each
            for key, each in self.members.items()
        }
        assert request.instance_id is not None
        self._static[request.instance_id] = member_id
        if self.leader == old.member_id:
            self.leader = member_id
        if old.member_id in self._pending_sync:
            del self._pending_sync[old.member_id]
            self._pending_sync[member_id] = None
        self._expect_heartbeat(member)
        if self.state is not GroupState.STABLE or not unchanged:
            member.on_join = reply
            self._rebalance(f"static member {request.instance_id} came back")
            return
        generation = self.generation

        def stored(error: ErrorCode) -> None:
            reply(
                JoinResult(
                    error=error,
                    member_id=member_id,
                    generation=generation,
                    protocol_type=self.protocol_type,
                    protocol=self.protocol,
                    # Not the new id: a member that takes itself for the leader would assign anew.
                    leader=old_leader or "",
                )
            )

        assignments = {each.member_id: each.assignment for each in self.members.values()}
        self._host.store(self.group_id, self.value(assignments), stored)

    def _rejoin(self, member: Member, request: JoinRequest, reply: JoinReply) -> None:
        unchanged = member.protocols == request.protocols
        match self.state:
            case GroupState.PREPARING_REBALANCE:
                self._update(member, request, reply)
            case GroupState.COMPLETING_REBALANCE:
                # Most likely the answer of its join got lost.
                if unchanged:
                    reply(self._joined(member))
                else:
                    self._update(member, request, reply)
            case GroupState.STABLE:
                if member.member_id == self.leader or not unchanged:
                    self._update(member, request, reply)
                else:
                    reply(self._joined(member))
            case GroupState.EMPTY | GroupState.DEAD:
                reply(JoinResult(error=ErrorCode.unknown_member_id, member_id=member.member_id))
            case _:
                assert_never(self.state)

    def _update(self, member: Member, request: JoinRequest, reply: JoinReply) -> None:
        member.protocols = request.protocols
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.on_join = reply
        self._expect_heartbeat(member)
        self._rebalance(f"member {member.member_id} joined again")

    def _supports(self, request: JoinRequest) -> bool:
        if not request.protocol_type or not request.protocols:
            return False
        if not self.members:
            return True
        offered = [each.name for each in request.protocols]
        others = [each for each in self.members.values() if each.member_id != request.member_id]
        if request.instance_id is not None:
            others = [each for each in others if each.instance_id != request.instance_id]
        return request.protocol_type == self.protocol_type and any(
            all(name in [each.name for each in other.protocols] for other in others) for name in offered
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
        self._cancel(TimerKind.SYNC)
        self._initial = self.state is GroupState.EMPTY
        self.state = GroupState.PREPARING_REBALANCE
        timeout_ms = self._rebalance_timeout_ms()
        if self._initial:
            delay_ms = min(self._limits.initial_rebalance_delay_ms, timeout_ms)
            self._delay_left_ms = timeout_ms - delay_ms
            self._joined_meanwhile = False
            self._arm(TimerKind.JOIN, delay_ms / 1000)
        else:
            self._arm(TimerKind.JOIN, timeout_ms / 1000)
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
            self._arm(TimerKind.JOIN, delay_ms / 1000)
        else:
            self._complete_join()

    def _complete_join(self) -> None:
        self._initial = False
        self._cancel(TimerKind.JOIN)
        for member in [each for each in self.members.values() if each.on_join is None]:
            # Static members are given their session's time to come back.
            if member.instance_id is None:
                log.info("member did not join again in time", group=self.group_id, member=member.member_id)
                self._drop(member)
        if self.members and not self._elect_leader():
            self._arm(TimerKind.JOIN, self._rebalance_timeout_ms() / 1000)
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
        self._arm(TimerKind.SYNC, self._rebalance_timeout_ms() / 1000)
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
        members = list(self.members.values())
        votes: dict[str, int] = {}
        for member in members:
            for offered in member.protocols:
                if all(offered.name in [each.name for each in other.protocols] for other in members):
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

    # Sync

    def sync(self, request: SyncRequest, reply: SyncReply) -> None:
        def refuse(error: ErrorCode) -> None:
            reply(SyncResult(error=error))

        ref = request.member
        error = self._check_member(ref)
        if error is not ErrorCode.none:
            refuse(error)
            return
        if ref.generation != self.generation:
            refuse(ErrorCode.illegal_generation)
        elif request.protocol_type not in (None, self.protocol_type) or request.protocol not in (
            None,
            self.protocol,
        ):
            refuse(ErrorCode.inconsistent_group_protocol)
        else:
            self._sync(self.members[ref.member_id], request, reply)

    def _sync(self, member: Member, request: SyncRequest, reply: SyncReply) -> None:
        match self.state:
            case GroupState.PREPARING_REBALANCE:
                reply(SyncResult(error=ErrorCode.rebalance_in_progress))
            case GroupState.COMPLETING_REBALANCE:
                member.on_sync = reply
                self._synced(member)
                if member.member_id == self.leader:
                    self._store_assignment(dict(request.assignments))
            case GroupState.STABLE:
                self._synced(member)
                self._expect_heartbeat(member)
                reply(self._synced_result(member))
            case GroupState.EMPTY:
                reply(SyncResult(error=ErrorCode.unknown_member_id))
            case GroupState.DEAD:
                reply(SyncResult(error=ErrorCode.coordinator_not_available))
            case _:
                assert_never(self.state)

    def _synced(self, member: Member) -> None:
        self._pending_sync.pop(member.member_id, None)
        if not self._pending_sync:
            self._cancel(TimerKind.SYNC)

    def _store_assignment(self, assignments: Mapping[str, bytes]) -> None:
        generation = self.generation

        def stored(error: ErrorCode) -> None:
            if self.state is not GroupState.COMPLETING_REBALANCE or self.generation != generation:
                return  # another rebalance began, and whoever waited was told
            if error is not ErrorCode.none:
                self._forget_assignments(error)
                self._prepare(f"the assignment could not be stored: {error.name}")
                self._try_complete_join()
                return
            for member in self.members.values():
                member.assignment = assignments.get(member.member_id, b"")
            self.state = GroupState.STABLE
            log.info("group is stable", group=self.group_id, generation=generation)
            for member in list(self.members.values()):
                if member.on_sync is not None:
                    self._expect_heartbeat(member)
                    member.answer_sync(self._synced_result(member))

        self._host.store(self.group_id, self.value(assignments), stored)

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

    # Heartbeat, leave, silence

    def heartbeat(self, ref: MemberRef) -> ErrorCode:
        error = self._check_member(ref)
        if error is not ErrorCode.none:
            return error
        if ref.generation != self.generation:
            return ErrorCode.illegal_generation
        match self.state:
            case GroupState.PREPARING_REBALANCE:
                self._expect_heartbeat(self.members[ref.member_id])
                return ErrorCode.rebalance_in_progress
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                self._expect_heartbeat(self.members[ref.member_id])
                return ErrorCode.none
            case GroupState.EMPTY:
                return ErrorCode.unknown_member_id
            case GroupState.DEAD:
                return ErrorCode.coordinator_not_available
            case _:
                assert_never(self.state)

    def leave(self, member_id: str, instance_id: str | None) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        if instance_id is not None and not member_id:
            member_id = self._static.get(instance_id, "")
        if member_id in self._pending:
            self._forget_pending(member_id)
            self._try_complete_join()
            return ErrorCode.none
        error = self._check_identity(member_id, instance_id)
        if error is ErrorCode.none:
            self._remove(self.members[member_id], "left")
        return error

    def timed_out(self, timer: GroupTimer) -> None:
        """A timer that this group armed has fired."""
        match timer.kind:
            case TimerKind.JOIN:
                self._join_timed_out()
            case TimerKind.SYNC:
                self._sync_timed_out()
            case TimerKind.PENDING:
                self._pending.pop(timer.member_id, None)
                self._try_complete_join()
            case TimerKind.HEARTBEAT:
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
        self._cancel(TimerKind.HEARTBEAT, member.member_id)
        del self.members[member.member_id]
        self._pending_sync.pop(member.member_id, None)
        if member.instance_id is not None:
            self._static.pop(member.instance_id, None)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def _forget_pending(self, member_id: str) -> None:
        del self._pending[member_id]
        self._cancel(TimerKind.PENDING, member_id)

    # Checks

    def check_commit(self, ref: MemberRef) -> ErrorCode:
        """Whether a commit may be taken from this member; counts as a sign of life."""
        if ref.generation < 0 and self.state is GroupState.EMPTY and ref.instance_id is None:
            return ErrorCode.none  # a consumer that assigns its partitions itself
        error = self._check_member(ref)
        if error is not ErrorCode.none:
            return error
        if ref.generation != self.generation:
            return ErrorCode.illegal_generation
        match self.state:
            case GroupState.STABLE | GroupState.PREPARING_REBALANCE:
                self._expect_heartbeat(self.members[ref.member_id])
                return ErrorCode.none
            case GroupState.COMPLETING_REBALANCE:
                # Its partitions may be another's by now.
                return ErrorCode.rebalance_in_progress
            case GroupState.EMPTY:
                return ErrorCode.unknown_member_id
            case GroupState.DEAD:
                return ErrorCode.coordinator_not_available
            case _:
                assert_never(self.state)

    def _check_member(self, ref: MemberRef) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        return self._check_identity(ref.member_id, ref.instance_id)

    def _check_identity(self, member_id: str, instance_id: str | None) -> ErrorCode:
        if instance_id is not None:
            held = self._static.get(instance_id)
            if held is None:
                return ErrorCode.unknown_member_id
            if held != member_id:
                return ErrorCode.fenced_instance_id
        return ErrorCode.none if member_id in self.members else ErrorCode.unknown_member_id

    # Timers

    def _expect_heartbeat(self, member: Member) -> None:
        self._arm(TimerKind.HEARTBEAT, member.session_timeout_ms / 1000, member.member_id)

    def _arm(self, kind: TimerKind, seconds: float, member_id: str = "") -> None:
        self._host.arm(GroupTimer(self.group_id, kind, member_id), seconds)

    def _cancel(self, kind: TimerKind, member_id: str = "") -> None:
        self._host.cancel(GroupTimer(self.group_id, kind, member_id))
