"""The needs of requests: the row of each API says them as data, which the checks, the tests and the
documentation read (KIP-11; the operations are those of Kafka's brokers and controllers)."""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Generic, Protocol, TypeVar

from kio.schema.errors import ErrorCode

from quorate.broker.access.authorizer import Sender
from quorate.broker.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from quorate.value import value

Q_contra = TypeVar("Q_contra", contravariant=True)

DENIED: Final[Mapping[ResourceType, ErrorCode]] = MappingProxyType(
    {
        ResourceType.TOPIC: ErrorCode.topic_authorization_failed,
        ResourceType.GROUP: ErrorCode.group_authorization_failed,
        ResourceType.CLUSTER: ErrorCode.cluster_authorization_failed,
        ResourceType.TRANSACTIONAL_ID: ErrorCode.transactional_id_authorization_failed,
        ResourceType.DELEGATION_TOKEN: ErrorCode.delegation_token_authorization_failed,
    }
)
"""The code that says that a resource of the type is not the client's."""


def denied_message(code: ErrorCode) -> str:
    """Return the text beside the code, where an answer has room for one. It names no resource: a log of
    errors at the client should not be where names are found."""
    return f"{code.name.replace('_', ' ').capitalize()}."


class Refuses(enum.Enum):
    """What is refused where something is missing."""

    WHOLE = "the request"
    EACH = "each by itself"
    LEFT_OUT = "left out, without an error"


@value(frozen=True, slots=True)
class Permission:
    """One operation with one type of resource."""

    operation: AclOperation
    resource: ResourceType
    some: bool = False
    """Whether it is enough to have it with any one resource of the type (KIP-679)."""

    def __str__(self) -> str:
        return f"{_words(self.operation)} {'any ' if self.some else ''}{_words(self.resource)}"


def _words(of: enum.Enum) -> str:
    return "".join(word.capitalize() for word in of.name.split("_"))


# No slots, as `ApiRow`.
@dataclass(frozen=True, kw_only=True)
class Need(Generic[Q_contra]):
    """Something that a client needs. The type parameter is the request, for what has to be read from it."""

    any_of: tuple[Permission, ...]
    """One of them is enough. A denial of the last is audited."""
    refuses: Refuses
    code: ErrorCode
    """The code of the refusal, wherever `refuses` has one."""
    named: Callable[[Q_contra], str | None] = lambda request: CLUSTER_NAME
    """`WHOLE`: the resource in the request; None: this request does not need it."""
    node_id: Callable[[Q_contra], int] | None = None
    """`WHOLE`: the node in whose name the request comes. A node that is known by its certificate may use its
    own id only (CVE-2018-1288)."""
    when: str = ""
    """Where it is needed, or what is special, for readers."""


def has_any(
    sender: Sender,
    any_of: tuple[Permission, ...],
    name: str,
    *,
    request: str,
) -> bool:
    """Return whether the sender has one of the permissions, with the resource `name` or the cluster. Only a
    denial of the last is audited, as of `request`."""
    for each in any_of:
        if each.some:
            found = sender.authorizer.allows_some(sender.who, sender.host, each.operation, each.resource)
        else:
            of = CLUSTER_NAME if each.resource is ResourceType.CLUSTER else name
            found = sender.allows(
                each.operation, each.resource, of, audited=each is any_of[-1], request=request
            )
        if found:
            return True
    return False


def whole(
    operation: AclOperation,
    *,
    when: str = "",
) -> Need[object]:
    """Need an operation on the cluster, or the request is refused."""
    return Need(
        any_of=(Permission(operation, ResourceType.CLUSTER),),
        refuses=Refuses.WHOLE,
        code=DENIED[ResourceType.CLUSTER],
        when=when,
    )


class _OfGroup(Protocol):
    @property
    def group_id(self) -> str: ...


def of_group(operation: AclOperation) -> Need[_OfGroup]:
    """Need an operation on the request's group, or the request is refused."""
    return Need[_OfGroup](
        any_of=(Permission(operation, ResourceType.GROUP),),
        refuses=Refuses.WHOLE,
        code=DENIED[ResourceType.GROUP],
        named=lambda request: request.group_id,
    )


class _OfTransaction(Protocol):
    @property
    def transactional_id(self) -> str | None: ...


def of_transaction(operation: AclOperation) -> Need[_OfTransaction]:
    """Need an operation on the request's transactional id if it has one, or the request is refused."""
    return Need[_OfTransaction](
        any_of=(Permission(operation, ResourceType.TRANSACTIONAL_ID),),
        refuses=Refuses.WHOLE,
        code=DENIED[ResourceType.TRANSACTIONAL_ID],
        named=lambda request: request.transactional_id,
        when="with a transactional id",
    )


def in_the_name_of(node_id: Callable[[Q_contra], int]) -> Need[Q_contra]:
    """Need to be a node of the cluster, with its own id, or the request is refused."""
    return Need[Q_contra](
        any_of=(Permission(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),),
        refuses=Refuses.WHOLE,
        code=DENIED[ResourceType.CLUSTER],
        node_id=node_id,
        when="the id must be the node's own",
    )


def of_each(
    operation: AclOperation,
    resource: ResourceType,
    *,
    or_on_cluster: AclOperation | None = None,
    when: str = "",
) -> Need[object]:
    """Need an operation on each resource, or the resource is refused. `or_on_cluster`: an operation that
    stands for that on all of them."""
    return Need(
        any_of=_or_on_cluster(operation, resource, or_on_cluster),
        refuses=Refuses.EACH,
        code=DENIED[resource],
        when=when,
    )


def left_out(
    operation: AclOperation,
    resource: ResourceType,
    *,
    or_on_cluster: AclOperation | None = None,
    when: str = "",
) -> Need[object]:
    """Need an operation on each resource, or the answer does not have it. As `of_each`."""
    return Need(
        any_of=_or_on_cluster(operation, resource, or_on_cluster),
        refuses=Refuses.LEFT_OUT,
        code=ErrorCode.none,
        when=when,
    )


def _or_on_cluster(
    operation: AclOperation, resource: ResourceType, or_on_cluster: AclOperation | None
) -> tuple[Permission, ...]:
    alone = (Permission(operation, resource),)
    return alone if or_on_cluster is None else (Permission(or_on_cluster, ResourceType.CLUSTER), *alone)


NOTHING: Final[tuple[Need[object], ...]] = ()
"""Everybody may send it."""
