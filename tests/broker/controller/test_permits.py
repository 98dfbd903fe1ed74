"""What a client may do is decided by the image that the change is made from, whatever its broker knew."""

import logging
import uuid
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pytest
import trio
import trio.testing

from quorate.broker.access.asker import Asker
from quorate.broker.controller import permits, rpc
from quorate.broker.controller.permits import NEEDS
from quorate.broker.controller.rpc import (
    AclCreation,
    AclFilterFields,
    AlterConfigsItem,
    AlterUserScramCredentialsRequest,
    ConfigAlteration,
    ConfigOperation,
    ControllerRequest,
    ControllerResponse,
    CreateAclsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DeleteTopicsRequest,
    ElectionType,
    NewTopic,
    ScramDeletion,
    ScramUpsertion,
    TopicRef,
)
from quorate.broker.controller.rpc_codec import (
    ANSWERS,
    EnvelopeRequest,
    RpcDecodeError,
    decode_answer,
    decode_asked,
    encode_for,
    encode_request,
)
from quorate.broker.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.broker.metadata.metadata_records import ConfigType, ScramMechanism
from quorate.broker.settings.authorizer_settings import STANDARD, AuthorizerSettings
from quorate.broker.wire.principals import NODE, Principal
from quorate.error_code import ErrorCode
from quorate.runtime import AUDIT_LOGGER
from quorate.types import NodeId, SecretBytes
from tests.broker.controller.controller_node import SETTINGS, Node

R = TypeVar("R", bound=ControllerResponse)

ANN = Asker(Principal("User", "ann"), "10.0.0.7", 2)
ROOT = Asker(Principal("User", "root"), "10.0.0.7", 2)
ENFORCED = replace(SETTINGS, authorizer=AuthorizerSettings(class_name=STANDARD, super_users=("User:root",)))
DENIED = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}
NODES_OWN = {
    rpc.AllocateProducerIdsRequest,
    rpc.AlterPartitionRequest,
    rpc.AssignReplicasToDirsRequest,
    rpc.BrokerHeartbeatRequest,
    rpc.RegisterBrokerRequest,
    rpc.ShrinkTopicsRequest,
}
"""Clients send them to no broker, or as a node only."""


async def ask_for(node: Node, asker: Asker, request: ControllerRequest[R]) -> R:
    return decode_answer(request, await node.controller.answer_encoded(encode_for(asker, request)))


async def started(**options: Any) -> Node:
    node = Node(settings=ENFORCED, **options)
    node.activate()
    await node.start(1)
    assert await node.create("held") == [ErrorCode.NONE]
    return node


def creation(**changes: Any) -> AclCreation:
    fields: dict[str, Any] = {
        "resource_type": ResourceType.TOPIC,
        "name": "orders",
        "pattern": PatternType.LITERAL,
        "principal": "User:ann",
        "host": "*",
        "operation": AclOperation.CREATE,
        "permission": AclPermission.ALLOW,
    }
    values: dict[str, Any] = {**fields, **changes}
    return AclCreation(**values)


ALL_ACLS = AclFilterFields(resource_type=1, pattern=1, operation=1, permission=1)


async def allow(node: Node, **changes: Any) -> None:
    answer = await node.ask(CreateAclsRequest(creations=(creation(**changes),)))
    assert [each.error for each in answer.results] == [ErrorCode.NONE]


def topics(*names: str, count: int = 1) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=tuple(NewTopic(name=name, num_partitions=count, replication_factor=1) for name in names)
    )


def configs(of: ConfigType, name: str, key: str, value: str) -> rpc.AlterConfigsRequest:
    alteration = ConfigAlteration(name=key, operation=ConfigOperation.SET, value=value)
    return rpc.AlterConfigsRequest(
        resources=(AlterConfigsItem(resource_type=of, resource_name=name, alterations=(alteration,)),)
    )


def password(user: str) -> AlterUserScramCredentialsRequest:
    upsertion = ScramUpsertion(
        name=user,
        mechanism=ScramMechanism.SCRAM_SHA_256,
        iterations=4096,
        salt=SecretBytes(b"s" * 16),
        salted_password=SecretBytes(b"p" * 32),
    )
    return AlterUserScramCredentialsRequest(upsertions=(upsertion,))


REQUESTS: list[ControllerRequest[Any]] = [
    rpc.SealAgainRequest(),
    rpc.AlterClientQuotasRequest(
        alterations=(
            rpc.QuotaAlteration(
                entity=(rpc.QuotaEntityPart(type="user", name="ann"),),
                operations=(rpc.QuotaOperation(key="producer_byte_rate", value=1.0),),
            ),
        )
    ),
    configs(ConfigType.TOPIC, "held", "retention.ms", "1"),
    configs(ConfigType.GROUP, "g", "consumer.session.timeout.ms", "45000"),
    configs(ConfigType.BROKER, "", "log.cleaner.threads", "1"),
    rpc.AlterPartitionReassignmentsRequest(
        partitions=(rpc.ReassignmentItem(topic="held", partition_id=0, replicas=(1,)),)
    ),
    password("bob"),
    CreateAclsRequest(creations=(creation(),)),
    rpc.CreatePartitionsRequest(topics=(rpc.MorePartitions(name="held", count=2),)),
    topics("orders"),
    DeleteAclsRequest(filters=(ALL_ACLS,)),
    DeleteTopicsRequest(topics=(TopicRef(name="held"),)),
    rpc.ElectLeadersRequest(
        election_type=ElectionType.UNCLEAN,
        partitions=(rpc.ElectLeadersItem(topic="held", partition_id=0),),
    ),
    rpc.UnregisterBrokerRequest(broker_id=1),
    rpc.UpdateFeaturesRequest(updates=(rpc.FeatureUpdate(name="x", level=1),)),
]


def errors(answer: ControllerResponse) -> set[ErrorCode]:
    parts = [getattr(answer, name, ()) for name in ("topics", "resources", "results", "partitions")]
    return {answer.error, *(each.error for part in parts for each in part)} - {ErrorCode.NONE}


def test_there_is_a_request_for_each_row_and_a_row_for_each_request_of_clients() -> None:
    assert set(NEEDS) == {type(each) for each in REQUESTS} == set(ANSWERS) - NODES_OWN


@pytest.mark.bug("CVE-2026-33413")
@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
async def test_a_client_without_rights_changes_nothing_and_a_super_user_may(request_: Any) -> None:
    node = await started()
    before = node.log.next_offset
    answer = await ask_for(node, ANN, request_)
    assert errors(answer) and errors(answer) <= DENIED
    assert node.log.next_offset == before
    assert not errors(await ask_for(node, ROOT, request_)) & DENIED
    assert not errors(await node.ask(request_)) & DENIED, "a node asks for itself"


def concerned(request: Any) -> ResourceType:
    """Return the type of the resource that a request of `REQUESTS` is about."""
    if isinstance(request, rpc.AlterConfigsRequest):
        of = request.resources[0].resource_type
        return {ConfigType.TOPIC: ResourceType.TOPIC, ConfigType.GROUP: ResourceType.GROUP}.get(
            of, ResourceType.CLUSTER
        )
    return NEEDS[type(request)][0].any_of[-1].resource


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
async def test_a_need_that_is_taken_from_its_row_is_found(
    request_: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left lets a client without rights do it. Sealing again is a super user's, which is checked
    beside its row."""
    kind = type(request_)
    (need,) = [each for each in NEEDS[kind] if each.any_of[-1].resource is concerned(request_)]
    left = {**NEEDS, kind: tuple(each for each in NEEDS[kind] if each is not need)}
    monkeypatch.setattr(permits, "NEEDS", left)
    node = await started()
    refused = errors(await ask_for(node, ANN, request_)) & DENIED
    assert bool(refused) is isinstance(request_, rpc.SealAgainRequest)


async def test_what_nodes_ask_for_themselves_is_done_for_no_client() -> None:
    node = await started()
    for request in (
        rpc.AllocateProducerIdsRequest(broker_id=1, broker_epoch=node.epochs[1]),
        rpc.BrokerHeartbeatRequest(broker_id=1, broker_epoch=node.epochs[1], current_metadata_offset=9),
        rpc.ShrinkTopicsRequest(topics=(rpc.FewerPartitions(name="held", count=1),)),
    ):
        answer = await ask_for(node, ROOT, request)
        assert answer.error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.bug("etcd auth design")
async def test_a_revocation_holds_before_it_is_committed() -> None:
    node = await started()
    await allow(node)
    node.log.automatic = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.ask, DeleteAclsRequest(filters=(ALL_ACLS,)))
        await trio.testing.wait_all_tasks_blocked()
        assert len(node.log.image.acls) == 1, "no broker knows it yet"
        answers: list[ControllerResponse] = []

        async def create() -> None:
            answers.append(await ask_for(node, ANN, topics("orders")))

        nursery.start_soon(create)
        await trio.testing.wait_all_tasks_blocked()
        node.log.commit()
    assert errors(answers[0]) == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}


@pytest.mark.bug("etcd auth design")
@pytest.mark.parametrize("count", [1, 5000])
async def test_a_request_that_waits_for_its_turn_is_decided_when_it_has_it(count: int) -> None:
    node = await started()
    await allow(node)
    tenure = node.controller.tenure
    assert tenure is not None
    answers: list[set[ErrorCode]] = []

    async def create() -> None:
        answers.append(errors(await ask_for(node, ANN, topics("orders", count=count))))

    async with trio.open_nursery() as nursery, tenure.alone():
        nursery.start_soon(node.ask, DeleteAclsRequest(filters=(ALL_ACLS,)))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(create)
        await trio.testing.wait_all_tasks_blocked()
        assert not answers
    # They take their turns in the order of the scheduler: the log tells which was first.
    kinds = [type(each).__name__ for each in node.log.committed]
    removed = kinds.index("RemoveAccessControlEntry")
    assert (answers == [set()]) == ("Topic" in kinds[kinds.index("AccessControlEntry") : removed])
    assert "Topic" not in kinds[removed:]


async def test_a_deletion_of_more_acls_than_one_step_takes_is_denied_too() -> None:
    tuning = replace(ENFORCED.tuning, partitions_per_step=1)
    node = Node(settings=replace(ENFORCED, tuning=tuning))
    node.activate()
    await node.start(1)
    for name in ("orders", "others"):
        await allow(node, name=name)
    answer = await ask_for(node, ANN, DeleteAclsRequest(filters=(ALL_ACLS,)))
    assert errors(answer) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    assert len(node.log.image.acls) == 2
    assert not errors(await ask_for(node, ROOT, DeleteAclsRequest(filters=(ALL_ACLS,))))
    assert len(node.log.image.acls) == 0


@pytest.mark.bug("CVE-2026-44283")
async def test_each_topic_is_allowed_or_refused_by_itself() -> None:
    node = await started()
    await allow(node)
    answer = await ask_for(node, ANN, topics("orders", "other"))
    assert {each.name: each.error for each in answer.topics} == {
        "orders": ErrorCode.NONE,
        "other": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    assert node.log.image.topic("other") is None
    await allow(node, resource_type=ResourceType.CLUSTER, name="kafka-cluster")
    assert not errors(await ask_for(node, ANN, topics("other"))), "Create on the cluster stands for all"


async def test_a_refused_deletion_does_not_say_whether_or_how_the_topic_is_called() -> None:
    node = await started()
    held = node.log.image.topic("held")
    assert held is not None
    (by_id,) = (
        await ask_for(node, ANN, DeleteTopicsRequest(topics=(TopicRef(topic_id=held.topic_id),)))
    ).topics
    assert (by_id.name, by_id.error) == (None, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    (there,) = (await ask_for(node, ANN, DeleteTopicsRequest(topics=(TopicRef(name="held"),)))).topics
    (gone,) = (await ask_for(node, ANN, DeleteTopicsRequest(topics=(TopicRef(name="gone"),)))).topics
    assert replace(there, name=None) == replace(gone, name=None)


@pytest.mark.bug("redpanda PR 27615")
async def test_only_a_super_user_changes_the_password_of_one() -> None:
    node = await started()
    await allow(node, resource_type=ResourceType.CLUSTER, name="kafka-cluster", operation=AclOperation.ALTER)
    removal = AlterUserScramCredentialsRequest(deletions=(ScramDeletion(name="root", mechanism=1),))
    assert not errors(await ask_for(node, ANN, password("bob")))
    for request in (password("root"), removal):
        answer = await ask_for(node, ANN, request)
        assert answer.error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert answer.error_message == "Only a super user changes the password of a super user."
    assert not errors(await ask_for(node, ROOT, password("root")))


@pytest.mark.bug("CVE-2018-16886")
async def test_a_request_that_is_passed_on_is_never_the_node_s_own() -> None:
    node = await started()
    for who in (Principal("User", "ANONYMOUS"), Principal("", ""), Principal(NODE, "2")):
        answer = await ask_for(node, Asker(who, "", 2), password("bob"))
        assert answer.error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_without_an_authorizer_everybody_may_do_everything() -> None:
    node = Node()
    node.activate()
    await node.start(1)
    assert not errors(await ask_for(node, ANN, topics("orders")))


@pytest.mark.bug("CVE-2026-44283")
def test_an_envelope_has_the_request_and_its_client_and_no_other_envelope() -> None:
    request = password("bob")
    sent = encode_for(ANN, request)
    assert decode_asked(sent) == (request, ANN)
    assert decode_asked(encode_request(request)) == (request, None)
    envelope = EnvelopeRequest(
        request=SecretBytes(sent), principal_type="User", principal_name="x", client_host="h", node_id=1
    )
    assert "ppp" not in repr(envelope)
    with pytest.raises(RpcDecodeError, match="passed on once"):
        decode_asked(encode_request(envelope))


async def test_the_audit_line_names_the_request_and_the_node_that_passed_it_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = await started()
    with caplog.at_level(logging.INFO, logger=AUDIT_LOGGER):
        await ask_for(node, ANN, topics("orders"))
    (line,) = [each.getMessage() for each in caplog.records if "is Denied" in each.getMessage()]
    assert line.startswith(
        "Principal = User:ann is Denied operation = CREATE from host = 10.0.0.7 on resource = "
        "Topic:LITERAL:orders for request = CreateTopics by way of node 2 with resourceRefCount = 1"
    )


REGISTER = rpc.RegisterBrokerRequest(
    broker_id=2, cluster_id="c", incarnation_id=uuid.UUID(int=1), listeners=()
)


@dataclass(frozen=True)
class ByCertificate:
    """`quorate.raft.Caller` with the certificate of a node."""

    proven: NodeId | None
    is_closed: bool = False


@pytest.mark.parametrize(
    ("request_", "asker"),
    [
        (REGISTER, None),
        (rpc.BrokerHeartbeatRequest(broker_id=2, broker_epoch=1, current_metadata_offset=0), None),
        (rpc.AlterPartitionRequest(broker_id=2, broker_epoch=1, partitions=()), None),
        (rpc.AssignReplicasToDirsRequest(broker_id=2, broker_epoch=1, assignments=()), None),
        (rpc.AllocateProducerIdsRequest(broker_id=2, broker_epoch=1), None),
        (DeleteTopicsRequest(topics=()), ROOT),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_node_asks_in_its_own_name_alone(
    autojump_clock: trio.testing.MockClock,
    request_: ControllerRequest[ControllerResponse],
    asker: Asker | None,
) -> None:
    node = await started()
    payload = encode_request(request_) if asker is None else encode_for(asker, request_)

    async def error(proven: int | None) -> ErrorCode:
        caller = ByCertificate(None if proven is None else NodeId(proven))
        return decode_answer(request_, await node.controller.answer_encoded(payload, caller)).error

    assert await error(3) is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert await error(2) is not ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert await error(None) is not ErrorCode.CLUSTER_AUTHORIZATION_FAILED
