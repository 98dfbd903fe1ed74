"""CreateAcls and DeleteAcls in the controller."""

import uuid
from typing import Any

import pytest

from quorate.broker.controller.operations import acls as operations
from quorate.broker.controller.operations.acls import create_acls, delete_acls
from quorate.broker.controller.rpc import (
    AclCreation,
    AclFilterFields,
    CreateAclsRequest,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from quorate.broker.metadata.acls import Acl, AclOperation, AclPermission, PatternType, ResourceType
from quorate.error_code import ErrorCode
from quorate.runtime.slices import at_once

ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
FINE = (ErrorCode.NONE, None)
DEFAULTS: dict[str, Any] = {
    "resource_type": 2,
    "name": "orders",
    "pattern": LITERAL,
    "principal": "User:ann",
    "host": "*",
    "operation": 3,
    "permission": 3,
}


def create(cluster: Any, *changes: dict[str, Any]) -> list[tuple[ErrorCode, str | None]]:
    creations = tuple(AclCreation(**DEFAULTS | each) for each in changes)
    first = len(cluster.image.acls)
    ids = [uuid.UUID(int=first * 1000 + number) for number in range(len(creations))]
    answer = cluster.do(create_acls(cluster.image, CreateAclsRequest(creations=creations), ids=ids))
    return [(each.error, each.error_message) for each in answer.results]


def wanted(**fields: Any) -> AclFilterFields:
    return AclFilterFields(
        **{"resource_type": ANY, "pattern": ANY, "operation": ANY, "permission": ANY} | fields
    )


def delete(cluster: Any, *filters: AclFilterFields) -> DeleteAclsResponse:
    answer: DeleteAclsResponse = cluster.do(
        at_once(delete_acls(cluster.image, DeleteAclsRequest(filters=filters)))
    )
    return answer


def names(answer: DeleteAclsResponse) -> list[list[str]]:
    return [[each.name for each in result.acls] for result in answer.results]


def test_an_acl_is_created_once(cluster) -> None:
    assert create(cluster, {}, {"principal": "User:bob"}, {}) == [FINE] * 3
    assert create(cluster, {}) == [FINE], "it is there"
    (ann, bob) = cluster.image.acls.by_id.values()
    assert bob.principal == "User:bob"
    assert ann == Acl(
        resource_type=ResourceType.TOPIC,
        name="orders",
        pattern=PatternType.LITERAL,
        principal="User:ann",
        host="*",
        operation=AclOperation.READ,
        permission=AclPermission.ALLOW,
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"resource_type": 0}, "resource type is 0"),
        ({"resource_type": 1}, "resource type is 1; it has to be one of 2 TOPIC"),
        ({"resource_type": 99}, "resource type is 99"),
        ({"resource_type": 4}, "'orders'; it has to be kafka-cluster"),
        ({"name": ""}, "1 to 4096 characters"),
        ({"name": "x" * 4097}, "1 to 4096 characters"),
        ({"name": "a\0"}, "NUL"),
        ({"pattern": ANY}, "pattern type is 1; it has to be one of 3 LITERAL, 4 PREFIXED"),
        ({"pattern": MATCH}, "pattern type is 2"),
        ({"principal": "ann"}, "'ann' is no principal; write Type:name"),
        ({"principal": ":ann"}, "is no principal"),
        ({"principal": "User:"}, "is no principal"),
        ({"principal": "User:" + "x" * 4096}, "more than 4096"),
        ({"host": "localhost"}, "'localhost' is neither an IP address nor *"),
        ({"host": "10.0.0.0/8"}, "neither an IP address"),
        ({"host": ""}, "neither an IP address"),
        ({"operation": 0}, "operation is 0"),
        ({"operation": 1}, "operation is 1"),
        ({"operation": 12}, "A TOPIC has no operation IDEMPOTENT_WRITE; it has READ, WRITE,"),
        ({"permission": 1}, "permission type is 1; it has to be one of 2 DENY, 3 ALLOW"),
    ],
)
def test_an_acl_that_means_nothing_is_refused_by_itself(cluster, change: dict[str, Any], says: str) -> None:
    (error, message), other = create(cluster, change, {"principal": "User:bob"})
    assert error is ErrorCode.INVALID_REQUEST
    assert says in (message or "")
    assert other == FINE
    assert len(cluster.image.acls) == 1


def test_all_operations_and_a_prefix_of_a_cluster_wide_name_are_taken(cluster) -> None:
    cluster_wide = {"resource_type": 4, "name": "kafka-cluster", "operation": 2, "permission": 2}
    assert create(cluster, cluster_wide, {"name": "*", "pattern": PREFIXED}) == [FINE, FINE]


def test_an_address_is_kept_in_one_form(cluster) -> None:
    assert (
        create(cluster, {"host": "::FFFF:10.0.0.7"}, {"host": "10.0.0.7"}, {"host": "FE80::0:1"})
        == [FINE] * 3
    )
    assert [each.host for each in cluster.image.acls.by_id.values()] == ["10.0.0.7", "fe80::1"]
    assert names(delete(cluster, wanted(host="fe80:0::1"))) == [["orders"]]


def test_an_acl_is_an_answer_to_each_filter_that_takes_it(cluster) -> None:
    create(cluster, {}, {"name": "order", "pattern": PREFIXED}, {"name": "*"}, {"name": "other"})
    answer = delete(
        cluster,
        wanted(name="orders", pattern=MATCH, principal="User:ann", resource_type=2),
        wanted(name="orders", pattern=ANY),
        wanted(name="order", pattern=ANY, principal="User:ann", resource_type=2),
        wanted(name="order", pattern=LITERAL),
        wanted(pattern=PREFIXED),
        wanted(pattern=0),
        wanted(principal="User:bob"),
    )
    assert names(answer) == [["orders", "*", "order"], ["orders"], ["order"], [], ["order"], [], []]
    assert [each.error for each in answer.results].count(ErrorCode.INVALID_REQUEST) == 1
    assert answer.results[5].error_message == (
        "The pattern type is 0; it has to be one of 1 ANY, 2 MATCH, 3 LITERAL, 4 PREFIXED."
    )
    assert [each.name for each in cluster.image.acls.by_id.values()] == ["other"]


@pytest.mark.parametrize("field", ["resource_type", "operation", "permission"])
def test_a_filter_for_what_is_unknown_is_refused(cluster, field: str) -> None:
    create(cluster, {})
    (result,) = delete(cluster, wanted(**{field: 0})).results
    assert result.error is ErrorCode.INVALID_REQUEST
    assert len(cluster.image.acls) == 1


def test_filters_that_ask_too_much_delete_nothing(cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    create(cluster, *({"name": f"t{number}"} for number in range(20)))
    monkeypatch.setattr(operations, "MAX_LOOKS", 100)
    answer = delete(cluster, *[wanted(name="t1")] * 6)
    assert answer.error is ErrorCode.INVALID_REQUEST
    assert "6 filters for 20 ACLs; give each a resource and a principal" in (answer.error_message or "")
    narrow = wanted(name="t1", principal="User:ann", resource_type=2)
    assert names(delete(cluster, *[narrow] * 6)) == [["t1"]] * 6
    monkeypatch.setattr(operations, "MAX_ITEMS", 18)
    answer = delete(cluster, wanted())
    assert "more than 18 ACLs" in (answer.error_message or "")
    assert len(cluster.image.acls) == 19
