"""What the controller does about replicas on a disk that failed, of a broker that runs on."""

import pytest

from quorate.broker.controller.brokers import heartbeat
from quorate.broker.controller.records import NO_LEADER, Config, ConfigType, PartitionChange
from quorate.broker.controller.rpc import BrokerHeartbeatRequest, OfflineReplica
from quorate.broker.controller.rpc_codec import decode_request, encode_request


def beat(cluster, broker_id, *offline):
    """The records that came of it."""
    request = BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=cluster.epoch(broker_id),
        current_metadata_offset=len(cluster.log),
        offline_replicas=tuple(
            OfflineReplica(topic_id=topic, partition_id=number) for topic, number in offline
        ),
    )
    assert decode_request(encode_request(request)) == request
    outcome = heartbeat(
        cluster.image, request, shutdown_offset=None, lowest_active_offset=None, static=cluster.static
    )
    assert not outcome.response.is_fenced
    cluster.do(outcome)
    return outcome.records


def state_of(cluster, topic, number=0):
    state = cluster.partition(topic, number)
    return state.leader, state.isr, state.elr


def test_what_it_led_another_member_leads_and_it_is_not_eligible_any_more(cluster) -> None:
    cluster.static = {"min.insync.replicas": "3"}
    cluster.start(1, 2, 3)
    topic = cluster.create("t", (1, 2, 3), (2, 1, 3), (1, 3, 2))
    assert len(beat(cluster, 1, (topic, 0), (topic, 1))) == 2
    assert state_of(cluster, topic, 0) == (2, (2, 3), ())
    assert state_of(cluster, topic, 1) == (2, (2, 3), ())
    assert state_of(cluster, topic, 2) == (1, (1, 3, 2), ()), "it runs on with what is sound"
    assert beat(cluster, 1, (topic, 0), (topic, 1)) == (), "told again, it is done already"
    assert not cluster.image.broker(1).fenced
    assert cluster.replayed() == cluster.image


def test_what_nobody_else_can_lead_stays_as_it_is(cluster) -> None:
    cluster.start(1, 2)
    topic, sole = cluster.create("t", (1, 2), (1, 2)), cluster.create("sole", (1,))
    cluster.append(PartitionChange(topic_id=topic, partition_id=0, isr=(1,)))
    assert len(beat(cluster, 1, (sole, 0), (topic, 0), (topic, 1))) == 1
    assert state_of(cluster, sole) == (1, (1,), ())
    assert state_of(cluster, topic, 0) == (1, (1,), ()), "the other lacks records"
    assert state_of(cluster, topic, 1) == (2, (2,), ())


def test_where_the_topic_allows_loss_a_replica_out_of_sync_leads(cluster) -> None:
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2))
    cluster.append(
        PartitionChange(topic_id=topic, partition_id=0, isr=(1,)),
        Config(
            resource_type=ConfigType.TOPIC,
            resource_name="t",
            name="unclean.leader.election.enable",
            value="true",
        ),
    )
    beat(cluster, 1, (topic, 0))
    assert state_of(cluster, topic)[:2] == (2, (2,))


def test_without_a_leader_the_last_that_is_eligible_stays_so(cluster) -> None:
    """Who led last but lacks records must not lead because a disk that may come back has failed."""
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
    assert beat(cluster, 1, (topic, 0)) == ()
    assert state_of(cluster, topic) == (NO_LEADER, (), (1,))


@pytest.mark.parametrize("known", [True, False])
def test_a_replica_that_does_not_count_or_is_not_there_changes_nothing(known, cluster) -> None:
    cluster.start(1, 2, 3)
    topic = cluster.create("t", (2, 3))
    assert beat(cluster, 1, (topic, 0 if known else 7)) == ()


def test_one_that_is_named_twice_leaves_once(cluster) -> None:
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2))
    assert len(beat(cluster, 1, (topic, 0), (topic, 0))) == 1
