"""A member of a group."""

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
from quorate.broker.groups.group_records import MemberValue


class Member:
    """Changed by its group alone. `on_join` and `on_sync`: the answer that the member waits for, if any."""

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
