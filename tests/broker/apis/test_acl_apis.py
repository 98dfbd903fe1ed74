"""CreateAcls, DescribeAcls and DeleteAcls as clients see them."""

import logging
import uuid
from dataclasses import replace
from typing import Any

import pytest
from acl_node import AclNode
from api_broker import broker_of, context
from kio.schema.errors import ErrorCode

from quorate.broker.access.authorizer import OPEN
from quorate.broker.access.standard_authorizer import StandardAuthorizer
from quorate.broker.apis.api_table import ControllerDispatcher, Dispatcher
from quorate.broker.metadata.acls import Acl, AclOperation, AclPermission, PatternType, ResourceType
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import AccessControlEntry
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.exchanges import RequestContext
from quorate.broker.wire.principals import ANONYMOUS, Principal
from quorate.runtime import AUDIT_LOGGER

CREATE, DESCRIBE, DELETE = ApiKey.CREATE_ACLS, ApiKey.DESCRIBE_ACLS, ApiKey.DELETE_ACLS
ANY: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


@pytest.fixture(params=[Dispatcher, ControllerDispatcher])
def rig(request: pytest.FixtureRequest) -> AclNode:
    """A node, asked as a client of one of its listeners asks it."""
    return AclNode(request.param)


def creation(**fields: Any) -> dict[str, Any]:
    return {
        "resource_type": 2,
        "resource_name": "orders",
        "resource_pattern_type": 3,
        "principal": "User:ann",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    } | fields


@pytest.mark.bug("Kafka StandardAcl.kafkaPrincipal")
@pytest.mark.parametrize("version", [1, 2, 3])
async def test_acls_are_created_described_by_pattern_and_deleted(rig, version: int) -> None:
    created = await rig.ask(
        CREATE,
        version,
        creations=[
            creation(),
            creation(principal="bob"),
            creation(operation=4, permission_type=2, host="10.0.0.7"),
            creation(resource_name="or", resource_pattern_type=4),
        ],
    )
    assert [each.error_code for each in created.results] == [
        ErrorCode.none,
        ErrorCode.invalid_request,
        ErrorCode.none,
        ErrorCode.none,
    ]
    assert "'bob' is no principal" in created.results[1].error_message
    described = await rig.ask(DESCRIBE, version, **ANY | {"principal_filter": "User:ann"})
    assert [
        (
            each.resource_type,
            each.resource_name,
            each.pattern_type,
            [(acl.principal, acl.host, acl.operation, acl.permission_type) for acl in each.acls],
        )
        for each in described.resources
    ] == [
        (2, "orders", 3, [("User:ann", "*", 3, 3), ("User:ann", "10.0.0.7", 4, 2)]),
        (2, "or", 4, [("User:ann", "*", 3, 3)]),
    ]
    matching = ANY | {"resource_name_filter": "orders", "pattern_type_filter": 2, "operation": 3}
    deleted = await rig.ask(DELETE, version, filters=[matching, ANY | {"operation": 0}])
    first, second = deleted.filter_results
    assert [(each.resource_name, each.pattern_type, each.principal) for each in first.matching_acls] == [
        ("orders", 3, "User:ann"),
        ("or", 4, "User:ann"),
    ]
    assert (second.error_code, second.matching_acls) == (ErrorCode.invalid_request, ())
    assert [each.operation for each in rig.image.acls.by_id.values()] == [4]


async def test_a_filter_for_what_is_unknown_is_refused(rig) -> None:
    answer = await rig.ask(DESCRIBE, **ANY | {"resource_type_filter": 0})
    assert answer.error_code is ErrorCode.invalid_request
    assert "resource type is 0" in answer.error_message


REQUESTS = {
    CREATE: {"creations": [creation()] * 2},
    DESCRIBE: ANY,
    DELETE: {"filters": [ANY] * 2},
}


def codes(answer: Any) -> set[ErrorCode]:
    parts = getattr(answer, "results", None) or getattr(answer, "filter_results", None) or [answer]
    return {each.error_code for each in parts}


@pytest.mark.parametrize("key", REQUESTS)
async def test_without_an_authorizer_security_is_disabled(rig, key: ApiKey) -> None:
    rig.authorizer = OPEN
    assert codes(await rig.ask(key, **REQUESTS[key])) == {ErrorCode.security_disabled}
    assert not rig.image.acls


@pytest.mark.bug("CVE-2019-0201")
@pytest.mark.parametrize("key", REQUESTS)
async def test_a_client_that_may_not_alter_or_describe_the_cluster_is_refused(rig, key: ApiKey) -> None:
    needed = 8 if key is DESCRIBE else 7
    cluster = {"resource_type": 4, "resource_name": "kafka-cluster", "principal": str(ANONYMOUS)}
    others = [each for each in (5, 7, 8, 9, 10, 11, 12) if each != needed and (needed, each) != (8, 7)]
    await rig.ask(CREATE, creations=[creation(**cluster, operation=each) for each in others])
    before = dict(rig.image.acls.by_id)
    rig.authorizer = rig.by_acls()
    assert codes(await rig.ask(key, **REQUESTS[key])) == {ErrorCode.cluster_authorization_failed}
    assert rig.image.acls.by_id == before
    rig.authorizer = rig.super_users()
    await rig.ask(CREATE, creations=[creation(**cluster, operation=needed)])
    rig.authorizer = rig.by_acls()
    assert codes(await rig.ask(key, **REQUESTS[key])) == {ErrorCode.none}


@pytest.mark.slow
@pytest.mark.costly
async def test_more_than_ten_thousand_are_refused(rig) -> None:
    for key, field, part in ((CREATE, "creations", creation()), (DELETE, "filters", ANY)):
        assert codes(await rig.ask(key, **{field: [part] * 10_001})) == {ErrorCode.invalid_request}
    assert not rig.image.acls


async def test_a_change_has_an_audit_line_with_who_where_and_what_came_of_it(
    rig, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger=AUDIT_LOGGER):
        await rig.ask(CREATE, 3, creations=[creation()])
        await rig.ask(DESCRIBE, 3, **ANY)
        await rig.ask(DELETE, 3, filters=[ANY])
    assert [each.__dict__["quorate"] for each in caplog.records if each.name == AUDIT_LOGGER] == [
        {
            "event": "a client changes the cluster",
            "principal": str(ANONYMOUS),
            "host": "p",
            "request": request,
            "outcome": "NONE",
        }
        for request in ("CreateAcls", "DeleteAcls")
    ]


async def test_a_login_changes_who_is_asked_about_on_a_connection() -> None:
    image = MetadataImage()
    ann, bob = Principal("User", "ann"), Principal("User", "bob")
    entry = AccessControlEntry(
        id=uuid.UUID(int=1),
        acl=Acl(
            resource_type=ResourceType.TOPIC,
            name="t",
            pattern=PatternType.LITERAL,
            principal="User:ann",
            host="10.0.0.7",
            operation=AclOperation.READ,
            permission=AclPermission.ALLOW,
        ),
    )
    image.apply(entry, offset=0, epoch=1)
    authorizer = StandardAuthorizer(lambda: image.acls, now=lambda: 0.0)
    broker = broker_of(authorizer=authorizer)
    first = context(ApiKey.PRODUCE, 9)

    def may(who: Principal, peer: str, *, like: RequestContext = first) -> bool:
        # As a connection does at a login: what it keeps stays.
        connection = replace(like.connection, principal=who, peer=peer)
        asked = replace(like, connection=connection)
        return broker.may(asked, AclOperation.READ, ResourceType.TOPIC, "t", audited=False)

    for _ in range(2):
        assert may(ann, "10.0.0.7:1")
        assert not may(bob, "10.0.0.7:1")
    assert not may(ann, "10.0.0.8:1", like=context(ApiKey.PRODUCE, 9))


@pytest.mark.bug("CVE-2024-51504")
async def test_the_host_is_that_of_the_connection_and_not_what_a_client_says() -> None:
    image = MetadataImage()
    entry = AccessControlEntry(
        id=uuid.UUID(int=1),
        acl=Acl(
            resource_type=ResourceType.TOPIC,
            name="t",
            pattern=PatternType.LITERAL,
            principal=str(ANONYMOUS),
            host="10.0.0.7",
            operation=AclOperation.READ,
            permission=AclPermission.ALLOW,
        ),
    )
    image.apply(entry, offset=0, epoch=1)
    broker = broker_of(authorizer=StandardAuthorizer(lambda: image.acls, now=lambda: 0.0))
    for peer, host, allowed in (("10.0.0.7:1", "10.0.0.7", True), ("10.0.0.8:1", "10.0.0.8", False)):
        first = context(ApiKey.FETCH, 12)
        asked = replace(first, connection=replace(first.connection, peer=peer), client_id="10.0.0.7")
        may = broker.may(asked, AclOperation.READ, ResourceType.TOPIC, "t", audited=False)
        asker = broker.asker(asked)
        assert asker is not None
        assert (may, asker.host) == (allowed, host), "also where the request is passed on"
