"""The decision by the ACLs in the metadata, as Kafka's StandardAuthorizer makes it (KIP-11, KIP-801)."""

import enum
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

import trio

from quorate.broker.access.acl_use import AclUse
from quorate.broker.access.audit import AuditLog, log
from quorate.broker.access.authorizer import OPEN, Authorizer, Sender
from quorate.broker.metadata.acl_index import AclIndex
from quorate.broker.metadata.acls import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
    canonical_host,
)
from quorate.broker.settings.authorizer_settings import AuthorizerSettings
from quorate.broker.wire.principals import NODE, Principal

_MOST_REMEMBERED: Final = 10_000
"""Decisions that are kept until the ACLs change."""
_MOST_OF_SENDER: Final = 1_000
"""Permissions that a connection keeps."""
_NO_RESOURCE: Final = "\0"
"""A name that no resource has, and no ACL that was checked when it was created."""


class Rule(enum.Enum):
    """The reason of a decision, by Kafka's names."""

    SUPER_USER = "SuperUser"
    NODE = "Node"
    """Ours: a node of the cluster, by its certificate."""
    MATCHING_ACL = "MatchingAcl"
    DEFAULT_ALLOW = "DefaultAllow"
    """No ACL's pattern means the resource, and `allow.everyone.if.no.acl.found` is set."""
    DEFAULT_DENY = "DefaultDeny"
    NOT_LOADED = "NotLoaded"
    """Ours: this node has not caught up with the metadata since its start, and may lack an ACL."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a request is allowed, and why."""

    allowed: bool
    rule: Rule
    acl: Acl | None = None
    """The ACL that decided, if one did."""

    def __str__(self) -> str:
        return self.rule.value if self.acl is None else f"{self.rule.value}(acl={self.acl})"


def configured_authorizer(
    settings: AuthorizerSettings,
    acls: Callable[[], AclIndex],
    *,
    loaded: Callable[[], bool] | None = None,
) -> Authorizer:
    """Return the authorizer that the settings of a node name. `loaded`: see `StandardAuthorizer`."""
    if not settings.class_name:
        return OPEN
    return StandardAuthorizer(
        acls,
        super_users=tuple(map(Principal.parse, settings.super_users)),
        allow_everyone_if_no_acl=settings.allow_everyone,
        loaded=loaded,
    )


class StandardAuthorizer:
    """`Authorizer` by ACLs. A denial wins over any number of permissions, in any order.

    A node of the cluster may do ClusterAction on the cluster, which no ACL can take from it: a cluster whose
    brokers are denied that stands still. Otherwise it is a principal as any other. It is no super user, even
    if `super_users` names it.
    """

    def __init__(
        self,
        acls: Callable[[], AclIndex],
        *,
        super_users: Collection[Principal] = (),
        allow_everyone_if_no_acl: bool = False,
        now: Callable[[], float] = trio.current_time,
        loaded: Callable[[], bool] | None = None,
    ) -> None:
        """`acls`: those of the present metadata image. `now`: a time in s that never goes back. `loaded`:
        whether the image has caught up since this node's start. Until it first says so, only super users and
        nodes are allowed anything (etcd issue 14355). None: the image has."""
        self._acls = acls
        self._super_users = frozenset(super_users)
        self._allow_everyone_if_no_acl = allow_everyone_if_no_acl
        self._now = now
        self._loaded = loaded
        """None once the image has caught up."""
        self._audit = AuditLog(now)
        self.use = AclUse()
        """Which ACLs decisions have needed."""
        self._version: object = None
        self._decisions: dict[tuple[Principal, str, AclOperation, ResourceType, str], Decision] = {}
        self._some: dict[tuple[Principal, str, AclOperation, ResourceType], bool] = {}

    def is_super_user(self, who: Principal) -> bool:
        """Return whether `who` may do everything."""
        return who in self._super_users

    @property
    def version(self) -> object:
        """A value that differs whenever the ACLs have changed."""
        return self._acls().version

    def allows(
        self,
        who: Principal,
        host: str,
        operation: AclOperation,
        resource: ResourceType,
        name: str,
        *,
        audited: bool = True,
        request: str = "",
    ) -> bool:
        """Return whether `who`, from the address `host`, may do `operation`."""
        decision = self.decide(who, host, operation, resource, name)
        if decision.allowed:
            self._audit.allowed(who, host, operation, resource, name, rule=decision, request=request)
        elif audited:
            self._audit.denied(who, host, operation, resource, name, rule=decision, request=request)
        return decision.allowed

    def allows_some(self, who: Principal, host: str, operation: AclOperation, resource: ResourceType) -> bool:
        """Return whether `who` may do `operation` with at least one resource of the type (KIP-679)."""
        acls = self._current()
        key = (who, host, operation, resource)
        held = self._some.get(key)
        if held is None:
            decision = self.decide(who, host, operation, resource, _NO_RESOURCE)
            held = decision.allowed or (
                decision.rule is not Rule.NOT_LOADED
                and _allows_some(
                    acls, str(who), canonical_host(host), operation, resource, needs=self.use.note
                )
            )
            if len(self._some) >= _MOST_REMEMBERED:
                self._some.clear()
            self._some[key] = held
        return held

    def decide(
        self, who: Principal, host: str, operation: AclOperation, resource: ResourceType, name: str
    ) -> Decision:
        """Return the decision and its reason, without an audit line."""
        acls = self._current()
        key = (who, host, operation, resource, name)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._decide(acls, who, canonical_host(host), operation, resource, name)
            self._note(decision, acls, resource, name)
            if len(self._decisions) >= _MOST_REMEMBERED:
                self._decisions.clear()
            self._decisions[key] = decision
        return decision

    def sender(self, who: Principal, host: str) -> Sender:
        """Return a sender that remembers its permissions until the ACLs change."""
        return _RememberingSender(self, who, host, acls=self._acls, audit=self._audit)

    def counted_s(self) -> float:
        """Return the time in s since the first decision."""
        return 0.0 if self.use.began_at is None else self._now() - self.use.began_at

    def _note(self, decision: Decision, acls: AclIndex, resource: ResourceType, name: str) -> None:
        if self.use.began_at is None:
            self.use.began_at = self._now()
        if decision.acl is not None:
            self.use.note(decision.acl)
        elif decision.rule is Rule.DEFAULT_DENY and self._allow_everyone_if_no_acl:
            # Without any of them everybody might.
            self.use.note_patterns(acls.patterns(resource, name))

    def _current(self) -> AclIndex:
        """Return the ACLs. What was decided by others is forgotten."""
        acls = self._acls()
        if self._loaded is not None:
            self._version = None
            if self._loaded():
                self._loaded = None
        if acls.version is not self._version:
            self._version = acls.version
            self._decisions.clear()
            self._some.clear()
            self.use.forget_removed(acls)
        return acls

    def _decide(
        self,
        acls: AclIndex,
        who: Principal,
        host: str,
        operation: AclOperation,
        resource: ResourceType,
        name: str,
    ) -> Decision:
        if who.kind == NODE:
            if (operation, resource, name) == (
                AclOperation.CLUSTER_ACTION,
                ResourceType.CLUSTER,
                CLUSTER_NAME,
            ):
                return Decision(True, Rule.NODE)
        elif who in self._super_users:
            return Decision(True, Rule.SUPER_USER)
        if self._loaded is not None:
            return Decision(False, Rule.NOT_LOADED)
        principal, permission = str(who), None
        for acl in acls.for_resource(resource, name, principal):
            if acl.is_for(principal, host) and acl.covers(operation):
                if acl.permission is AclPermission.DENY:
                    return Decision(False, Rule.MATCHING_ACL, acl)
                permission = permission or acl
        if permission is not None:
            return Decision(True, Rule.MATCHING_ACL, permission)
        if self._allow_everyone_if_no_acl and not acls.has_any(resource, name):
            return Decision(True, Rule.DEFAULT_ALLOW)
        return Decision(False, Rule.DEFAULT_DENY)


class _RememberingSender(Sender):
    """`Sender` that looks up what it has seen allowed. A look-up takes as long for any number of ACLs."""

    __slots__ = ("_acls", "_allowed", "_audit", "_version")

    def __init__(
        self,
        authorizer: StandardAuthorizer,
        who: Principal,
        host: str,
        *,
        acls: Callable[[], AclIndex],
        audit: AuditLog,
    ) -> None:
        super().__init__(authorizer, who, host)
        self._acls = acls
        self._audit = audit
        self._allowed: set[tuple[AclOperation, ResourceType, str]] = set()
        self._version: object = None

    def allows(
        self,
        operation: AclOperation,
        resource: ResourceType,
        name: str,
        *,
        audited: bool = True,
        request: str = "",
    ) -> bool:
        version = self._acls().version
        known = version is self._version and (operation, resource, name) in self._allowed
        if known and not self._audit.counts and not log.writes_debug:
            return True
        allowed = self.authorizer.allows(
            self.who, self.host, operation, resource, name, audited=audited, request=request
        )
        if allowed and not known:
            if version is not self._version or len(self._allowed) >= _MOST_OF_SENDER:
                self._version = version
                self._allowed.clear()
            self._allowed.add((operation, resource, name))
        return allowed


def _allows_some(
    acls: AclIndex,
    principal: str,
    host: str,
    operation: AclOperation,
    resource: ResourceType,
    *,
    needs: Callable[[Acl], None],
) -> bool:
    """Return whether some ACL allows the operation itself, or all, with a resource that none denies. `needs`
    gets the ACLs that decide."""
    matching = [
        acl
        for acl in acls.by_id.values()
        if acl.resource_type is resource
        and acl.is_for(principal, host)
        and acl.operation in (operation, AclOperation.ALL)
    ]
    literals, prefixes = set[str](), set[str]()
    denials = [acl for acl in matching if acl.permission is AclPermission.DENY]
    for acl in denials:
        (literals if acl.pattern is PatternType.LITERAL else prefixes).add(acl.name)
    lengths = {len(prefix) for prefix in prefixes}
    permissions = [acl for acl in matching if acl.permission is AclPermission.ALLOW]
    for acl in permissions if WILDCARD not in literals else ():
        if not (acl.pattern is PatternType.LITERAL and acl.name in literals) and (
            (acl.name == WILDCARD and acl.pattern is PatternType.LITERAL)
            or not any(acl.name[:length] in prefixes for length in lengths)
        ):
            needs(acl)
            return True
    for acl in denials if permissions else ():
        needs(acl)
    return False
