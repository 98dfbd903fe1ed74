"""Published bugs of other controllers, where no test of one operation shows quorate without them."""

import typing
import uuid
from dataclasses import replace

import pytest

from quorate.broker.controller.operations.brokers import register_broker
from quorate.broker.controller.operations.leaderships import elect_preferred
from quorate.broker.controller.rpc import (
    MorePartitions,
    NewTopic,
)
from quorate.broker.metadata.acls import Acl, AclOperation, AclPermission, PatternType, ResourceType
from quorate.broker.metadata.configs import StaticConfig, dynamic_values, effective, refused_settings
from quorate.broker.metadata.delta import apply_records
from quorate.broker.metadata.metadata_records import (
    NO_LEADER,
    AbortTransaction,
    AccessControlEntry,
    BeginTransaction,
    BrokerEndpoint,
    BrokerRegistrationChange,
    ChangeReason,
    ClientQuota,
    Config,
    ConfigType,
    EndTransaction,
    FeatureLevel,
    FeatureRange,
    LeaderRecoveryState,
    NoOp,
    Partition,
    PartitionChange,
    ProducerIds,
    QuotaEntity,
    Record,
    RegisterBroker,
    RemoveAccessControlEntry,
    RemoveTopic,
    RemoveUserScramCredential,
    ScramMechanism,
    ShrinkTopic,
    Topic,
    UnregisterBroker,
    UserScramCredential,
)
from quorate.broker.metadata.states import ConfigResource
from quorate.error_code import ErrorCode
from quorate.types import SecretBytes
from tests.broker.controller.images import from_snapshot
from tests.broker.controller.model_cluster import CLUSTER

TOPIC, BROKER = ConfigType.TOPIC, ConfigType.BROKER
UNCLEAN = "unclean.leader.election.enable"


def grow(cluster, topic: uuid.UUID, *isr: int, partition: int = 0) -> None:
    record = PartitionChange(
        topic_id=topic, partition_id=partition, isr=isr, reason=ChangeReason.REPLICA_CAUGHT_UP
    )
    cluster.write(((record,),))
    cluster.work()


def preferred(cluster) -> list[PartitionChange]:
    changes = elect_preferred(cluster.image, among=cluster.image.all_partitions(), static=cluster.static)
    return [record for group in changes for record in group]


# Topics and reassignments


@pytest.mark.bug("KAFKA-9038")
def test_topics_get_partitions_while_a_reassignment_is_open(cluster) -> None:
    """Those of the topic that moves have as many replicas as it will have, and not as it has meanwhile."""
    cluster.start(1, 2, 3, 4)
    moving, other = cluster.create("t", (1, 2)), cluster.create("u", (1, 2))
    assert cluster.reassign("t", (3, 4)).error is ErrorCode.NONE
    assert cluster.partition(moving).replicas == (3, 4, 1, 2)
    made = cluster.extend(MorePartitions(name="u", count=2), MorePartitions(name="t", count=2))
    assert [each.error for each in made] == [ErrorCode.NONE, ErrorCode.NONE]
    assert len(cluster.partition(other, 1).replicas) == 2
    assert len(cluster.partition(moving, 1).replicas) == 2
    assert cluster.partition(moving).is_reassigning


@pytest.mark.bug("KAFKA-10149")
def test_leaders_go_back_to_their_first_replicas_while_a_reassignment_is_open(cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.create("moves", (1, 2))
    others = cluster.create("t", *[(2, 1)] * 20)
    cluster.fence(2)
    cluster.beat(2)
    assert cluster.reassign("moves", (3, 1)).error is ErrorCode.NONE
    for number in range(20):
        grow(cluster, others, 1, 2, partition=number)
    cluster.chores.prefer(most=1000, brokers=(2,))
    cluster.work()
    assert {state.leader for state in cluster.image.partitions(others)} == {2}
    assert cluster.image.reassigning_count == 1


@pytest.mark.bug("redpanda PR 6798")
@pytest.mark.parametrize("in_sync", [(1, 2, 3), (1, 2, 3, 4)])
def test_a_cancelled_move_does_not_wait_for_a_dead_broker_that_was_on_its_way_out(cluster, in_sync) -> None:
    cluster.start(1, 2, 3, 4)
    topic = cluster.create("t", (1, 2, 3))
    cluster.fence(2)
    cluster.reassign("t", (4, 2, 3))
    grow(cluster, topic, *(each for each in in_sync if each != 2))
    cluster.fence(1)
    answer = cluster.reassign("t", None).error
    state = cluster.partition(topic)
    assert not state.is_reassigning
    assert (answer, set(state.replicas)) in [
        (ErrorCode.NONE, {1, 2, 3}),
        (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, {2, 3, 4}),
    ]
    assert state.leader in (3, 4)
    cluster.check()


@pytest.mark.bug("KAFKA-13490")
def test_a_topic_that_is_refused_has_its_own_error_and_the_others_are_made(cluster) -> None:
    cluster.start(1)
    cluster.create("there", (1,))
    results = cluster.make(NewTopic(name="t1"), NewTopic(name="there"), NewTopic(name="t3"))
    assert [(each.name, each.error) for each in results] == [
        ("t1", ErrorCode.NONE),
        ("there", ErrorCode.TOPIC_ALREADY_EXISTS),
        ("t3", ErrorCode.NONE),
    ]
    assert "there" in str(results[1].error_message)
    assert {"t1", "t3"} < set(cluster.image.topic_names())


@pytest.mark.bug("KAFKA-13841")
def test_a_new_controller_places_on_fenced_brokers_that_it_has_never_heard_of(cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.fence(3)
    successor = type(cluster)()
    successor.append(*cluster.log)
    successor.repair()
    [made] = successor.make(NewTopic(name="t"), num_partitions=1, replication_factor=3)
    assert made.error is ErrorCode.NONE, made.error_message
    state = successor.partition(made.topic_id)
    assert (sorted(state.replicas), sorted(state.isr)) == ([1, 2, 3], [1, 2])


@pytest.mark.bug("KAFKA-14337")
def test_the_name_of_a_deleted_topic_stands_in_no_ones_way(cluster) -> None:
    cluster.start(1)
    cluster.create("a.b", (1,))
    assert [each.error for each in cluster.make(NewTopic(name="a_b"))] == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert cluster.delete("a.b")[0].error is ErrorCode.NONE
    assert [each.error for each in cluster.make(NewTopic(name="a_b"))] == [ErrorCode.NONE]


@pytest.mark.bug("KAFKA-14170")
def test_a_topic_is_deleted_while_another_has_replicas_on_a_dead_broker(cluster) -> None:
    cluster.start(1, 2)
    cluster.create("t", (1,))
    other = cluster.create("u", (1, 2))
    cluster.fence(2)
    before = cluster.partition(other)
    assert cluster.delete("t")[0].error is ErrorCode.NONE
    assert list(cluster.image.topic_names()) == ["u"]
    assert cluster.partition(other) == before


@pytest.mark.bug("KAFKA-12897")
@pytest.mark.parametrize(("brokers", "partitions"), [((1,), 2), ((1,), 50), ((1, 2, 3), 50)])
def test_a_placement_ends_with_few_brokers_and_many_partitions(cluster, brokers, partitions) -> None:
    cluster.start(*brokers, 9)
    cluster.fence(9)
    [made] = cluster.make(NewTopic(name="t"), num_partitions=partitions, replication_factor=1)
    assert made.error is ErrorCode.NONE
    assert {state.replicas for state in cluster.image.partitions(made.topic_id)} <= {
        (each,) for each in brokers
    }


@pytest.mark.bug("strimzi issue 11477")
def test_brokers_that_are_gone_and_registered_get_replicas_only_where_there_are_no_others(cluster) -> None:
    """As Kafka: of a factor above the number of those that live, fenced ones make up the rest."""
    cluster.start(1, 2, 3, 4, 5, 6)
    for gone in (4, 5, 6):
        cluster.fence(gone)
    wide, narrow = cluster.make(
        NewTopic(name="wide", replication_factor=6),
        NewTopic(name="narrow", num_partitions=9, replication_factor=3),
    )
    state = cluster.partition(wide.topic_id)
    assert (set(state.replicas), set(state.isr)) == ({1, 2, 3, 4, 5, 6}, {1, 2, 3})
    assert {each for held in cluster.image.partitions(narrow.topic_id) for each in held.replicas} == {1, 2, 3}
    assert cluster.unregister(6) is ErrorCode.NONE
    [refused] = cluster.make(NewTopic(name="again", replication_factor=6))
    assert refused.error is ErrorCode.INVALID_REPLICATION_FACTOR


# Brokers


@pytest.mark.bug("KAFKA-17305")
@pytest.mark.parametrize(
    ("offered", "says"),
    [
        ((FeatureRange(name="new", min_level=0, max_level=0),), "it supports levels 0 to 0"),
        ((FeatureRange(name="new", min_level=2, max_level=3),), "it supports levels 2 to 3"),
        ((), "it does not name the feature"),
        ((FeatureRange(name="new", min_level=0, max_level=2),), None),
    ],
)
def test_a_broker_that_lacks_the_level_of_a_feature_cannot_register(cluster, offered, says) -> None:
    cluster.append(FeatureLevel(name="new", level=1), FeatureLevel(name="off", level=1))
    cluster.append(FeatureLevel(name="off", level=0))
    outcome = register_broker(
        cluster.image,
        replace(cluster.registration(1), features=offered),
        cluster_id=CLUSTER,
        live_session=False,
        next_offset=len(cluster.log),
    )
    if says is None:
        assert outcome.response.error is ErrorCode.NONE
        return
    assert (outcome.response.error, outcome.groups) == (ErrorCode.UNSUPPORTED_VERSION, ())
    assert "level 1 of feature new" in str(outcome.response.error_message)
    assert says in str(outcome.response.error_message)


@pytest.mark.bug("KAFKA-18635")
def test_a_broker_that_is_back_from_an_orderly_stop_gets_leaderships(cluster) -> None:
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2))
    assert cluster.beat(2, stop=True) == "shut down"
    cluster.register(2, incarnation=1, previous=cluster.epoch(2))
    assert cluster.beat(2) == "unfenced"
    grow(cluster, topic, 1, 2)
    assert not cluster.image.broker(2).in_controlled_shutdown
    assert cluster.beat(1, stop=True) == "unfenced"
    assert cluster.partition(topic).leader == 2
    assert cluster.beat(1, stop=True, goal=0, lowest=0) == "shut down"


@pytest.mark.bug("KAFKA-19522")
def test_the_last_known_leader_is_not_elected_while_it_is_fenced(cluster) -> None:
    cluster.start(1, 2)
    topic = cluster.create("t", (1,))
    cluster.register(1, incarnation=1)
    assert cluster.partition(topic).eligible.last_known == (1,)
    assert cluster.image.broker(1).fenced
    cluster.chores.elect(ChangeReason.CONFIG_CHANGED)
    cluster.work()
    assert cluster.partition(topic).leader == NO_LEADER
    assert cluster.beat(1) == "unfenced"
    assert cluster.partition(topic).leader == 1


@pytest.mark.bug("KAFKA-18649")
def test_only_partitions_with_an_elr_change_when_min_isr_is_lowered(cluster) -> None:
    cluster.static = {"min.insync.replicas": "2"}
    cluster.start(1, 2, 3)
    topic = cluster.create("t", *[(1, 2)] * 40, *[(3, 2)] * 3)
    cluster.fence(3)
    with_elr = [each for each, state in enumerate(cluster.image.partitions(topic)) if state.elr]
    assert with_elr == [40, 41, 42]
    at = len(cluster.log)
    cluster.configure("min.insync.replicas", "1")
    changed = [record.partition_id for record in cluster.log[at:] if isinstance(record, PartitionChange)]
    assert changed == with_elr
    assert cluster.replayed() == cluster.image
    cluster.check()


@pytest.mark.bug("KAFKA-15586")
def test_a_broker_with_the_id_0_is_a_broker(cluster) -> None:
    """It leads, is eligible, is the last known leader, and is elected as that."""
    cluster.static = {"min.insync.replicas": "2"}
    cluster.start(0, 1)
    topic = cluster.create("t", (0, 1))
    assert cluster.partition(topic).leader == 0
    cluster.fence(1)
    cluster.fence(0)
    state = cluster.partition(topic)
    assert (state.leader, 0 in state.elr) == (NO_LEADER, True)
    assert cluster.beat(0) == "unfenced"
    assert cluster.partition(topic).leader == 0
    cluster.beat(1)
    alone = cluster.create("alone", (0,))
    cluster.register(0, incarnation=1)
    assert cluster.partition(alone).eligible.last_known == (0,)
    cluster.beat(0)
    state = cluster.partition(alone)
    assert (state.leader, state.leader_recovery_state) == (0, LeaderRecoveryState.RECOVERING)
    cluster.check()


@pytest.mark.bug("KAFKA-9866")
def test_a_first_replica_that_is_out_of_the_isr_is_not_tried_again_and_again(cluster) -> None:
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2))
    cluster.fence(1)
    cluster.beat(1)
    at = len(cluster.log)
    for _ in range(10):
        cluster.chores.prefer(most=1000, brokers=(1,))
        cluster.work()
    assert preferred(cluster) == []
    assert len(cluster.log) == at
    grow(cluster, topic, 2, 1)
    cluster.chores.prefer(most=1000, brokers=(1,))
    cluster.work()
    assert cluster.partition(topic).leader == 1


@pytest.mark.bug("KAFKA-12670")
@pytest.mark.parametrize("place", ["topic", "broker", "all brokers", "file"])
def test_unclean_elections_may_be_allowed_in_any_place_after_the_leader_is_gone(cluster, place: str) -> None:
    """Not where a narrower place forbids them. `file`: that of the controller that becomes active."""
    cluster.static = StaticConfig({}, node_id=9)
    cluster.start(1, 2)
    topic, strict = cluster.create("t", (1, 2)), cluster.create("strict", (1, 2))
    cluster.configure(UNCLEAN, "false", of=TOPIC, resource="strict")
    for each in (2, 1):
        cluster.fence(each)
    cluster.beat(2)
    assert cluster.partition(topic).leader == NO_LEADER
    match place:
        case "topic":
            cluster.configure(UNCLEAN, "true")
        case "broker":
            cluster.configure(UNCLEAN, "true", of=BROKER, resource="9")
        case "all brokers":
            cluster.configure(UNCLEAN, "true", of=BROKER, resource="")
        case _:
            cluster.static = StaticConfig({UNCLEAN: "true"}, node_id=9)
            cluster.repair()
    assert cluster.partition(topic).leader == 2
    assert cluster.partition(strict).leader == NO_LEADER


# Metadata

ID = uuid.UUID(int=77)
ACL = Acl(
    resource_type=ResourceType.TOPIC,
    name="t",
    pattern=PatternType.PREFIXED,
    principal="User:ann",
    host="*",
    operation=AclOperation.READ,
    permission=AclPermission.DENY,
)
PASSWORD = UserScramCredential(
    name="u",
    mechanism=ScramMechanism.SCRAM_SHA_512,
    salt=SecretBytes(b"salt"),
    stored_key=SecretBytes(b"stored"),
    server_key=SecretBytes(b"server"),
    iterations=4096,
)
KINDS: dict[type[Record], tuple[Record, ...]] = {
    RegisterBroker: (
        RegisterBroker(
            broker_id=9,
            incarnation_id=ID,
            broker_epoch=0,
            listeners=(BrokerEndpoint(name="L", host="h", port=1),),
            rack="r",
            features=(FeatureRange(name="f", min_level=0, max_level=1),),
            log_dirs=(ID,),
        ),
    ),
    BrokerRegistrationChange: (
        BrokerRegistrationChange(
            broker_id=1, broker_epoch=0, fenced=True, log_dirs=(ID,), reason=ChangeReason.BROKER_GONE
        ),
    ),
    UnregisterBroker: (UnregisterBroker(broker_id=1, broker_epoch=0),),
    Topic: (Topic(name="new", topic_id=ID),),
    Partition: (
        Topic(name="new", topic_id=ID),
        Partition(
            topic_id=ID,
            partition_id=0,
            replicas=(1, 2, 3),
            isr=(),
            removing_replicas=(1,),
            adding_replicas=(3,),
            leader_recovery_state=LeaderRecoveryState.RECOVERING,
            leader_epoch=4,  # type: ignore[arg-type]
            partition_epoch=7,
            eligible_leader_replicas=(2,),
            last_known_elr=(1,),
            directories=(ID, ID, ID),
        ),
    ),
    PartitionChange: (PartitionChange(topic_id=uuid.UUID(int=1), partition_id=0, isr=(1,), leader=1),),
    ShrinkTopic: (ShrinkTopic(topic_id=uuid.UUID(int=1), num_partitions=1),),
    RemoveTopic: (RemoveTopic(topic_id=uuid.UUID(int=1)),),
    Config: (Config(resource_type=TOPIC, resource_name="t", name="retention.ms", value="7"),),
    FeatureLevel: (FeatureLevel(name="new", level=3),),
    ProducerIds: (ProducerIds(broker_id=1, broker_epoch=0, next_producer_id=7),),
    ClientQuota: (ClientQuota(entity=QuotaEntity(user="u"), key="producer_byte_rate", value=1.0),),
    AccessControlEntry: (AccessControlEntry(id=ID, acl=ACL),),
    RemoveAccessControlEntry: (
        AccessControlEntry(id=ID, acl=ACL),
        RemoveAccessControlEntry(id=ID),
        AccessControlEntry(id=uuid.UUID(int=78), acl=ACL),
    ),
    UserScramCredential: (PASSWORD,),
    RemoveUserScramCredential: (
        PASSWORD,
        replace(PASSWORD, name="v"),
        RemoveUserScramCredential(name="v", mechanism=PASSWORD.mechanism),
    ),
}
STATELESS = {NoOp, BeginTransaction, EndTransaction, AbortTransaction}


@pytest.mark.bug("KAFKA-15860")
def test_every_kind_of_record_is_in_the_image_and_in_its_snapshot(cluster) -> None:
    assert KINDS.keys() | STATELESS == set(typing.get_args(Record))
    cluster.start(1, 2)
    cluster.create("t", (1, 2), (2, 1))
    for kind, records in KINDS.items():
        image = cluster.image.copy()
        for record in records:
            image.apply(record, offset=image.offset + 1, epoch=1)
        assert image != cluster.image, f"{kind.__name__} changes nothing"
        assert from_snapshot(image) == image, f"{kind.__name__} is lost in a snapshot"


@pytest.mark.bug("KAFKA-18979")
def test_a_level_of_the_quorums_feature_in_the_metadata_counts_for_nothing(cluster) -> None:
    cluster.append(FeatureLevel(name="kraft.version", level=1), FeatureLevel(name="other", level=2))
    assert cluster.image.features == {"other": 2}
    assert [each for each in cluster.image.records() if isinstance(each, FeatureLevel)] == [
        FeatureLevel(name="other", level=2)
    ]


@pytest.mark.bug("AutoMQ issue 3556")
def test_settings_of_a_topic_that_goes_within_a_delta_are_not_its_namesakes(cluster) -> None:
    cluster.start(1)
    cluster.create("t", (1,))
    old = cluster.image.topic("t").topic_id
    resource = ConfigResource(TOPIC, "t")
    delta = apply_records(
        cluster.image,
        [
            Config(resource_type=TOPIC, resource_name="t", name="retention.ms", value="1"),
            RemoveTopic(topic_id=old),
            Topic(name="t", topic_id=ID),
            Partition(topic_id=ID, partition_id=0, replicas=(1,), isr=(1,), leader=1),
            Config(resource_type=TOPIC, resource_name="t", name="segment.ms", value="2"),
        ],
        base_offset=len(cluster.log),
        epoch=1,
    )
    assert cluster.image.configs(resource) == {"segment.ms": "2"}
    assert resource in delta.configs


@pytest.mark.bug("KAFKA-17584")
def test_an_unrelated_dynamic_change_leaves_what_a_synonym_in_the_file_says(cluster) -> None:
    cluster.start(1)
    cluster.create("t", (1,))
    static = StaticConfig({"log.retention.minutes": "60"}, node_id=1)
    cluster.configure("message.max.bytes", "1000", of=BROKER, resource="1")
    cluster.configure("log.segment.bytes", "2000000", of=BROKER, resource="")
    held = effective(cluster.image, "t", static=static)
    assert (held.retention_ms, held.max_message_bytes) == (3_600_000, 1000)


@pytest.mark.bug("KAFKA-10803")
def test_a_stored_setting_that_this_version_refuses_is_ignored_alone(cluster) -> None:
    """Another version may have stored it."""
    cluster.start(1)
    cluster.create("t", (1,))
    static = StaticConfig({}, node_id=1)
    for of, resource, name, value in (
        (TOPIC, "t", "retention.ms", "a while"),
        (TOPIC, "t", "segment.ms", "5"),
        (TOPIC, "t", "no.such.key", "1"),
        (BROKER, "", "min.insync.replicas", "many"),
        (BROKER, "", "max.connections", "-7"),
        (BROKER, "1", "log.retention.ms", "77"),
    ):
        cluster.append(Config(resource_type=of, resource_name=resource, name=name, value=value))
    held = effective(cluster.image, "t", static=static)
    assert (held.retention_ms, held.segment_ms, held.min_insync_replicas) == (77, 5, 1)
    assert dynamic_values(cluster.image, static) == {"log.retention.ms": "77"}
    refused = dict(refused_settings(cluster.image, ConfigResource(TOPIC, "t")))
    assert sorted(refused) == ["no.such.key", "retention.ms"]
    assert "must be a whole number" in refused["retention.ms"]
    cluster.check()


@pytest.mark.bug("KAFKA-19642")
def test_a_value_in_effect_is_the_one_described_from_the_log_and_from_a_snapshot(cluster) -> None:
    cluster.start(1)
    cluster.create("t", (1,))
    static = StaticConfig({"log.retention.ms": "1"}, node_id=1)
    cluster.configure("log.retention.ms", "2", of=BROKER, resource="")
    cluster.configure("log.retention.ms", "3", of=BROKER, resource="1")
    cluster.configure("message.max.bytes", "1000", of=BROKER, resource="1")
    cluster.configure("message.max.bytes", None, of=BROKER, resource="1")
    for image in (cluster.image, cluster.replayed(), from_snapshot(cluster.image)):
        assert effective(image, "t", static=static).retention_ms == 3
        assert dynamic_values(image, static) == {"log.retention.ms": "3"}
    cluster.configure("log.retention.ms", None, of=BROKER, resource="1")
    assert effective(cluster.image, "t", static=static).retention_ms == 2
