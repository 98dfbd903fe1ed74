"""CreateAcls and DeleteAcls (KIP-140, KIP-290)."""

import enum
import uuid
from collections.abc import Sequence
from typing import Final, TypeVar

from quorate.broker.controller.operations.outcome import Outcome, decide_each, refusal
from quorate.broker.controller.rpc import (
    MAX_ITEMS,
    MAX_MESSAGE_BYTES,
    AclCreation,
    AclCreationResult,
    AclFilterFields,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeletedAcls,
)
from quorate.broker.metadata.acls import (
    CLUSTER_NAME,
    MAX_ACL_NAME,
    OPERATIONS_OF,
    WILDCARD,
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternFilter,
    PatternType,
    ResourceType,
    canonical_host,
    is_address,
)
from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import AccessControlEntry, RemoveAccessControlEntry
from quorate.broker.wire.principals import Principal
from quorate.error_code import ErrorCode
from quorate.runtime import Steps

E = TypeVar("E", bound=enum.IntEnum)

_ANY: Final = 1
"""Kafka's number for any type, operation or permission."""
_STRIDE: Final = 64
"""ACLs that are compared between two pauses."""
MAX_LOOKS: Final = 2_000_000
"""ACLs that the filters of one request are compared with, about a second's work."""
_MOST_CHARACTERS: Final = MAX_MESSAGE_BYTES // 8
"""Of all ACLs in an answer, which has to fit into a message. A character takes up to four bytes."""


def create_acls(
    image: MetadataImage, request: CreateAclsRequest, *, ids: Sequence[uuid.UUID]
) -> Outcome[CreateAclsResponse]:
    """Create each ACL by itself. One that is there already is a success without a record. `ids`: one for each
    creation."""
    new = set[Acl]()

    def records(item: tuple[AclCreation, uuid.UUID]) -> tuple[AccessControlEntry, ...]:
        acl = _acl(item[0])
        if acl in image.acls or acl in new:
            return ()
        new.add(acl)
        return (AccessControlEntry(id=item[1], acl=acl),)

    results, groups = decide_each(
        zip(request.creations, ids, strict=True),
        records,
        lambda _, error, message: AclCreationResult(error=error, error_message=message),
    )
    return Outcome(response=CreateAclsResponse(results=results), groups=groups)


def looks_of(image: MetadataImage, request: DeleteAclsRequest) -> int:
    """Return how many ACLs a request may concern: those that its filters are compared with, and those that it
    may delete."""
    narrow = sum(map(_is_narrow, request.filters))
    return max(1, len(image.acls), narrow + (len(request.filters) - narrow) * len(image.acls))


def _is_narrow(wanted: AclFilterFields) -> bool:
    """Return whether the filter is compared with few ACLs: see `AclIndex.chosen`."""
    return wanted.resource_type != _ANY and wanted.name is not None and wanted.principal is not None


def delete_acls(image: MetadataImage, request: DeleteAclsRequest) -> Steps[Outcome[DeleteAclsResponse]]:
    """Delete the ACLs that any filter takes, all or none. Invalid filters are refused by themselves."""
    if looks_of(image, request) > MAX_LOOKS:
        return refusal(
            DeleteAclsResponse,
            ErrorCode.INVALID_REQUEST,
            f"The request has {len(request.filters)} filters for {len(image.acls)} ACLs; give each a "
            "resource and a principal, or send fewer at once.",
        )
    results: list[DeletedAcls] = []
    removed: dict[uuid.UUID, None] = {}
    found = characters = looks = 0
    for fields in request.filters:
        try:
            wanted = filter_of(fields)
        except ApiError as error:
            results.append(DeletedAcls(error=error.code, error_message=error.message))
            continue
        taken: list[Acl] = []
        for each in image.acls.chosen(wanted):
            looks += 1
            if looks % _STRIDE == 0:
                yield
            if each is None:
                continue
            acl_id, acl = each
            found += 1
            characters += len(acl.name) + len(acl.principal) + len(acl.host)
            if found > MAX_ITEMS or characters > _MOST_CHARACTERS:
                return refusal(
                    DeleteAclsResponse,
                    ErrorCode.INVALID_REQUEST,
                    f"The filters take more than {MAX_ITEMS} ACLs, or more than {_MOST_CHARACTERS} "
                    "characters in them; delete some of them at a time.",
                )
            taken.append(acl)
            removed[acl_id] = None
        results.append(DeletedAcls(acls=tuple(taken)))
        yield
    records = tuple(RemoveAccessControlEntry(id=acl_id) for acl_id in removed)
    return Outcome(response=DeleteAclsResponse(results=tuple(results)), groups=(records,) if records else ())


def filter_of(fields: AclFilterFields) -> AclFilter:
    """Return the filter that a client wrote. Raises `ApiError` for a number that means nothing."""
    return AclFilter(
        resource_type=_or_any(ResourceType, fields.resource_type, "resource type"),
        name=fields.name,
        pattern=_member(PatternFilter, fields.pattern, "pattern type"),
        principal=fields.principal,
        host=None if fields.host is None else canonical_host(fields.host),
        operation=_or_any(AclOperation, fields.operation, "operation"),
        permission=_or_any(AclPermission, fields.permission, "permission type"),
    )


def _acl(creation: AclCreation) -> Acl:
    kind = _member(ResourceType, creation.resource_type, "resource type")
    acl = Acl(
        resource_type=kind,
        name=creation.name,
        pattern=_member(PatternType, creation.pattern, "pattern type"),
        principal=creation.principal,
        host=canonical_host(creation.host),
        operation=_member(AclOperation, creation.operation, "operation"),
        permission=_member(AclPermission, creation.permission, "permission type"),
    )
    if not acl.name or len(acl.name) > MAX_ACL_NAME or "\0" in acl.name:
        raise _invalid(f"The resource name must have 1 to {MAX_ACL_NAME} characters, none of them NUL.")
    if kind is ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        raise _invalid(f"The cluster's resource name is {acl.name!r:.60}; it has to be {CLUSTER_NAME}.")
    if len(acl.principal) > MAX_ACL_NAME:
        raise _invalid(f"The principal has more than {MAX_ACL_NAME} characters.")
    try:
        Principal.parse(acl.principal)
    except ValueError as error:
        raise _invalid(f"The principal {error}.") from None
    if acl.host != WILDCARD and not is_address(acl.host):
        raise _invalid(f"The host {acl.host!r:.60} is neither an IP address nor *.")
    if acl.operation is not AclOperation.ALL and acl.operation not in OPERATIONS_OF[kind]:
        allowed = ", ".join(each.name for each in sorted(OPERATIONS_OF[kind]))
        raise _invalid(
            f"A {kind.name} has no operation {acl.operation.name}; it has {allowed}, and ALL for all of them."
        )
    return acl


def _member(kind: type[E], number: int, field: str) -> E:
    try:
        return kind(number)
    except ValueError:
        allowed = ", ".join(f"{each.value} {each.name}" for each in kind)
        raise _invalid(f"The {field} is {number}; it has to be one of {allowed}.") from None


def _or_any(kind: type[E], number: int, field: str) -> E | None:
    return None if number == _ANY else _member(kind, number, field)


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
