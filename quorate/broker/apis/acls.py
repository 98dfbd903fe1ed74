"""ACLs: CreateAcls and DeleteAcls, passed on to the controller, and DescribeAcls, from this node's metadata
(KIP-140, KIP-290). DescribeUnusedAcls is ours."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from quorate.broker.access.authorizer import OPEN
from quorate.broker.access.needs import whole
from quorate.broker.access.standard_authorizer import StandardAuthorizer
from quorate.broker.apis import answers
from quorate.broker.apis.api_row import ApiRow, refuse_with_message
from quorate.broker.apis.context import (
    ServingNode,
    answer_later,
    check_answer,
    encoded_in_slices,
)
from quorate.broker.controller.operations.acls import filter_of
from quorate.broker.controller.permits import NEEDS
from quorate.broker.controller.rpc import (
    MAX_ITEMS,
    AclCreation,
    AclFilterFields,
    CreateAclsRequest,
    DeleteAclsRequest,
    DeletedAcls,
)
from quorate.broker.metadata.acls import Acl, AclOperation, PatternType, ResourceType
from quorate.broker.metadata.api_error import ApiError
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.exchanges import Refusal, RequestContext, Response
from quorate.broker.wire.own_messages import DescribeUnusedAclsRequest
from quorate.broker.wire.wire_errors import KafkaError, wire_code
from quorate.runtime import Slices, Steps, in_slices

if TYPE_CHECKING:
    from kio.schema.create_acls.v3.request import CreateAclsRequest as WireCreateAcls
    from kio.schema.delete_acls.v3.request import DeleteAclsFilter
    from kio.schema.delete_acls.v3.request import DeleteAclsRequest as WireDeleteAcls
    from kio.schema.describe_acls.v3.request import DescribeAclsRequest

_TIMEOUT_SECONDS: Final = 30
"""The requests name none."""


def _check_authorizer(node: ServingNode) -> None:
    """Raises `KafkaError` without an authorizer."""
    if node.authorizer is OPEN:
        raise _no_authorizer()


def _no_authorizer() -> KafkaError:
    return KafkaError(ErrorCode.security_disabled, "No Authorizer is configured; set authorizer.class.name.")


def _check_count(count: int, *, of: str) -> None:
    if count > MAX_ITEMS:
        raise KafkaError(
            ErrorCode.invalid_request, f"The request has {count} {of}; at most {MAX_ITEMS} are taken."
        )


@answer_later
async def handle_create_acls(
    node: ServingNode, context: RequestContext, request: "WireCreateAcls"
) -> Response:
    """Create each ACL by itself. Raises `KafkaError` for more than the controller takes."""
    _check_authorizer(node)
    _check_count(len(request.creations), of="ACLs")
    creations = await in_slices(_creations(request))
    answer = await node.ask_controller(
        context, CreateAclsRequest(creations=creations), timeout_seconds=_TIMEOUT_SECONDS
    )
    check_answer(answer)
    return await encoded_in_slices(
        context,
        answers.CreateAclsResponse(
            results=(
                {"error_code": wire_code(each.error), "error_message": each.error_message}
                for each in answer.results
            )
        ),
    )


def _creations(request: "WireCreateAcls") -> Steps[tuple[AclCreation, ...]]:
    creations: list[AclCreation] = []
    for each in request.creations:
        creations.append(
            AclCreation(
                resource_type=each.resource_type,
                name=each.resource_name,
                pattern=each.resource_pattern_type,
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                permission=each.permission_type,
            )
        )
        yield
    return tuple(creations)


@answer_later
async def handle_delete_acls(
    node: ServingNode, context: RequestContext, request: "WireDeleteAcls"
) -> Response:
    """Delete the ACLs that any of the filters takes. Raises `KafkaError` for more than the controller
    takes."""
    _check_authorizer(node)
    _check_count(len(request.filters), of="filters")
    filters = await in_slices(_filters(request))
    answer = await node.ask_controller(
        context, DeleteAclsRequest(filters=filters), timeout_seconds=_TIMEOUT_SECONDS
    )
    check_answer(answer)
    return await encoded_in_slices(
        context, answers.DeleteAclsResponse(filter_results=map(_filter_result, answer.results))
    )


def _filters(request: "WireDeleteAcls") -> Steps[tuple[AclFilterFields, ...]]:
    filters: list[AclFilterFields] = []
    for each in request.filters:
        filters.append(_fields(each))
        yield
    return tuple(filters)


def _fields(wanted: "DeleteAclsFilter | DescribeAclsRequest") -> AclFilterFields:
    return AclFilterFields(
        resource_type=wanted.resource_type_filter,
        name=wanted.resource_name_filter,
        pattern=wanted.pattern_type_filter,
        principal=wanted.principal_filter,
        host=wanted.host_filter,
        operation=wanted.operation,
        permission=wanted.permission_type,
    )


def _filter_result(result: DeletedAcls) -> answers.DeleteAclsFilterResult:
    return {
        "error_code": wire_code(result.error),
        "error_message": result.error_message,
        "matching_acls": (
            {
                "error_code": ErrorCode.none,
                "error_message": None,
                "resource_type": acl.resource_type,
                "resource_name": acl.name,
                "pattern_type": acl.pattern,
                "principal": acl.principal,
                "host": acl.host,
                "operation": acl.operation,
                "permission_type": acl.permission,
            }
            for acl in result.acls
        ),
    }


@answer_later
async def handle_describe_acls(
    node: ServingNode, context: RequestContext, request: "DescribeAclsRequest"
) -> Response:
    """Describe the ACLs that a filter takes, by resource pattern. Raises `KafkaError` for an invalid
    filter."""
    _check_authorizer(node)
    try:
        wanted = filter_of(_fields(request))
    except ApiError as error:
        raise KafkaError(wire_code(error.code), error.message) from None
    # A copy, because records are applied meanwhile.
    acls, slices = tuple(node.image.acls.by_id.values()), Slices()
    found: dict[tuple[ResourceType, PatternType, str], list[Acl]] = {}
    for acl in acls:
        if wanted.takes(acl):
            found.setdefault((acl.resource_type, acl.pattern, acl.name), []).append(acl)
        await slices.pause()
    return await encoded_in_slices(
        context,
        answers.DescribeAclsResponse(
            error_code=ErrorCode.none, error_message=None, resources=_resources(found)
        ),
    )


def _resources(
    found: dict[tuple[ResourceType, PatternType, str], list[Acl]],
) -> Iterator[answers.DescribeAclsResource]:
    for (kind, pattern, name), acls in found.items():
        yield {
            "resource_type": kind,
            "resource_name": name,
            "pattern_type": pattern,
            "acls": (
                {
                    "principal": acl.principal,
                    "host": acl.host,
                    "operation": acl.operation,
                    "permission_type": acl.permission,
                }
                for acl in acls
            ),
        }


@answer_later
async def handle_describe_unused_acls(
    node: ServingNode, context: RequestContext, request: DescribeUnusedAclsRequest
) -> Response:
    """Describe the ACLs that no decision of this node has needed. Raises `KafkaError` without an
    authorizer."""
    authorizer = node.authorizer
    if not isinstance(authorizer, StandardAuthorizer):
        raise _no_authorizer()
    # A copy, because records are applied meanwhile.
    acls, slices = tuple(node.image.acls.by_id.values()), Slices()
    found: list[Acl] = []
    for acl in authorizer.use.unused(acls):
        if acl is not None:
            found.append(acl)
        await slices.pause()
    return await encoded_in_slices(
        context,
        answers.DescribeUnusedAclsResponse(
            error_code=ErrorCode.none,
            counted_ms=round(authorizer.counted_s() * 1000),
            acls=map(_unused_acl, found),
        ),
    )


def _unused_acl(acl: Acl) -> answers.UnusedAcl:
    return {
        "resource_type": acl.resource_type,
        "resource_name": acl.name,
        "pattern_type": acl.pattern,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }


def _refuse_creation(request: "WireCreateAcls", refusal: Refusal) -> answers.CreateAclsResponse:
    return {
        "results": ({"error_code": refusal.code, "error_message": refusal.message} for _ in request.creations)
    }


def _refuse_deletion(request: "WireDeleteAcls", refusal: Refusal) -> answers.DeleteAclsResponse:
    return {
        "filter_results": (
            {"error_code": refusal.code, "error_message": refusal.message, "matching_acls": ()}
            for _ in request.filters
        )
    }


ROWS: Final = (
    ApiRow["DescribeAclsRequest"](
        ApiKey.DESCRIBE_ACLS.api,
        refuse_with_message,
        needs=(whole(AclOperation.DESCRIBE),),
        brokers=handle_describe_acls,
        controllers=handle_describe_acls,
    ),
    ApiRow[DescribeUnusedAclsRequest](
        ApiKey.DESCRIBE_UNUSED_ACLS.api,
        refuse_with_message,
        needs=(whole(AclOperation.DESCRIBE),),
        brokers=handle_describe_unused_acls,
    ),
    ApiRow["WireCreateAcls"](
        ApiKey.CREATE_ACLS.api,
        _refuse_creation,
        needs=NEEDS[CreateAclsRequest],
        brokers=handle_create_acls,
        controllers=handle_create_acls,
    ),
    ApiRow["WireDeleteAcls"](
        ApiKey.DELETE_ACLS.api,
        _refuse_deletion,
        needs=NEEDS[DeleteAclsRequest],
        brokers=handle_delete_acls,
        controllers=handle_delete_acls,
    ),
)
