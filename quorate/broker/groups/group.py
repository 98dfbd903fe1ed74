"""One classic consumer group: who its members are and what each of them reads.

States and rules are those of Kafka's GroupCoordinator (KIP-62, KIP-345, KIP-394). Every method is
synchronous; answers go to callbacks, at once or when the group gets there.
"""

from collections.abc import Mapping
from typing import Final, assert_never

from kio.schema.errors import ErrorCode

from quorate.broker.groups.group_messages import (
    JoinReply,
    JoinRequest,
    JoinResult,
    MemberRef,
    SyncReply,
    SyncRequest,
    SyncResult,
)
from quorate.broker.groups.group_state import GroupLimits as GroupLimits
from quorate.broker.groups.group_state import GroupState as GroupState
from quorate.broker.groups.group_state import GroupTimer as GroupTimer
from quorate.broker.groups.group_state import GroupTimerKind
from quorate.broker.groups.member import Member
from quorate.broker.groups.rebalance import RebalancingGroup, shared_protocols
from quorate.present import present
from quorate.runtime import get_logger

log = get_logger(__name__)

NEW_MEMBER_SECONDS: Final = 300.0
"""How long a new member may wait for its first generation without a word (as in Kafka)."""


class Group(RebalancingGroup):
    """The requests of members to one group."""

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
        self._arm(GroupTimerKind.PENDING, request.session_timeout_ms / 1000, member_id)
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
        self._arm(GroupTimerKind.HEARTBEAT, NEW_MEMBER_SECONDS, member.member_id)
        self._rebalance(f"member {member.member_id} joined")

    def _replace_static(self, old: Member, member_id: str, request: JoinRequest, reply: JoinReply) -> None:
        """A static member came back without its id, after a restart: the old one is fenced (KIP-345)."""
        old_leader = self.leader
        unchanged = old.metadata(self.protocol) == next(
            (each.metadata for each in request.protocols if each.name == self.protocol), None
        )
        old.answer_join(JoinResult(error=ErrorCode.fenced_instance_id, member_id=old.member_id))
        old.answer_sync(SyncResult(error=ErrorCode.fenced_instance_id))
        self._cancel(GroupTimerKind.HEARTBEAT, old.member_id)
        member = Member.joining(member_id, request)
        member.assignment = old.assignment
        # In the old one's place, so that the order of members stays.
        self.members = {
            member_id if each is old else key: member if each is old else each
            for key, each in self.members.items()
        }
        self._static[present(request.instance_id, "the instance id of a static member")] = member_id
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
        others = [
            each
            for each in self.members.values()
            if each.member_id != request.member_id
            and (request.instance_id is None or each.instance_id != request.instance_id)
        ]
        if request.protocol_type != self.protocol_type:
            return False
        return not others or not shared_protocols(others).isdisjoint(each.name for each in request.protocols)

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

    def _synced(self, member: Member) -> None:
        self._pending_sync.pop(member.member_id, None)
        if not self._pending_sync:
            self._cancel(GroupTimerKind.SYNC)

    # Heartbeat, leave

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
