"""ACLs: who may, or may not, do what with which resources (KIP-11, KIP-290)."""

import enum
import ipaddress
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, TypeAlias

from quorate.bounds import Most
from quorate.value import value


class ResourceType(enum.IntEnum):
    """The kinds of resources, with Kafka's numbers."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    """Only the name `CLUSTER_NAME`."""
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclOperation(enum.IntEnum):
    """What somebody does with a resource, with Kafka's numbers."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class PatternType(enum.IntEnum):
    """How the name of an ACL means resources, with Kafka's numbers."""

    LITERAL = 3
    """The resource of this name. The name `*` means all resources of the type."""
    PREFIXED = 4
    """All resources whose names begin so (KIP-290)."""


class PatternFilter(enum.IntEnum):
    """How the name in a filter means ACLs, with Kafka's numbers."""

    ANY = 1
    """ACLs with exactly this name, of either pattern type."""
    MATCH = 2
    """ACLs that concern the resource of this name."""
    LITERAL = 3
    PREFIXED = 4


class AclPermission(enum.IntEnum):
    """Whether an ACL permits or forbids, with Kafka's numbers."""

    DENY = 2
    ALLOW = 3


CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of type `CLUSTER`."""
WILDCARD: Final = "*"
"""Every resource of a type, or every host."""
EVERYBODY: Final = "User:*"
"""The principal of ACLs for all."""
MAX_ACL_NAME: Final = 1 << 12
"""Characters in the name of an ACL's resource or principal."""
MAX_HOST: Final = 255
_Name: TypeAlias = Annotated[str, Most(MAX_ACL_NAME)]

OPERATIONS_OF: Final[Mapping[ResourceType, frozenset[AclOperation]]] = MappingProxyType(
    {
        ResourceType.TOPIC: frozenset(
            {
                AclOperation.READ,
                AclOperation.WRITE,
                AclOperation.CREATE,
                AclOperation.DELETE,
                AclOperation.ALTER,
                AclOperation.DESCRIBE,
                AclOperation.DESCRIBE_CONFIGS,
                AclOperation.ALTER_CONFIGS,
            }
        ),
        ResourceType.GROUP: frozenset(
            {
                AclOperation.READ,
                AclOperation.DELETE,
                AclOperation.DESCRIBE,
                AclOperation.DESCRIBE_CONFIGS,
                AclOperation.ALTER_CONFIGS,
            }
        ),
        ResourceType.CLUSTER: frozenset(
            {
                AclOperation.CREATE,
                AclOperation.ALTER,
                AclOperation.DESCRIBE,
                AclOperation.CLUSTER_ACTION,
                AclOperation.DESCRIBE_CONFIGS,
                AclOperation.ALTER_CONFIGS,
                AclOperation.IDEMPOTENT_WRITE,
            }
        ),
        ResourceType.TRANSACTIONAL_ID: frozenset({AclOperation.WRITE, AclOperation.DESCRIBE}),
        ResourceType.DELEGATION_TOKEN: frozenset({AclOperation.DESCRIBE}),
        ResourceType.USER: frozenset({AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS}),
    }
)
"""The operations that each type of resource has, besides `ALL` (KIP-430)."""

_IMPLIED_BY: Final[Mapping[AclOperation, frozenset[AclOperation]]] = MappingProxyType(
    {
        AclOperation.DESCRIBE: frozenset(
            {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
        ),
        AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS}),
    }
)
_NO_OPERATIONS: Final = frozenset[AclOperation]()


@value(frozen=True, slots=True, kw_only=True)
class Acl:
    """One rule: a principal may, or may not, do an operation from a host with the resources of a pattern."""

    resource_type: ResourceType
    name: _Name
    pattern: PatternType
    principal: _Name
    """`Type:name`, compared exactly, or `EVERYBODY`."""
    host: Annotated[str, Most(MAX_HOST)]
    """An IP address in the form of `canonical_host`, or `*`."""
    operation: AclOperation
    permission: AclPermission

    def concerns(self, name: str) -> bool:
        """Return whether the pattern means the resource of this name, if its type is this one."""
        if self.pattern is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)

    def is_for(self, principal: str, host: str) -> bool:
        """Return whether it is about this principal from this host. `host`: in the form of
        `canonical_host`."""
        return self.principal in (principal, EVERYBODY) and self.host in (host, WILDCARD)

    def covers(self, operation: AclOperation) -> bool:
        """Return whether it decides about the operation. What is allowed implies that it may be described;
        what is denied doesn't."""
        return self.operation in (operation, AclOperation.ALL) or (
            self.permission is AclPermission.ALLOW
            and self.operation in _IMPLIED_BY.get(operation, _NO_OPERATIONS)
        )

    def __str__(self) -> str:
        """Return the form of Kafka's audit lines. Its names are those that a client gave."""
        return (
            f"StandardAcl(resourceType={self.resource_type.name}, resourceName={self.name}, "
            f"patternType={self.pattern.name}, principal={self.principal}, host={self.host}, "
            f"operation={self.operation.name}, permissionType={self.permission.name})"
        )


@value(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """Chooses ACLs. None: any."""

    resource_type: ResourceType | None = None
    name: str | None = None
    pattern: PatternFilter = PatternFilter.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation | None = None
    permission: AclPermission | None = None

    def takes(self, acl: Acl) -> bool:
        """Return whether it chooses this ACL."""
        return (
            self.resource_type in (None, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (None, acl.operation)
            and self.permission in (None, acl.permission)
            and self._takes_pattern(acl)
        )

    def _takes_pattern(self, acl: Acl) -> bool:
        match self.pattern:
            case PatternFilter.MATCH:
                return self.name is None or acl.concerns(self.name)
            case PatternFilter.ANY:
                return self.name in (None, acl.name)
            case _:
                return self.pattern.value == acl.pattern.value and self.name in (None, acl.name)


def canonical_host(host: str) -> str:
    """Return an IP address in one form, so that equal ones are equal texts: without brackets or the zone of a
    link, and an IPv4 address that is mapped into IPv6 as IPv4. Any other text is returned as it is."""
    address = _address(host)
    return host if address is None else str(address)


def is_address(host: str) -> bool:
    """Return whether the text is an IP address."""
    return _address(host) is not None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]").partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
