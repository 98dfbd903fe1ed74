"""No operation on 100,000 partitions holds the event loop, by the processor's time of the loop's thread.

Every request to the controller has its scenario here; a new one without any fails.
"""

import random
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace

import pytest
import trio
import trio.testing
from gaps import within_gap
from large_metadata import PARTITIONS, TOPICS, directory, large_image, no_full_collection, topic_id
from sealing_keys import sealer_with

from quorate.broker.access.sealing import draw_key_line
from quorate.broker.controller.controller import Controller
from quorate.broker.controller.controller_settings import ControllerSettings
from quorate.broker.controller.operations.directory_changes import MAX_ASSIGNMENTS
from quorate.broker.controller.rpc import (
    MAX_SCRAM_ALTERATIONS,
    AclCreation,
    AclFilterFields,
    AllocateProducerIdsRequest,
    AlterClientQuotasRequest,
    AlterConfigsItem,
    AlterConfigsRequest,
    AlterPartitionItem,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    AlterUserScramCredentialsRequest,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    ConfigAlteration,
    ConfigOperation,
    CreateAclsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DeleteTopicsRequest,
    DirectoryAssignment,
    ElectionType,
    ElectLeadersItem,
    ElectLeadersRequest,
    FeatureUpdate,
    FewerPartitions,
    IsrMember,
    MorePartitions,
    NewTopic,
    QuotaAlteration,
    QuotaEntityPart,
    QuotaOperation,
    ReassignmentItem,
    RegisterBrokerRequest,
    ScramUpsertion,
    SealAgainRequest,
    ShrinkTopicsRequest,
    TopicRef,
    UnregisterBrokerRequest,
    UpdateFeaturesRequest,
)
from quorate.broker.metadata.acls import Acl, AclOperation, AclPermission, PatternType, ResourceType
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    AccessControlEntry,
    BrokerEndpoint,
    BrokerRegistrationChange,
    ConfigType,
    Partition,
    PartitionChange,
    Record,
    ScramMechanism,
    Topic,
    UserScramCredential,
)
from quorate.broker.metadata.supported_features import SUPPORTED_FEATURES
from quorate.broker.settings.broker_settings import ControllerTuning
from quorate.error_code import ErrorCode
from quorate.runtime.entropy import Entropy
from quorate.types import Epoch, Offset, SecretBytes

pytestmark = pytest.mark.real_time

SESSION_MS = 60_000


@pytest.fixture(autouse=True)
def _no_full_collection() -> Iterator[None]:
    with no_full_collection():
        yield


class Committed:
    def __init__(self, base_offset: Offset) -> None:
        self.base_offset = base_offset

    async def wait(self) -> "Committed":
        await trio.lowlevel.checkpoint()
        return self


class Log:
    """Commits at once; applying what is committed is another step than the controller's."""

    def __init__(self, next_offset: Offset) -> None:
        self.next_offset = next_offset
        self.written = 0

    def append_nowait(self, records: Sequence[bytes], *, epoch: int) -> Committed:
        base, self.next_offset = self.next_offset, Offset(self.next_offset + len(records))
        self.written += len(records)
        return Committed(base)

    def resign(self) -> None:
        raise AssertionError("the controller gave up")


@pytest.fixture(scope="module")
def large() -> MetadataImage:
    """Tests take copies."""
    return large_image()


class Rig:
    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.log = Log(Offset(image.offset + 1))
        settings = ControllerSettings(
            cluster_id="c",
            tuning=ControllerTuning(broker_session_timeout_ms=SESSION_MS),
            static={"min.insync.replicas": "2"},
        )
        self.items: tuple[AlterPartitionItem, ...] = ()
        self.placed: tuple[DirectoryAssignment, ...] = ()
        self.moves: tuple[ReassignmentItem, ...] = ()
        entropy = Entropy(random.Random(1))
        self.controller = Controller(
            self.log, settings=settings, entropy=entropy, sealer=sealer_with(draw_key_line(entropy))
        )

    def apply(self, *applied: Record) -> None:
        for record in applied:
            self.image.apply(record, offset=self.image.offset + 1, epoch=1)
        self.log.next_offset = Offset(self.image.offset + 1)

    def every_partition(self, change: Callable[[uuid.UUID, int], Record]) -> None:
        for number in range(TOPICS):
            for partition_id in range(PARTITIONS):
                self.apply(change(topic_id(number), partition_id))

    async def beat(self, broker_id: int, **wants: bool) -> None:
        broker = self.image.broker(broker_id)
        assert broker is not None
        request = BrokerHeartbeatRequest(
            broker_id=broker_id, broker_epoch=broker.epoch, current_metadata_offset=1 << 40, **wants
        )
        assert not (await self.controller.answer(request)).error

    async def until(self, condition: Callable[[], bool]) -> None:
        with trio.fail_after(180):
            while True:
                if condition():
                    return
                await trio.lowlevel.checkpoint()


async def fences(rig: Rig) -> None:
    await rig.beat(1, want_fence=True)
    await rig.until(lambda: rig.image.isr_count(1) == 0)
    assert rig.image.leader_count(1) == 0


async def shuts_down(rig: Rig) -> None:
    await rig.beat(1, want_shut_down=True)
    await rig.until(lambda: rig.image.isr_count(1) == 0)


async def elects(rig: Rig) -> None:
    await rig.beat(1)
    await rig.until(lambda: rig.image.leaderless_count == 0)


def nobody_leads(rig: Rig) -> None:
    for broker_id in (1, 2, 3):
        rig.apply(BrokerRegistrationChange(broker_id=broker_id, broker_epoch=broker_id, fenced=True))
    rig.every_partition(
        lambda topic, number: PartitionChange(
            topic_id=topic, partition_id=number, leader=-1, isr=(), eligible_leader_replicas=(1, 2)
        )
    )


async def registers(rig: Rig) -> None:
    # The session of the last life has run out.
    assert rig.controller.tenure is not None
    rig.controller.tenure.sessions.forget(1)
    answer = await rig.controller.answer(
        RegisterBrokerRequest(
            broker_id=1,
            cluster_id="c",
            incarnation_id=uuid.UUID(int=99),
            log_dirs=(directory(1),),
            features=SUPPORTED_FEATURES,
            listeners=(BrokerEndpoint(name="PLAINTEXT", host="h", port=1),),
        )
    )
    assert (answer.error, rig.image.isr_count(1)) == (0, 0)


async def unregisters(rig: Rig) -> None:
    answer = await rig.controller.answer(UnregisterBrokerRequest(broker_id=1))
    assert (answer.error, rig.image.broker(1)) == (0, None)


def a_leader_has_much_to_change(rig: Rig) -> None:
    rig.items = tuple(
        AlterPartitionItem(
            topic_id=key.topic_id,
            partition_id=key.partition_id,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            new_isr=(IsrMember(broker_id=1), IsrMember(broker_id=2)),
        )
        for key, state in rig.image.all_partitions()
        if state.leader == 1 and key.partition_id < 30
    )


async def alters_partitions(rig: Rig) -> None:
    answer = await rig.controller.answer(
        AlterPartitionRequest(broker_id=1, broker_epoch=1, partitions=rig.items)
    )
    assert len(answer.partitions) == 10_000
    assert not any(each.error for each in answer.partitions)


async def creates_a_large_topic(rig: Rig) -> None:
    topic = NewTopic(name="large", num_partitions=10_000, replication_factor=3)
    answer = await rig.controller.answer(CreateTopicsRequest(topics=(topic,)))
    assert not answer.topics[0].error


async def grows(rig: Rig) -> None:
    held = len(rig.image.partitions(rig.image.topic("t0").topic_id))
    topic = MorePartitions(name="t0", count=held + 10_000)
    answer = await rig.controller.answer(CreatePartitionsRequest(topics=(topic,)))
    assert not answer.topics[0].error


async def shrinks(rig: Rig) -> None:
    topic = FewerPartitions(name="large", count=1)
    answer = await rig.controller.answer(ShrinkTopicsRequest(topics=(topic,)))
    assert not answer.topics[0].error


async def deletes_a_large_topic(rig: Rig) -> None:
    answer = await rig.controller.answer(DeleteTopicsRequest(topics=(TopicRef(name="large"),)))
    assert not answer.topics[0].error


def a_broker_has_much_to_place(rig: Rig) -> None:
    rig.placed = tuple(
        DirectoryAssignment(
            topic_id=key.topic_id, partition_id=key.partition_id, directory_id=directory(1, 1)
        )
        for key, _ in rig.image.all_partitions()
        if key.partition_id < 10
    )[:MAX_ASSIGNMENTS]


async def places(rig: Rig) -> None:
    answer = await rig.controller.answer(
        AssignReplicasToDirsRequest(broker_id=1, broker_epoch=1, assignments=rig.placed)
    )
    assert len(answer.results) == MAX_ASSIGNMENTS
    assert not any(each.error for each in answer.results)


def replicas_are_to_go(rig: Rig) -> None:
    rig.moves = tuple(
        ReassignmentItem(
            topic=rig.image.topics[key.topic_id].name,
            partition_id=key.partition_id,
            replicas=state.replicas[1:],
        )
        for key, state in rig.image.all_partitions()
        if key.partition_id < 10
    )


async def reassigns(rig: Rig) -> None:
    answer = await rig.controller.answer(AlterPartitionReassignmentsRequest(partitions=rig.moves))
    assert len(answer.partitions) == 10_000
    assert not any(each.error for each in answer.partitions)
    assert rig.image.reassigning_count == 0


def moves_wait_for_a_broker(rig: Rig) -> None:
    """One that is unregistered by now."""
    rig.every_partition(
        lambda topic, number: PartitionChange(
            topic_id=topic,
            partition_id=number,
            replicas=(1, 2, 9, 3),
            removing_replicas=(3,),
            isr=(1, 2),
            leader=1,
        )
    )


async def ends_moves(rig: Rig) -> None:
    await rig.until(lambda: rig.image.reassigning_count == 0)


def a_topic_is_large(rig: Rig) -> None:
    rig.apply(
        Topic(name="large", topic_id=topic_id(77_777)),
        *(
            Partition(
                topic_id=topic_id(77_777), partition_id=each, replicas=(1, 2, 3), isr=(1, 2, 3), leader=1
            )
            for each in range(10_000)
        ),
    )


async def elects_what_is_asked_for(rig: Rig) -> None:
    items = tuple(
        ElectLeadersItem(topic=f"t{number}", partition_id=each)
        for number in range(10)
        for each in range(min(PARTITIONS, 1000))
    )
    answer = await rig.controller.answer(
        ElectLeadersRequest(election_type=ElectionType.PREFERRED, partitions=items)
    )
    assert len(answer.results) == len(items)
    assert not any(each.error for each in answer.results)


async def creates_many_topics(rig: Rig) -> None:
    topics = tuple(
        NewTopic(name=f"new.{number}", num_partitions=10, replication_factor=3) for number in range(1000)
    )
    answer = await rig.controller.answer(CreateTopicsRequest(topics=topics))
    assert not any(each.error for each in answer.topics)


async def deletes_topics(rig: Rig) -> None:
    answer = await rig.controller.answer(
        DeleteTopicsRequest(topics=tuple(TopicRef(name=f"t{number}") for number in range(TOPICS)))
    )
    assert not any(each.error for each in answer.topics)
    assert rig.image.partition_count() == 0


async def allocates(rig: Rig) -> None:
    answer = await rig.controller.answer(AllocateProducerIdsRequest(broker_id=1, broker_epoch=1))
    assert not answer.error


async def alters_settings(rig: Rig) -> None:
    alteration = ConfigAlteration(name="min.insync.replicas", operation=ConfigOperation.SET, value="1")
    item = AlterConfigsItem(resource_type=ConfigType.BROKER, resource_name="", alterations=(alteration,))
    topics = tuple(
        replace(item, resource_type=ConfigType.TOPIC, resource_name=f"t{number}") for number in range(TOPICS)
    )
    answer = await rig.controller.answer(AlterConfigsRequest(resources=(item, *topics)))
    assert not any(each.error for each in answer.resources)
    assert not rig.image.has_elrs


def others_are_eligible(rig: Rig) -> None:
    rig.every_partition(
        lambda topic, number: PartitionChange(
            topic_id=topic, partition_id=number, isr=(2,), leader=2, eligible_leader_replicas=(1,)
        )
    )


async def updates_features(rig: Rig) -> None:
    updates = (
        FeatureUpdate(name="metadata.version", level=1),
        *(FeatureUpdate(name=f"f{number}", level=0) for number in range(1000)),
    )
    answer = await rig.controller.answer(UpdateFeaturesRequest(updates=updates))
    assert answer.error is ErrorCode.INVALID_UPDATE_VERSION


async def sets_quotas(rig: Rig) -> None:
    operations = (QuotaOperation(key="producer_byte_rate", value=1.0),)
    answer = await rig.controller.answer(
        AlterClientQuotasRequest(
            alterations=tuple(
                QuotaAlteration(
                    entity=(QuotaEntityPart(type="user", name=f"u{number}"),), operations=operations
                )
                for number in range(10_000)
            )
        )
    )
    assert not any(each.error for each in answer.results)


ACLS = 10_000


async def creates_acls(rig: Rig) -> None:
    creations = tuple(
        AclCreation(
            resource_type=2,
            name=f"t{number}",
            pattern=3 + number % 2,
            principal="User:u",
            host="*",
            operation=3,
            permission=3,
        )
        for number in range(ACLS)
    )
    answer = await rig.controller.answer(CreateAclsRequest(creations=creations))
    assert not any(each.error for each in answer.results)
    assert len(answer.results) == ACLS


def has_acls(rig: Rig) -> None:
    for number in range(ACLS):
        acl = Acl(
            resource_type=ResourceType.TOPIC,
            name=f"t{number}",
            pattern=PatternType.LITERAL,
            principal="User:u",
            host="*",
            operation=AclOperation.READ,
            permission=AclPermission.ALLOW,
        )
        rig.apply(AccessControlEntry(id=uuid.UUID(int=number), acl=acl))


async def deletes_acls(rig: Rig) -> None:
    everything = AclFilterFields(resource_type=1, pattern=1, operation=1, permission=1)
    none = AclFilterFields(resource_type=1, pattern=1, operation=13, permission=1)
    answer = await rig.controller.answer(DeleteAclsRequest(filters=(everything, *[none] * 50)))
    assert [len(each.acls) for each in answer.results] == [ACLS, *[0] * 50]


async def sets_passwords(rig: Rig) -> None:
    upsertions = tuple(
        ScramUpsertion(
            name=f"u{number}",
            mechanism=2,
            iterations=4096,
            salt=SecretBytes(bytes(1024)),
            salted_password=SecretBytes(bytes(64)),
        )
        for number in range(MAX_SCRAM_ALTERATIONS)
    )
    answer = await rig.controller.answer(AlterUserScramCredentialsRequest(upsertions=upsertions))
    assert not any(each.error for each in answer.results)


USERS = 5000


def has_users(rig: Rig) -> None:
    for number in range(USERS):
        rig.apply(
            UserScramCredential(
                name=f"u{number}",
                mechanism=ScramMechanism.SCRAM_SHA_512,
                salt=SecretBytes(bytes(24)),
                stored_key=SecretBytes(bytes(64)),
                server_key=SecretBytes(bytes(64)),
                iterations=4096,
            )
        )


async def seals_again(rig: Rig) -> None:
    answer = await rig.controller.answer(SealAgainRequest())
    assert (answer.error, answer.sealed, answer.kept, answer.unopened) == (ErrorCode.NONE, USERS, 0, 0)


async def nothing_more(rig: Rig) -> None:
    await rig.until(lambda: rig.image.isr_count(1) == 0)


def one_is_fenced(rig: Rig) -> None:
    rig.apply(BrokerRegistrationChange(broker_id=1, broker_epoch=1, fenced=True))


async def rebalances(rig: Rig) -> None:
    active = rig.controller.tenure
    assert active is not None
    chore = active.chores.prefer(most=1000, brokers={1, 2, 3})
    rig.controller.performer.begin_chores(active)
    await chore.finished.wait()
    assert rig.image.imbalanced_count == TOPICS * PARTITIONS - 1000


def nobody_prefers(rig: Rig) -> None:
    def moved(topic: uuid.UUID, number: int) -> Record:
        return PartitionChange(topic_id=topic, partition_id=number, leader=(1, 2, 3)[(number + 1) % 3])

    rig.every_partition(moved)


def as_it_is(rig: Rig) -> None:
    pass


SCENARIOS: dict[str, tuple[type | None, Callable[[Rig], None], Callable[[Rig], Awaitable[None]]]] = {
    "a broker is fenced": (BrokerHeartbeatRequest, as_it_is, fences),
    "a broker shuts down": (BrokerHeartbeatRequest, as_it_is, shuts_down),
    "a broker is unfenced that leads everything": (BrokerHeartbeatRequest, nobody_leads, elects),
    "a broker is registered anew": (RegisterBrokerRequest, as_it_is, registers),
    "a broker is unregistered": (UnregisterBrokerRequest, as_it_is, unregisters),
    "a leader changes 10,000 ISRs at once": (
        AlterPartitionRequest,
        a_leader_has_much_to_change,
        alters_partitions,
    ),
    "a broker places as many replicas at once as it may": (
        AssignReplicasToDirsRequest,
        a_broker_has_much_to_place,
        places,
    ),
    "replicas of 10,000 partitions are removed": (
        AlterPartitionReassignmentsRequest,
        replicas_are_to_go,
        reassigns,
    ),
    "a controller finds reassignments that need to wait no longer": (
        None,
        moves_wait_for_a_broker,
        ends_moves,
    ),
    "a thousand topics are created": (CreateTopicsRequest, as_it_is, creates_many_topics),
    "a topic of 10,000 partitions is created": (CreateTopicsRequest, as_it_is, creates_a_large_topic),
    "a topic of 10,000 partitions is deleted": (
        DeleteTopicsRequest,
        a_topic_is_large,
        deletes_a_large_topic,
    ),
    "a topic gets 10,000 more partitions": (CreatePartitionsRequest, as_it_is, grows),
    "a topic loses 9,999 partitions": (ShrinkTopicsRequest, a_topic_is_large, shrinks),
    "every topic is deleted": (DeleteTopicsRequest, as_it_is, deletes_topics),
    "thousands of preferred leaders are asked for": (
        ElectLeadersRequest,
        nobody_prefers,
        elects_what_is_asked_for,
    ),
    "producer ids are given out": (AllocateProducerIdsRequest, as_it_is, allocates),
    "settings empty every ELR": (AlterConfigsRequest, others_are_eligible, alters_settings),
    "as many features as a request takes are updated": (UpdateFeaturesRequest, as_it_is, updates_features),
    "as many quotas as a request takes are set": (AlterClientQuotasRequest, as_it_is, sets_quotas),
    "as many ACLs as a request takes are created": (CreateAclsRequest, as_it_is, creates_acls),
    "as many ACLs as a request may concern are deleted": (DeleteAclsRequest, has_acls, deletes_acls),
    "as many passwords as a request takes are set": (
        AlterUserScramCredentialsRequest,
        as_it_is,
        sets_passwords,
    ),
    "the passwords of thousands of users are sealed by another key": (
        SealAgainRequest,
        has_users,
        seals_again,
    ),
    "a controller finds a fencing half done": (None, one_is_fenced, nothing_more),
    "leaders go back to their first replicas": (None, nobody_prefers, rebalances),
}


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_no_operation_of_the_controller_holds_the_loop(scenario: str, large, nursery) -> None:
    _, prepare, operate = SCENARIOS[scenario]
    rig = Rig(large.copy())
    prepare(rig)
    nursery.start_soon(rig.controller.run)
    await trio.testing.wait_all_tasks_blocked()

    async def operation() -> None:
        rig.controller.activate(rig.image, epoch=Epoch(1))
        await operate(rig)

    await within_gap(operation(), what=scenario)
    nursery.cancel_scope.cancel()


async def test_the_limit_of_directory_assignments_is_the_requests_and_not_a_portions(large, nursery) -> None:
    rig = Rig(large.copy())
    a_broker_has_much_to_place(rig)
    nursery.start_soon(rig.controller.run)
    await trio.testing.wait_all_tasks_blocked()
    rig.controller.activate(rig.image, epoch=Epoch(1))
    written = rig.log.written
    once = rig.placed[0]
    for placed, error in (
        ((*rig.placed, once), ErrorCode.INVALID_REQUEST),
        ((*rig.placed[:-1], once), ErrorCode.NONE),
    ):
        answer = await rig.controller.answer(
            AssignReplicasToDirsRequest(broker_id=1, broker_epoch=1, assignments=placed)
        )
        assert answer.error is error
        if error:
            assert "2251 assignments, more than the 2250" in (answer.error_message or "")
            assert rig.log.written == written
    # The first portion has had it.
    assert [each.error for each in answer.results] == [
        *[ErrorCode.NONE] * (MAX_ASSIGNMENTS - 1),
        ErrorCode.INVALID_REQUEST,
    ]
    nursery.cancel_scope.cancel()


def test_every_request_to_the_controller_has_a_scenario(large) -> None:
    assert {asked for asked, _, _ in SCENARIOS.values()} - {None} == set(Rig(large).controller.operations)
