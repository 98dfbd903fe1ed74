"""The members of a group, its leader, and the member ids that are given out and not yet used."""

from collections.abc import Iterable, Iterator
from typing import Final

from kio.schema.errors import ErrorCode

from quorate.broker.groups.group_messages import (
    JoinedMember,
    JoinReply,
    JoinRequest,
    JoinResult,
    MemberDescription,
    Protocol,
    SyncReply,
    SyncResult,
)
from quorate.broker.groups.group_records import GroupValue, MemberValue
from quorate.broker.groups.group_state import GroupTimerKind, GroupTimers
from quorate.present import present

NEW_MEMBER_SECONDS: Final = 300.0
"""The time that a silent new member may wait for its first generation (as in Kafka)."""


class Member:
    """A member of a group, changed by its group alone. `on_join`, `on_sync`: the answer that it waits for."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "member_id",
        "on_join",
        "on_sync",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: tuple[Protocol, ...],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        self.on_join: JoinReply | None = None
        self.on_sync: SyncReply | None = None

    @classmethod
    def joining(cls, member_id: str, request: JoinRequest) -> "Member":
        return cls(
            member_id=member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            protocols=request.protocols,
        )

    @classmethod
    def loaded(cls, value: MemberValue, protocol: str | None) -> "Member":
        return cls(
            member_id=value.member_id,
            instance_id=value.instance_id,
            client_id=value.client_id,
            client_host=value.client_host,
            session_timeout_ms=value.session_timeout_ms,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            # Only what the chosen protocol was given is stored.
            protocols=() if protocol is None else (Protocol(protocol, value.subscription),),
            assignment=value.assignment,
        )

    @property
    def waits(self) -> bool:
        """Return whether the member waits for our next step, so that it needn't heartbeat."""
        return self.on_join is not None or self.on_sync is not None

    def metadata(self, protocol: str | None) -> bytes:
        return next((each.metadata for each in self.protocols if each.name == protocol), b"")

    def as_joined(self, protocol: str | None) -> JoinedMember:
        return JoinedMember(
            member_id=self.member_id, instance_id=self.instance_id, metadata=self.metadata(protocol)
        )

    def describe(self, protocol: str | None) -> MemberDescription:
        """`protocol`: the group's, or None where the metadata is not shown."""
        return MemberDescription(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.metadata(protocol),
            self.assignment,
        )

    def as_value(self, protocol: str | None, assignment: bytes) -> MemberValue:
        return MemberValue(
            member_id=self.member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=assignment,
        )

    def answer_join(self, result: JoinResult) -> None:
        """Answer the join that the member waits for, if any. A repeated request has replaced the first."""
        reply, self.on_join = self.on_join, None
        if reply is not None:
            reply(result)

    def answer_sync(self, result: SyncResult) -> None:
        reply, self.on_sync = self.on_sync, None
        if reply is not None:
            reply(result)


def shared_protocols(members: Iterable[Member]) -> set[str]:
    """Return the protocols that all of one or more members offer."""
    offered = ([each.name for each in member.protocols] for member in members)
    shared = set(next(offered))
    for names in offered:
        shared.intersection_update(names)
    return shared


class MemberList:
    """The members in the order in which they joined. Owns the timers of each member and of each id given
    out."""

    def __init__(self, timers: GroupTimers) -> None:
        self.leader: str | None = None
        self._timers = timers
        self._members: dict[str, Member] = {}
        self._static: dict[str, str] = {}
        """Member id by instance id (KIP-345)."""
        self._pending: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def __getitem__(self, member_id: str) -> Member:
        return self._members[member_id]

    def get(self, member_id: str) -> Member | None:
        return self._members.get(member_id)

    def load(self, value: GroupValue) -> None:
        """Replace the members that were loaded before."""
        self._members = {each.member_id: Member.loaded(each, value.protocol) for each in value.members}
        self._static = {
            each.instance_id: each.member_id for each in value.members if each.instance_id is not None
        }
        self.leader = value.leader

    def unload(self) -> None:
        """Send each waiting member to the next coordinator."""
        for member in self:
            member.answer_join(JoinResult(error=ErrorCode.not_coordinator, member_id=member.member_id))
            member.answer_sync(SyncResult(error=ErrorCode.not_coordinator))
            self._timers.cancel(GroupTimerKind.HEARTBEAT, member.member_id)
        for member_id in self._pending:
            self._timers.cancel(GroupTimerKind.PENDING, member_id)

    # Member ids

    def id_of(self, instance_id: str) -> str | None:
        """Return the id of a static member."""
        return self._static.get(instance_id)

    def admits(self, member_id: str, max_size: int) -> bool:
        """Return whether the group has room for the member, or knows it already."""
        known = member_id in self._members or member_id in self._pending
        return known or len(self._members) + len(self._pending) < max_size

    def check(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return NONE for a member that holds its instance id, if it has one, else the error."""
        if instance_id is not None:
            held = self._static.get(instance_id)
            if held is None:
                return ErrorCode.unknown_member_id
            if held != member_id:
                return ErrorCode.fenced_instance_id
        return ErrorCode.none if member_id in self._members else ErrorCode.unknown_member_id

    def give_out(self, member_id: str, seconds: float) -> None:
        """Expect a member to join with this id within `seconds` (KIP-394)."""
        self._pending[member_id] = None
        self._timers.arm(GroupTimerKind.PENDING, seconds, member_id)

    def is_pending(self, member_id: str) -> bool:
        """Return whether the id is given out and not yet used."""
        return member_id in self._pending

    @property
    def any_pending(self) -> bool:
        """Return whether an id is given out and not yet used."""
        return bool(self._pending)

    def forget_pending(self, member_id: str) -> None:
        self._pending.pop(member_id, None)
        self._timers.cancel(GroupTimerKind.PENDING, member_id)

    # Coming and going

    def add(self, member: Member) -> None:
        self._members[member.member_id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self._timers.arm(GroupTimerKind.HEARTBEAT, NEW_MEMBER_SECONDS, member.member_id)

    def replace(self, old: Member, member: Member) -> None:
        """Give a static member's place to the same instance under its new id; fence the old id (KIP-345)."""
        old.answer_join(JoinResult(error=ErrorCode.fenced_instance_id, member_id=old.member_id))
        old.answer_sync(SyncResult(error=ErrorCode.fenced_instance_id))
        self._timers.cancel(GroupTimerKind.HEARTBEAT, old.member_id)
        # The order of members stays.
        members = (member if each is old else each for each in self)
        self._members = {each.member_id: each for each in members}
        self._static[present(member.instance_id, "the instance id of a static member")] = member.member_id
        if self.leader == old.member_id:
            self.leader = member.member_id
        self.expect_heartbeat(member)

    def drop(self, member: Member) -> None:
        unknown_member = ErrorCode.unknown_member_id
        member.answer_join(JoinResult(error=unknown_member, member_id=member.member_id))
        member.answer_sync(SyncResult(error=unknown_member))
        self._timers.cancel(GroupTimerKind.HEARTBEAT, member.member_id)
        del self._members[member.member_id]
        if member.instance_id is not None:
            self._static.pop(member.instance_id, None)
        if self.leader == member.member_id:
            self.leader = next(iter(self._members), None)

    def expect_heartbeat(self, member: Member) -> None:
        """Start the member's session anew."""
        self._timers.arm(GroupTimerKind.HEARTBEAT, member.session_timeout_ms / 1000, member.member_id)

    # Agreement

    @property
    def all_joined(self) -> bool:
        """Return whether each member waits for the next generation, and no id that is given out is unused."""
        return not self._pending and all(member.on_join is not None for member in self)

    @property
    def shortest_timeout_ms(self) -> int:
        """Return the shortest session or rebalance timeout; 0 if there are no members."""
        return min((min(each.session_timeout_ms, each.rebalance_timeout_ms) for each in self), default=0)

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self), default=0)

    def elect_leader(self) -> bool:
        """Elect a leader that has joined. Return whether there is one."""
        held = None if self.leader is None else self.get(self.leader)
        if held is None or held.on_join is None:
            self.leader = next((each.member_id for each in self if each.on_join is not None), None)
        return self.leader is not None

    def select_protocol(self) -> str:
        """Return the protocol with the most votes. Each member votes for the first of its protocols that all
        have; of equals, the one that was voted for first wins."""
        shared = shared_protocols(self)
        votes: dict[str, int] = {}
        for member in self:
            for offered in member.protocols:
                if offered.name in shared:
                    votes[offered.name] = votes.get(offered.name, 0) + 1
                    break
        return max(votes, key=votes.__getitem__)
