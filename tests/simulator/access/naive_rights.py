"""The rights of users by a walk through a list: no index, no cache, nothing of the shipped decision."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from quorate.broker.metadata.acls import Acl, AclOperation, AclPermission, PatternType, ResourceType

SUPER_USER: Final = "User:root"
CLUSTER: Final = "kafka-cluster"
_IMPLY_DESCRIBE: Final = (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER)


@dataclass(frozen=True, slots=True)
class Right:
    """One operation with one resource, or with some one of the type."""

    operation: AclOperation
    resource: ResourceType
    name: str = CLUSTER
    some: bool = False


@dataclass(frozen=True, slots=True)
class Rights:
    """The ACLs and the users at one offset of the metadata log."""

    offset: int
    """The last one (inclusive) that counts."""
    acls: tuple[Acl, ...] = ()
    """In the order in which they were created."""
    salts: Mapping[str, bytes] | None = None
    """The salts of passwords, by user: each password has one of its own."""

    def salt(self, user: str) -> bytes | None:
        return None if self.salts is None else self.salts.get(user)

    def allow(self, who: str, any_of: tuple[Right, ...]) -> bool:
        """Return whether `who` has one of the rights."""
        return any(self._has(who, each) for each in any_of)

    def _has(self, who: str, right: Right) -> bool:
        if not right.some:
            return naively_allowed(self.acls, who, right.operation, right.resource, right.name)
        # Whatever may be allowed is allowed with a name of an ACL, or with one just behind it.
        names = {"\0"} | {each.name + end for each in self.acls for end in ("", "\0")}
        return any(naively_allowed(self.acls, who, right.operation, right.resource, name) for name in names)


def naively_allowed(
    acls: tuple[Acl, ...], who: str, operation: AclOperation, resource: ResourceType, name: str
) -> bool:
    """Return whether `who` may do `operation`. Hosts of simulated clients have no addresses, so an ACL for an
    address is about nobody."""
    allowed = who == SUPER_USER
    for acl in acls:
        named = name.startswith(acl.name) if acl.pattern is PatternType.PREFIXED else acl.name in (name, "*")
        if acl.resource_type != resource or not named or acl.principal not in (who, "User:*"):
            continue
        denies = acl.permission is AclPermission.DENY
        means = {operation, AclOperation.ALL}
        if operation is AclOperation.DESCRIBE and not denies:
            means.update(_IMPLY_DESCRIBE)
        if operation is AclOperation.DESCRIBE_CONFIGS and not denies:
            means.add(AclOperation.ALTER_CONFIGS)
        if acl.operation not in means or acl.host != "*":
            continue
        if denies and who != SUPER_USER:
            return False
        allowed = True
    return allowed
