"""Replicas and the directories that they are in (KIP-858): who counts, who waits, who may lead."""

import uuid
from dataclasses import replace

import pytest

from quorate.broker.controller.operations.brokers import register_broker
from quorate.broker.controller.operations.directories import directory_online
from quorate.broker.controller.operations.directory_changes import MAX_ASSIGNMENTS, assign_replicas_to_dirs
from quorate.broker.controller.operations.leaderships import elect_preferred
from quorate.broker.controller.rpc import (
    AssignReplicasToDirsRequest,
    DirectoryAssignment,
    IsrMember,
)
from quorate.broker.metadata.image import ImageError
from quorate.broker.metadata.metadata_records import (
    LOST,
    MIGRATING,
    NO_LEADER,
    UNASSIGNED,
    Config,
    ConfigType,
    LeaderRecoveryState,
    Partition,
    PartitionChange,
    RegisterBroker,
    Topic,
)
from quorate.broker.metadata.record_codec import decode, encode
from quorate.error_code import ErrorCode
from tests.broker.controller.model_cluster import directory

OTHER = uuid.UUID(int=9 << 90)
UNCLEAN = Config(
    resource_type=ConfigType.TOPIC, resource_name="t", name="unclean.leader.election.enable", value="true"
)


def state_of(cluster, topic, number=0):
    state = cluster.partition(topic, number)
    return state.leader, state.isr, state.elr


def again(cluster, broker_id, *, dirs, proven=None, incarnation=1):
    """It was killed or stopped, and registers anew; it proves the data of its previous life's `proven`."""
    cluster.fence(broker_id)
    previous = cluster.epoch(broker_id)
    error, _ = cluster.register(
        broker_id, incarnation=incarnation, previous=previous, dirs=dirs, proven=proven
    )
    assert error is ErrorCode.NONE
    assert cluster.beat(broker_id) == "unfenced"


# Registration


@pytest.mark.parametrize(
    ("broker_id", "dirs", "problem"),
    [
        (1, (), "No directories"),
        (1, (MIGRATING,), "Reserved"),
        (1, (OTHER, LOST), "Reserved"),
        (1, (uuid.UUID(int=99),), "Reserved"),
        (1, (OTHER, OTHER), "Duplicate"),
        (2, (OTHER, directory(1, 0)), "Broker 1 is already registered with directory"),
    ],
)
def test_directories_that_a_broker_cannot_have_are_refused(cluster, broker_id, dirs, problem) -> None:
    cluster.start(1)
    request = replace(cluster.registration(broker_id, incarnation=5), log_dirs=dirs)
    outcome = register_broker(
        cluster.image,
        request,
        cluster_id=request.cluster_id,
        live_session=False,
        next_offset=len(cluster.log),
    )
    assert outcome.response.error is ErrorCode.INVALID_REGISTRATION
    assert problem in str(outcome.response.error_message)
    assert outcome.groups == ()


def test_a_new_replica_is_in_the_only_directory_and_not_assigned_where_there_are_several(cluster) -> None:
    cluster.start(1)
    cluster.start(2, dirs=(0, 1))
    topic = cluster.create("t", (1, 2))
    assert cluster.partition(topic).directories == (directory(1, 0), UNASSIGNED)
    assert cluster.replayed() == cluster.image


# A directory is gone


def test_a_replica_whose_directory_is_gone_is_not_eligible_though_the_rest_is_proven(cluster) -> None:
    cluster.static = {"min.insync.replicas": "2"}
    cluster.start(1, dirs=(0, 1))
    cluster.start(2, 3)
    topic = cluster.create("t", (1, 2, 3), (1, 2, 3))
    assert cluster.assign(1, (topic, 0, 0), (topic, 1, 1)) == (ErrorCode.NONE,) * 2
    for broker_id in (2, 3):
        cluster.fence(broker_id)
    again(cluster, 1, dirs=(0,), proven=(0, 1))
    assert state_of(cluster, topic, 0) == (1, (1,), (3,)), "this one it has in full"
    assert state_of(cluster, topic, 1) == (NO_LEADER, (), (3,))
    assert cluster.beat(3) == "unfenced"
    assert state_of(cluster, topic, 1) == (3, (3,), ())
    cluster.check()


def test_the_last_one_with_all_records_is_waited_for_until_its_directory_is_back(cluster) -> None:
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2))
    cluster.append(PartitionChange(topic_id=topic, partition_id=0, isr=(1,)))
    cluster.fence(1)
    cluster.register(1, incarnation=1, dirs=(5,))
    assert cluster.beat(1) == "unfenced"
    assert state_of(cluster, topic) == (NO_LEADER, (), ()), "neither an empty disk nor one that lacks records"
    assert cluster.partition(topic).eligible.last_known == (1,)
    cluster.fence(1)
    cluster.register(1, incarnation=2, dirs=(0,))
    assert cluster.beat(1) == "unfenced"
    assert state_of(cluster, topic) == (1, (1,), ())
    assert cluster.partition(topic).leader_recovery_state is LeaderRecoveryState.RECOVERING
    cluster.check()


def test_a_leaderless_partition_waits_for_its_last_eligible_replica_not_its_last_leader(cluster) -> None:
    """Who led last lacks records here, and would lead if the one that has them were only forgotten."""
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2))
    cluster.append(
        PartitionChange(
            topic_id=topic,
            partition_id=0,
            isr=(),
            leader=NO_LEADER,
            eligible_leader_replicas=(1,),
            last_known_elr=(2,),
        )
    )
    again(cluster, 1, dirs=(5,))
    assert state_of(cluster, topic) == (NO_LEADER, (), ())
    assert cluster.partition(topic).eligible.last_known == (1,)


def test_a_power_loss_with_the_disk_still_there_is_no_lost_directory(cluster) -> None:
    cluster.start(1)
    topic = cluster.create("t", (1,))
    cluster.fence(1)
    cluster.register(1, incarnation=1)
    assert cluster.beat(1) == "unfenced"
    assert state_of(cluster, topic) == (1, (1,), ()), "it leads with what it has"


def test_with_unclean_election_another_replica_leads_instead(cluster) -> None:
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2))
    cluster.append(PartitionChange(topic_id=topic, partition_id=0, isr=(1,)), UNCLEAN)
    again(cluster, 1, dirs=(5,))
    assert state_of(cluster, topic) == (2, (2,), ())


@pytest.mark.parametrize("led", [True, False])
def test_a_replica_that_nobody_has_placed_yet_was_in_the_directory_that_is_missing(cluster, led) -> None:
    cluster.start(1, dirs=(0, 1))
    topic = cluster.create("t", (1,))
    if not led:
        # Waited for already, since a power loss.
        cluster.fence(1)
        cluster.append(
            PartitionChange(topic_id=topic, partition_id=0, eligible_leader_replicas=(), last_known_elr=(1,))
        )
    again(cluster, 1, dirs=(0,), proven=(0, 1))
    assert state_of(cluster, topic) == (NO_LEADER, (), ())
    assert cluster.partition(topic).directories == (LOST,)
    assert cluster.assign(1, (topic, 0, 0)) == (ErrorCode.NONE,), "it was in the other one"
    assert state_of(cluster, topic) == (1, (1,), ())
    cluster.check()


def test_a_replica_without_a_directory_is_proven_if_all_earlier_directories_are(cluster) -> None:
    cluster.static = {"min.insync.replicas": "2"}
    cluster.start(1, dirs=(0, 1))
    cluster.start(2)
    topic = cluster.create("t", (1, 2))
    cluster.fence(2)
    again(cluster, 1, dirs=(0, 1, 2), proven=(0, 1))
    assert state_of(cluster, topic) == (1, (1,), (2,)), "one more directory takes nothing away"


def test_a_proof_that_lacks_a_directory_is_rejected(cluster) -> None:
    cluster.static = {"min.insync.replicas": "2"}
    cluster.start(1, dirs=(0, 1))
    cluster.start(2)
    topic = cluster.create("t", (1, 2))
    cluster.assign(1, (topic, 0, 1))
    cluster.fence(2)
    again(cluster, 1, dirs=(0, 1), proven=(0,))
    assert state_of(cluster, topic) == (NO_LEADER, (), (2,))


# A directory fails while its broker runs


def test_only_the_partitions_of_a_failed_directory_get_other_leaders(cluster) -> None:
    cluster.static = {"min.insync.replicas": "3"}
    cluster.start(1, dirs=(0, 1))
    cluster.start(2, 3)
    topic = cluster.create("t", (1, 2, 3), (2, 1, 3), (1, 3, 2))
    cluster.assign(1, (topic, 0, 1), (topic, 1, 1), (topic, 2, 0))
    assert cluster.beat(1, failed=(1,)) == "unfenced"
    assert state_of(cluster, topic, 0) == (2, (2, 3), ())
    assert state_of(cluster, topic, 1) == (2, (2, 3), ())
    assert state_of(cluster, topic, 2) == (1, (1, 3, 2), ())
    assert cluster.image.broker(1).log_dirs == (directory(1, 0),)
    written = len(cluster.log)
    assert cluster.beat(1, failed=(1,)) == "unfenced"
    assert len(cluster.log) == written, "told again, it is done already"
    cluster.check()
    assert cluster.replayed() == cluster.image


def test_a_sole_replica_in_a_failed_directory_has_no_leader(cluster) -> None:
    cluster.start(1, dirs=(0, 1))
    cluster.start(2)
    topic = cluster.create("t", (1,))
    cluster.assign(1, (topic, 0, 1))
    cluster.beat(1, failed=(1,))
    assert state_of(cluster, topic) == (NO_LEADER, (), ())
    assert cluster.partition(topic).eligible.last_known == (1,)


def test_a_broker_that_reports_a_failed_directory_when_it_starts_is_unfenced_after_that(cluster) -> None:
    cluster.start(2)
    cluster.register(1, dirs=(0, 1))
    topic = cluster.create("t", (2, 1))
    cluster.assign(1, (topic, 0, 1))
    assert cluster.beat(1, failed=(1,)) == "fenced"
    assert cluster.image.broker(1).log_dirs == (directory(1, 0),)
    assert cluster.beat(1, failed=(1,)) == "unfenced"


def test_a_broker_without_any_directory_left_is_not_taken_for_one_that_never_said(cluster) -> None:
    cluster.start(1)
    assert cluster.beat(1, failed=(0,)) == "unfenced"
    assert cluster.image.broker(1).log_dirs == (directory(1, 0),)


def test_a_replica_reported_in_a_directory_that_failed_leaves(cluster) -> None:
    cluster.start(1, dirs=(0, 1))
    cluster.start(2)
    topic = cluster.create("t", (1, 2))
    cluster.beat(1, failed=(1,))
    assert state_of(cluster, topic)[0] == 1, "nobody knows yet where it is"
    assert cluster.assign(1, (topic, 0, 1)) == (ErrorCode.NONE,)
    assert state_of(cluster, topic) == (2, (2,), ())
    cluster.check()


def test_the_same_incarnation_that_registers_with_fewer_leaves_what_was_in_the_others(cluster) -> None:
    cluster.start(1, dirs=(0, 1))
    cluster.start(2)
    topic = cluster.create("t", (1, 2))
    cluster.assign(1, (topic, 0, 1))
    epoch = cluster.epoch(1)
    assert cluster.register(1, dirs=(0,)) == (ErrorCode.NONE, epoch)
    assert state_of(cluster, topic) == (2, (2,), ())
    cluster.check()


# Elections and the ISR


def test_a_replica_in_an_offline_directory_cannot_join_an_isr(cluster) -> None:
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2))
    again(cluster, 2, dirs=(5,))
    assert state_of(cluster, topic) == (1, (1,), ())

    members = (IsrMember(broker_id=1), IsrMember(broker_id=2, broker_epoch=cluster.epoch(2)))
    assert cluster.alter_isr(topic, new_isr=members).error is ErrorCode.INELIGIBLE_REPLICA
    cluster.assign(2, (topic, 0, 5))
    assert cluster.alter_isr(topic, new_isr=members).error is ErrorCode.NONE
    assert state_of(cluster, topic) == (1, (1, 2), ())


def test_the_preferred_replica_does_not_lead_from_a_directory_that_is_offline(cluster) -> None:
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2))
    cluster.append(
        PartitionChange(topic_id=topic, partition_id=0, leader=2, directories=(OTHER, directory(2, 0)))
    )
    assert list(elect_preferred(cluster.image, among=cluster.image.all_partitions(), static={})) == []


# AssignReplicasToDirs


def ask_to_assign(cluster, broker_id, *items, epoch=None):
    return assign_replicas_to_dirs(
        cluster.image,
        AssignReplicasToDirsRequest(
            broker_id=broker_id,
            broker_epoch=cluster.epoch(broker_id) if epoch is None else epoch,
            assignments=tuple(
                DirectoryAssignment(topic_id=topic, partition_id=number, directory_id=where)
                for topic, number, where in items
            ),
        ),
        static=cluster.static,
    )


def test_assignments_are_refused_one_by_one(cluster) -> None:
    cluster.start(1, 2, 3, dirs=(0, 1))
    topic = cluster.create("t", (1, 2), (2, 3))
    where = directory(1, 1)
    outcome = ask_to_assign(
        cluster,
        1,
        (topic, 0, where),
        (topic, 0, where),
        (topic, 1, where),
        (topic, 7, where),
        (OTHER, 0, where),
    )
    assert [result.error for result in outcome.response.results] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    ]
    cluster.append(*outcome.records)
    assert cluster.partition(topic).directories == (where, UNASSIGNED)
    assert state_of(cluster, topic) == (1, (1, 2), ())
    assert ask_to_assign(cluster, 1, (topic, 0, where)).groups == (), "it is so already"
    (reserved,) = ask_to_assign(cluster, 1, (topic, 0, MIGRATING)).response.results
    assert reserved.error is ErrorCode.INVALID_REQUEST


def test_a_leader_that_can_not_use_its_replica_gives_it_up_where_another_member_can_lead(cluster) -> None:
    """LOST records no directory. What it has is complete: it stays eligible where too few others are."""
    cluster.static = {"min.insync.replicas": "2"}
    cluster.start(1, 2, 3)
    three = cluster.create("three", (1, 2, 3))
    two = cluster.create("two", (1, 2), (2, 1))
    one = cluster.create("one", (1,))
    asked = ((three, 0), (two, 0), (two, 1), (one, 0))
    before = [cluster.partition(*each).directories for each in asked]
    outcome = ask_to_assign(cluster, 1, *((*each, LOST) for each in asked))
    assert [result.error for result in outcome.response.results] == [ErrorCode.NONE] * 4
    cluster.append(*outcome.records)
    assert state_of(cluster, three) == (2, (2, 3), ())
    assert state_of(cluster, two, 0) == (2, (2,), (1,))
    assert state_of(cluster, two, 1) == (2, (2, 1), ()), "it doesn't lead that one"
    assert state_of(cluster, one) == (1, (1,), ()), "nobody else has it"
    assert [cluster.partition(*each).directories for each in asked] == before


def test_a_leader_keeps_partitions_that_no_other_member_of_the_isr_can_lead(cluster) -> None:
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2))
    assert ask_to_assign(cluster, 1, (topic, 0, LOST)).groups
    cluster.fence(2)
    assert state_of(cluster, topic) == (1, (1,), ())
    assert ask_to_assign(cluster, 1, (topic, 0, LOST)).groups == ()


def test_assignments_of_a_broker_that_is_not_that_one_are_refused_whole(cluster) -> None:
    cluster.start(1)
    topic = cluster.create("t", (1,))
    item = (topic, 0, directory(1, 0))
    assert ask_to_assign(cluster, 1, item, epoch=99).response.error is ErrorCode.STALE_BROKER_EPOCH
    assert ask_to_assign(cluster, 2, item, epoch=0).response.error is ErrorCode.BROKER_ID_NOT_REGISTERED
    many = ask_to_assign(cluster, 1, *[item] * (MAX_ASSIGNMENTS + 1))
    assert many.response.error is ErrorCode.INVALID_REQUEST


# Records


@pytest.mark.bug("KAFKA-16162")
def test_records_from_before_directories_say_nothing_of_them_and_stay_electable(cluster) -> None:
    old = Partition(topic_id=OTHER, partition_id=0, replicas=(1, 2), isr=(1, 2), leader=1)
    assert decode(encode(old)) == old
    cluster.append(
        RegisterBroker(broker_id=1, incarnation_id=OTHER, broker_epoch=0, fenced=False),
        Topic(name="t", topic_id=OTHER),
        old,
    )
    state = cluster.partition(OTHER)
    assert state.directory_of(1) == MIGRATING
    assert directory_online(cluster.image, state, 1)
    assert state.moved_to(2, directory(2, 0)) == (MIGRATING, directory(2, 0))
    cluster.append(PartitionChange(topic_id=OTHER, partition_id=0, directories=(LOST, MIGRATING)))
    assert not directory_online(cluster.image, cluster.partition(OTHER), 1), "whatever the broker registered"


@pytest.mark.bug("KAFKA-16583")
def test_replicas_keep_their_directories_when_a_change_says_nothing_of_them(cluster) -> None:
    cluster.start(1, 2, 3)
    topic = cluster.create("t", (1, 2))
    cluster.append(PartitionChange(topic_id=topic, partition_id=0, replicas=(3, 2, 1), adding_replicas=(3,)))
    assert cluster.partition(topic).directories == (UNASSIGNED, directory(2, 0), directory(1, 0))
    with pytest.raises(ImageError, match="3 replicas and 1 directories"):
        cluster.append(PartitionChange(topic_id=topic, partition_id=0, directories=(OTHER,)))
    assert cluster.replayed() == cluster.image
