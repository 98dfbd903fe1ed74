"""CreateAcls, DescribeAcls and DeleteAcls as clients see them."""

import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from api_broker import broker_of, context
from kio.schema.errors import ErrorCode

from quorate.broker.access.authorizer import OPEN
from quorate.broker.access.standard_authorizer import StandardAuthorizer
from quorate.broker.apis.api_table import ControllerDispatcher, Dispatcher
from quorate.broker.controller.operations.acls import create_acls, delete_acls
from quorate.broker.controller.operations.outcome import Outcome
from quorate.broker.controller.rpc import CreateAclsRequest
from quorate.broker.controller.rpc_codec import decode_request, encode_request
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs.entities import build, decode_entity, request_type, response_type
from quorate.broker.wire.exchanges import Refusal
from quorate.broker.wire.principals import ANONYMOUS
from quorate.broker.wire.request_codec import encode_response
from quorate.broker.wire.wire_errors import KafkaError
from quorate.runtime.slices import at_once

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


class Channel:
    """A controller that commits at once, behind the bytes of its requests."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image

    async def ask(self, request: Any, *, timeout_seconds: float) -> Any:
        await trio.lowlevel.checkpoint()
        asked: Any = decode_request(encode_request(request))
        first = self._image.offset + 1
        outcome: Outcome[Any]
        if isinstance(asked, CreateAclsRequest):
            ids = [uuid.UUID(int=first * 100 + number) for number in range(len(asked.creations))]
            outcome = create_acls(self._image, asked, ids=ids)
        else:
            outcome = at_once(delete_acls(self._image, asked))
        for offset, record in enumerate(outcome.records, first):
            self._image.apply(record, offset=offset, epoch=1)
        return outcome.response


Ask = Callable[..., Any]


@pytest.fixture(params=[Dispatcher, ControllerDispatcher])
async def rig(request: Any, nursery: trio.Nursery) -> SimpleNamespace:
    """`ask`: sends a request as a client of one of a node's listeners."""
    image = MetadataImage()
    held = SimpleNamespace(image=image, authorizer=super_user(image))

    async def ask(key: ApiKey, version: int = 3, **fields: Any) -> Any:
        node = broker_of(
            metadata=SimpleNamespace(image=image),
            channel=Channel(image),
            authorizer=held.authorizer,
            tasks=nursery,
            throttles=SimpleNamespace(counts=False),
        )
        asked = build(request_type(key, version), **fields)
        dispatcher = request.param(node)
        try:
            deferred = await dispatcher.handle(context(key, version), asked)
            done = trio.Event()
            deferred.notify(done.set)
            await done.wait()
            answer = await deferred.result()
        except KafkaError as error:
            refusal = Refusal(version, error.code, error.message)
            answer = await dispatcher.apis[key].refusal(asked, refusal)
        body = b"".join(encode_response(answer))
        return decode_entity(response_type(key, version), memoryview(body))

    held.ask = ask
    return held


def super_user(image: MetadataImage) -> StandardAuthorizer:
    return StandardAuthorizer(lambda: image.acls, super_users=(ANONYMOUS,), now=lambda: 0.0)


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


@pytest.mark.parametrize("key", REQUESTS)
async def test_a_client_that_may_not_alter_or_describe_the_cluster_is_refused(rig, key: ApiKey) -> None:
    needed = 8 if key is DESCRIBE else 7
    cluster = {"resource_type": 4, "resource_name": "kafka-cluster", "principal": str(ANONYMOUS)}
    others = [each for each in (5, 7, 8, 9, 10, 11, 12) if each != needed and (needed, each) != (8, 7)]
    await rig.ask(CREATE, creations=[creation(**cluster, operation=each) for each in others])
    before = dict(rig.image.acls.by_id)
    rig.authorizer = StandardAuthorizer(lambda: rig.image.acls, now=lambda: 0.0)
    assert codes(await rig.ask(key, **REQUESTS[key])) == {ErrorCode.cluster_authorization_failed}
    assert rig.image.acls.by_id == before
    rig.authorizer = super_user(rig.image)
    await rig.ask(CREATE, creations=[creation(**cluster, operation=needed)])
    rig.authorizer = StandardAuthorizer(lambda: rig.image.acls, now=lambda: 0.0)
    assert codes(await rig.ask(key, **REQUESTS[key])) == {ErrorCode.none}


async def test_more_than_ten_thousand_are_refused(rig) -> None:
    for key, field, part in ((CREATE, "creations", creation()), (DELETE, "filters", ANY)):
        assert codes(await rig.ask(key, **{field: [part] * 10_001})) == {ErrorCode.invalid_request}
    assert not rig.image.acls
