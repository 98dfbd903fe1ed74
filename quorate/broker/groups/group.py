"""A classic consumer group, by the requests of its members.

States and rules are those of Kafka's GroupCoordinator (KIP-62, KIP-345, KIP-394). Every method is
synchronous; answers go to callbacks, at once or when the group gets there.
"""

from typing import Final, assert_never

from kio.schema.errors import ErrorCode

from quorate.broker.groups.group_messages import (
    GroupDescription,
    JoinReply,
    JoinRequest,
    JoinResult,
    MemberRef,
    SyncReply,
    SyncRequest,
    SyncResult,
)
from quorate.broker.groups.group_records import GroupValue
from quorate.broker.groups.group_state import (
    GroupHost,
    GroupState,
    GroupTimer,
    GroupTimerKind,
    GroupTimers,
)
from quorate.broker.groups.members import Member, MemberList, shared_protocols
from quorate.broker.groups.rebalance import Rebalance
from quorate.broker.settings.group_config import GroupLimits

_REASON_MAX: Final = 255


class Group:
    """A classic group, which checks and answers the requests of its members. `MemberList` owns the members,
    `Rebalance` the state and the generation."""

    def __init__(self, group_id: str, host: GroupHost, limits: GroupLimits) -> None:
        timers = GroupTimers(group_id, host)
        self.group_id = group_id
        self._host = host
        self._limits = limits
        self._members = MemberList(timers)
        self._rebalance = Rebalance(group_id, self._members, timers, host=host, limits=limits)

    @property
    def state(self) -> GroupState:
        return self._rebalance.state

    @property
    def generation(self) -> int:
        return self._rebalance.generation

    # Description

    @property
    def protocol_type(self) -> str:
        """The type that the first member joined with, such as "consumer". Empty before that."""
        return self._rebalance.protocol_type or ""

    @property
    def empty_since_ms(self) -> int | None:
        """The time at which the last member left, in ms since the Unix epoch; None if there are members, or
        never were."""
        return self._rebalance.empty_since_ms

    @property
    def has_members(self) -> bool:
        return bool(self._members)

    @property
    def member_count(self) -> int:
        return len(self._members)

    @property
    def is_vacant(self) -> bool:
        """Return whether no member has ever joined, or is about to."""
        return not self._members and not self._members.any_pending and not self.generation

    def describe(self) -> GroupDescription:
        """Describe the group as DescribeGroups does: protocol and subscriptions of a stable one only."""
        protocol = self._rebalance.protocol if self.state is GroupState.STABLE else None
        return GroupDescription(
            state=self.state.value,
            protocol_type=self.protocol_type,
            protocol=protocol or "",
            members=tuple(member.describe(protocol) for member in self._members),
        )

    def subscriptions(self) -> list[bytes]:
        """Return each member's metadata for the group's protocol; b"" before the first generation."""
        return [member.metadata(self._rebalance.protocol) for member in self._members]

    def stored(self) -> GroupValue:
        """Return the group's value as an empty group."""
        return self._rebalance.value({})

    # Loading and unloading

    def load(self, value: GroupValue) -> None:
        """Replace the state that was loaded before."""
        self._members.load(value)
        self._rebalance.load(value)

    def begin_sessions(self) -> None:
        """Give each member a session's time for its first request after loading."""
        for member in self._members:
            self._members.expect_heartbeat(member)

    def unload(self) -> None:
        """Move the waiting members to the next coordinator."""
        self._rebalance.unload()
        self._members.unload()

    # Join

    def join(self, request: JoinRequest, reply: JoinReply) -> None:
        """Answer a JoinGroup request now, or when the next generation begins."""

        def refuse(error: ErrorCode, member_id: str = request.member_id) -> None:
            reply(JoinResult(error=error, member_id=member_id))

        if self.state is GroupState.DEAD:
            refuse(ErrorCode.coordinator_not_available)
        elif not self._members.admits(request.member_id, self._limits.max_size):
            refuse(ErrorCode.group_max_size_reached)
        elif not self._supports(request):
            refuse(ErrorCode.inconsistent_group_protocol)
        elif not request.member_id:
            self._join_new(request, reply)
        elif self._members.is_pending(request.member_id) and request.instance_id is None:
            self._members.forget_pending(request.member_id)
            self._add(Member.joining(request.member_id, request), request, reply)
        else:
            error = self._members.check(request.member_id, request.instance_id)
            if error is not ErrorCode.none:
                refuse(error)
            else:
                self._rejoin(self._members[request.member_id], request, reply)

    def _join_new(self, request: JoinRequest, reply: JoinReply) -> None:
        if request.instance_id is not None:
            member_id = self._host.draw_member_id(request.instance_id)
            held = self._members.id_of(request.instance_id)
            if held is None:
                self._add(Member.joining(member_id, request), request, reply)
            else:
                self._replace_static(self._members[held], member_id, request, reply)
            return
        member_id = self._host.draw_member_id(request.client_id)
        if not request.needs_member_id:
            self._add(Member.joining(member_id, request), request, reply)
            return
        self._members.give_out(member_id, request.session_timeout_ms / 1000)
        reply(JoinResult(error=ErrorCode.member_id_required, member_id=member_id))

    def _add(self, member: Member, request: JoinRequest, reply: JoinReply) -> None:
        member.on_join = reply
        member.is_new = True
        self._rebalance.add(member, request.protocol_type, _because(request.reason))

    def _replace_static(self, old: Member, member_id: str, request: JoinRequest, reply: JoinReply) -> None:
        """Replace a static member that came back without its id, after a restart: the old one is fenced
        (KIP-345)."""
        old_leader, rebalance = self._members.leader, self._rebalance
        unchanged = old.metadata(rebalance.protocol) == next(
            (each.metadata for each in request.protocols if each.name == rebalance.protocol), None
        )
        member = Member.joining(member_id, request)
        member.assignment = old.assignment
        rebalance.replace(old, member)
        if self.state is not GroupState.STABLE or not unchanged:
            member.on_join = reply
            rebalance.begin(f"static member {request.instance_id} came back{_because(request.reason)}")
            return
        generation = self.generation
        skips = request.skips_assignment and member_id == self._members.leader
        joined = rebalance.joined(member).members if skips else ()

        def stored(error: ErrorCode) -> None:
            reply(
                JoinResult(
                    error=error,
                    member_id=member_id,
                    generation=generation,
                    protocol_type=rebalance.protocol_type,
                    protocol=rebalance.protocol,
                    # Not the new id before version 9: a member that takes itself for the leader would assign
                    # anew.
                    leader=(self._members.leader if request.skips_assignment else old_leader) or "",
                    skip_assignment=skips,
                    members=joined,
                )
            )

        assignments = {each.member_id: each.assignment for each in self._members}
        rebalance.store.write(rebalance.value(assignments), stored)

    def _rejoin(self, member: Member, request: JoinRequest, reply: JoinReply) -> None:
        unchanged = member.protocols == request.protocols
        match self.state:
            case GroupState.PREPARING_REBALANCE:
                self._update(member, request, reply)
            case GroupState.COMPLETING_REBALANCE:
                # Most likely the answer of its join got lost.
                if unchanged:
                    reply(self._rebalance.joined(member))
                else:
                    self._update(member, request, reply)
            case GroupState.STABLE:
                if member.member_id == self._members.leader or not unchanged:
                    self._update(member, request, reply)
                else:
                    reply(self._rebalance.joined(member))
            case GroupState.EMPTY | GroupState.DEAD:
                reply(JoinResult(error=ErrorCode.unknown_member_id, member_id=member.member_id))
            case _:
                assert_never(self.state)

    def _update(self, member: Member, request: JoinRequest, reply: JoinReply) -> None:
        member.protocols = request.protocols
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.on_join = reply
        self._members.expect_heartbeat(member)
        self._rebalance.begin(f"member {member.member_id} joined again{_because(request.reason)}")

    def _supports(self, request: JoinRequest) -> bool:
        if not request.protocol_type or not request.protocols:
            return False
        if not self._members:
            return True
        others = [
            each
            for each in self._members
            if each.member_id != request.member_id
            and (request.instance_id is None or each.instance_id != request.instance_id)
        ]
        if request.protocol_type != self._rebalance.protocol_type:
            return False
        return not others or not shared_protocols(others).isdisjoint(each.name for each in request.protocols)

    # Sync

    def sync(self, request: SyncRequest, reply: SyncReply) -> None:
        """Answer a SyncGroup request now, or when the leader's assignment is stored."""

        def refuse(error: ErrorCode) -> None:
            reply(SyncResult(error=error))

        ref = request.member
        error = self._check_generation(ref)
        if error is not ErrorCode.none:
            refuse(error)
        elif request.protocol_type not in (
            None,
            self._rebalance.protocol_type,
        ) or request.protocol not in (None, self._rebalance.protocol):
            refuse(ErrorCode.inconsistent_group_protocol)
        else:
            self._sync(self._members[ref.member_id], request, reply)

    def _sync(self, member: Member, request: SyncRequest, reply: SyncReply) -> None:
        match self.state:
            case GroupState.PREPARING_REBALANCE:
                reply(SyncResult(error=ErrorCode.rebalance_in_progress))
            case GroupState.COMPLETING_REBALANCE:
                member.on_sync = reply
                self._rebalance.take_sync(member)
                if member.member_id == self._members.leader:
                    self._rebalance.store_assignment(dict(request.assignments))
            case GroupState.STABLE:
                self._rebalance.take_sync(member)
                self._members.expect_heartbeat(member)
                reply(self._rebalance.synced(member))
            case GroupState.EMPTY:
                reply(SyncResult(error=ErrorCode.unknown_member_id))
            case GroupState.DEAD:
                reply(SyncResult(error=ErrorCode.coordinator_not_available))
            case _:
                assert_never(self.state)

    # Heartbeat, leave

    def heartbeat(self, ref: MemberRef) -> ErrorCode:
        """Return NONE, or the reason to join again."""
        error = self._check_generation(ref)
        if error is not ErrorCode.none:
            return error
        match self.state:
            case GroupState.PREPARING_REBALANCE:
                self._members.expect_heartbeat(self._members[ref.member_id])
                return ErrorCode.rebalance_in_progress
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                self._members.expect_heartbeat(self._members[ref.member_id])
                return ErrorCode.none
            case GroupState.EMPTY:
                return ErrorCode.unknown_member_id
            case GroupState.DEAD:
                return ErrorCode.coordinator_not_available
            case _:
                assert_never(self.state)

    def leave(self, member_id: str, instance_id: str | None, reason: str = "") -> ErrorCode:
        """Remove a member, or the id that it was given. `reason`: the member's own."""
        if self.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        if instance_id is not None and not member_id:
            member_id = self._members.id_of(instance_id) or ""
        if self._members.is_pending(member_id):
            self._members.forget_pending(member_id)
            self._rebalance.try_complete_join()
            return ErrorCode.none
        error = self._members.check(member_id, instance_id)
        if error is ErrorCode.none:
            self._rebalance.remove(self._members[member_id], f"left{_because(reason)}")
        return error

    def timed_out(self, timer: GroupTimer) -> None:
        """Handle a timer of this group that has fired."""
        match timer.kind:
            case GroupTimerKind.JOIN:
                self._rebalance.end_join_wait()
            case GroupTimerKind.SYNC:
                self._rebalance.end_sync_wait()
            case GroupTimerKind.STORE:
                self._rebalance.store.end_pause()
            case GroupTimerKind.PENDING:
                self._members.forget_pending(timer.member_id)
                self._rebalance.try_complete_join()
            case GroupTimerKind.HEARTBEAT:
                member = self._members.get(timer.member_id)
                if member is None:
                    return
                if member.waits and not member.is_new:
                    self._members.expect_heartbeat(member)
                else:
                    self._rebalance.remove(member, f"was silent for {member.session_timeout_ms} ms")
            case _:
                assert_never(timer.kind)

    # Checks

    def check_commit(self, ref: MemberRef) -> ErrorCode:
        """Return NONE if this member may commit. The request counts as a sign of life."""
        if ref.generation < 0 and self.state is GroupState.EMPTY and ref.instance_id is None:
            return ErrorCode.none  # a consumer that assigns its partitions itself
        error = self._check_generation(ref)
        if error is not ErrorCode.none:
            return error
        match self.state:
            case GroupState.STABLE | GroupState.PREPARING_REBALANCE:
                self._members.expect_heartbeat(self._members[ref.member_id])
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

    def _check_generation(self, ref: MemberRef) -> ErrorCode:
        """Return NONE for a member of the present generation, else the error."""
        if self.state is GroupState.DEAD:
            return ErrorCode.coordinator_not_available
        error = self._members.check(ref.member_id, ref.instance_id)
        if error is ErrorCode.none and ref.generation != self.generation:
            return ErrorCode.illegal_generation
        return error


def _because(reason: str) -> str:
    """Return a member's own reason for a log line. Kafka's clients cut theirs at 255 characters."""
    return f" ({reason[:_REASON_MAX]})" if reason else ""
