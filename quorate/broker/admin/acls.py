"""ACLs: who may, or may not, do what with which resources."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypedDict, cast

from quorate.broker.admin.admin_client import AdminClient, check
from quorate.broker.admin.configs import Entity, EntityType, describe_configs
from quorate.broker.metadata.acls import (
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.own_messages import DescribeUnusedAclsRequest, DescribeUnusedAclsResponse, UnusedAcl

if TYPE_CHECKING:
    from kio.schema.create_acls.v3.response import CreateAclsResponse
    from kio.schema.delete_acls.v3.response import DeleteAclsMatchingAcl, DeleteAclsResponse
    from kio.schema.describe_acls.v3.response import (
        AclDescription,
        DescribeAclsResource,
        DescribeAclsResponse,
    )


_ANY: Final = 1
_SUPER_USERS: Final = "super.users"
_ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"


class _FilterFields(TypedDict):
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


def _fields(wanted: AclFilter) -> _FilterFields:
    return {
        "resource_type_filter": wanted.resource_type or _ANY,
        "resource_name_filter": wanted.name,
        "pattern_type_filter": wanted.pattern,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation or _ANY,
        "permission_type": wanted.permission or _ANY,
    }


def _acl(
    resource: "DescribeAclsResource | DeleteAclsMatchingAcl | UnusedAcl",
    entry: "AclDescription | DeleteAclsMatchingAcl | UnusedAcl",
) -> Acl:
    """Return the ACL from the parts of an answer that have its resource and its entry: some have both."""
    return Acl(
        resource_type=ResourceType(resource.resource_type),
        name=resource.resource_name,
        pattern=PatternType(resource.pattern_type),
        principal=entry.principal,
        host=entry.host,
        operation=AclOperation(entry.operation),
        permission=AclPermission(entry.permission_type),
    )


async def list_acls(admin: AdminClient, wanted: AclFilter) -> list[Acl]:
    """Return the ACLs that the filter takes, by resource pattern."""
    answer = cast("DescribeAclsResponse", await admin.call(ApiKey.DESCRIBE_ACLS, **_fields(wanted)))
    check(answer.error_code, answer.error_message)
    found = [_acl(resource, each) for resource in answer.resources for each in resource.acls]
    return sorted(found, key=_in_order)


def _in_order(acl: Acl) -> tuple[ResourceType, str, PatternType, str, AclPermission, AclOperation, str]:
    """Return the place of an ACL in a list: by resource pattern, and there by principal."""
    return (
        *(acl.resource_type, acl.name, acl.pattern, acl.principal),
        *(acl.permission, acl.operation, acl.host),
    )


async def create_acls(admin: AdminClient, acls: Sequence[Acl]) -> None:
    """Create ACLs. Those that are there stay. Raises `KafkaError` for the first that is refused; the others
    are created."""
    answer = await admin.change(
        ApiKey.CREATE_ACLS,
        creations=[
            {
                "resource_type": acl.resource_type,
                "resource_name": acl.name,
                "resource_pattern_type": acl.pattern,
                "principal": acl.principal,
                "host": acl.host,
                "operation": acl.operation,
                "permission_type": acl.permission,
            }
            for acl in acls
        ],
    )
    for acl, result in zip(acls, cast("CreateAclsResponse", answer).results, strict=True):
        check(result.error_code, result.error_message, of=text_of(acl))


async def delete_acls(admin: AdminClient, filters: Sequence[AclFilter]) -> list[Acl]:
    """Delete the ACLs that any of the filters takes, and return each of them once."""
    answer = await admin.change(ApiKey.DELETE_ACLS, filters=list(map(_fields, filters)))
    deleted: dict[Acl, None] = {}
    for result in cast("DeleteAclsResponse", answer).filter_results:
        check(result.error_code, result.error_message)
        for each in result.matching_acls:
            deleted[_acl(each, each)] = None
    return list(deleted)


async def unused_acls(admin: AdminClient) -> tuple[list[Acl], dict[int, int]]:
    """Return the ACLs that no decision of any live broker has needed since it started, and for each broker
    the time in ms since its first decision."""
    counted_ms: dict[int, int] = {}
    common: dict[Acl, None] | None = None
    for broker_id, address in sorted((await admin.addresses()).items()):
        broker = await admin.to(address)
        found = await broker.send(DescribeUnusedAclsRequest(), DescribeUnusedAclsResponse)
        check(found.error_code, found.error_message)
        counted_ms[broker_id] = found.counted_ms
        unused = dict.fromkeys(_acl(each, each) for each in found.acls)
        common = unused if common is None else {each: None for each in common if each in unused}
    return sorted(common or (), key=_in_order), counted_ms


async def authorizer_settings(admin: AdminClient) -> tuple[str, bool]:
    """Return `super.users` and `allow.everyone.if.no.acl.found` of the broker that answers. Where it has no
    such keys, as before it has an authorizer: nobody, and False."""
    broker_id = min(await admin.addresses())
    held = await describe_configs(admin, Entity(EntityType.BROKERS, str(broker_id)), everything=True)
    values = {each.name: each.value or "" for each in held}
    return values.get(_SUPER_USERS, ""), values.get(_ALLOW_EVERYONE, "").lower() == "true"


def text_of(acl: Acl) -> str:
    """Return the ACL as a sentence for people."""
    may = "may" if acl.permission is AclPermission.ALLOW else "may not"
    what = f"{acl.resource_type.name} {acl.name}{'*' if acl.pattern is PatternType.PREFIXED else ''}"
    host = "" if acl.host == "*" else f" from {acl.host}"
    return f"{acl.principal} {may} {acl.operation.name} {what}{host}"
