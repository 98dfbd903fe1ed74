import pytest

from quorate.broker.controller.liveness.sessions import Sessions
from quorate.broker.controller.operations.brokers import (
    heartbeat,
    register_broker,
    unregister_broker,
)
from quorate.broker.controller.operations.leaderships import settle_elrs
from quorate.broker.controller.rpc import BrokerHeartbeatRequest, UnregisterBrokerRequest
from quorate.broker.metadata.metadata_records import (
    NO_LEADER,
    BrokerRegistrationChange,
    ChangeReason,
    Config,
    ConfigType,
    LeaderRecoveryState,
    PartitionChange,
    RegisterBroker,
)
from quorate.error_code import ErrorCode

UNCLEAN = Config(
    resource_type=ConfigType.TOPIC, resource_name="t", name="unclean.leader.election.enable", value="true"
)


def test_a_new_broker_starts_fenced_with_the_offset_of_its_record_as_epoch(cluster) -> None:
    cluster.start(1)
    at = len(cluster.log)
    assert cluster.register(2) == (ErrorCode.NONE, at)
    assert isinstance(cluster.log[at], RegisterBroker)
    assert cluster.image.broker(2).fenced


@pytest.mark.bug("KAFKA-16952")
def test_the_same_process_keeps_its_epoch_and_state_when_it_registers_again(cluster) -> None:
    cluster.start(1)
    epoch, before = cluster.epoch(1), len(cluster.log)
    assert cluster.register(1, live=True) == (ErrorCode.NONE, epoch)
    assert len(cluster.log) == before
    assert not cluster.image.broker(1).fenced


def test_another_process_is_refused_while_the_first_has_a_session(cluster) -> None:
    cluster.start(1)
    before = len(cluster.log)
    error, epoch = cluster.register(1, incarnation=1, live=True)
    assert (error, epoch) == (ErrorCode.DUPLICATE_BROKER_REGISTRATION, -1)
    assert len(cluster.log) == before


@pytest.mark.bug("KAFKA-13528")
def test_a_broker_of_another_cluster_is_refused(cluster) -> None:
    outcome = register_broker(
        cluster.image,
        cluster.registration(1),
        cluster_id="another",
        live_session=False,
        next_offset=0,
    )
    assert outcome.response.error is ErrorCode.INCONSISTENT_CLUSTER_ID
    assert not outcome.groups


@pytest.mark.bug("KAFKA-18106")
def test_a_new_incarnation_is_out_of_service_and_of_every_isr_before_its_registration_record(cluster) -> None:
    cluster.start(1, 2, 3)
    topic = cluster.create("t", (1, 2), (2, 3))
    at = len(cluster.log)
    error, epoch = cluster.register(2, incarnation=1)
    written = cluster.log[at:]
    assert [type(record) for record in written] == [
        BrokerRegistrationChange,
        PartitionChange,
        PartitionChange,
        RegisterBroker,
    ]
    assert written[0].fenced
    assert (error, epoch) == (ErrorCode.NONE, at + 3)
    assert cluster.partition(topic, 0).isr == (1,)
    moved = cluster.partition(topic, 1)
    assert (moved.isr, moved.leader, moved.leader_epoch) == ((3,), 3, 1)
    cluster.check()


@pytest.mark.bug("KAFKA-18940")
def test_a_sole_replica_that_has_everything_is_eligible_and_leads_again_when_it_is_back(cluster) -> None:
    cluster.start(1)
    topic = cluster.create("t", (1,))
    cluster.register(1, incarnation=1, previous=cluster.epoch(1))
    state = cluster.partition(topic)
    assert (state.isr, state.elr, state.leader) == ((), (1,), NO_LEADER)
    assert cluster.beat(1) == "unfenced"
    state = cluster.partition(topic)
    assert (state.isr, state.elr, state.leader, state.leader_epoch) == ((1,), (), 1, 2)
    assert state.leader_recovery_state is LeaderRecoveryState.RECOVERED
    cluster.check()


def test_a_sole_replica_that_lost_power_leads_with_what_it_has_and_says_that_it_recovers(cluster) -> None:
    cluster.start(1, 2)
    topic = cluster.create("t", (1,))
    cluster.register(1, incarnation=1)
    state = cluster.partition(topic)
    assert (state.isr, state.elr, state.eligible.last_known) == ((), (), (1,))
    assert cluster.beat(1) == "unfenced"
    state = cluster.partition(topic)
    assert (state.isr, state.leader, state.leader_epoch) == ((1,), 1, 2)
    assert state.leader_recovery_state is LeaderRecoveryState.RECOVERING
    cluster.check()


def test_a_broker_that_lost_power_is_not_led_by_while_one_that_was_killed_may_come_back(cluster) -> None:
    """What the simulation found before there was an ELR: 1 loses power, and the others are killed before it
    is known. It used to be the last member of the ISR."""
    cluster.static = {"min.insync.replicas": "2"}
    cluster.start(1, 2, 3)
    topic = cluster.create("t", (1, 2, 3))
    cluster.fence(2)
    cluster.fence(3)
    assert (cluster.partition(topic).isr, cluster.partition(topic).elr) == ((1,), (3,))
    cluster.register(1, incarnation=1)
    cluster.beat(1)
    state = cluster.partition(topic)
    assert (state.leader, state.isr, state.elr) == (NO_LEADER, (), (3,))
    cluster.register(2, incarnation=1, previous=cluster.epoch(2))
    cluster.beat(2)
    assert cluster.partition(topic).leader == NO_LEADER, "2 left while the others went on committing"
    cluster.register(3, incarnation=1, previous=cluster.epoch(3))
    cluster.beat(3)
    state = cluster.partition(topic)
    assert (state.leader, state.isr, state.elr) == (3, (3,), ())
    assert state.leader_recovery_state is LeaderRecoveryState.RECOVERED
    cluster.check()


def test_a_broker_that_was_active_since_proves_nothing_by_an_earlier_epoch(cluster) -> None:
    cluster.static = {"min.insync.replicas": "2"}
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2))
    old = cluster.epoch(2)
    cluster.register(2, incarnation=1, previous=old)
    assert (cluster.partition(topic).isr, cluster.partition(topic).elr) == ((1,), (2,))
    assert cluster.image.broker(2).proven_epoch == old
    assert cluster.beat(2) == "unfenced"
    assert cluster.image.broker(2).proven_epoch is None
    cluster.register(2, incarnation=2, previous=old)
    assert (cluster.partition(topic).isr, cluster.partition(topic).elr) == ((1,), ())
    cluster.check()


def test_a_late_registration_of_an_earlier_life_costs_no_later_one_its_proof(cluster) -> None:
    """What the explorer found: the data of a broker that was not active meanwhile is what it was, in whatever
    order the registrations of its lives arrive."""
    cluster.static = {"min.insync.replicas": "2"}
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2))
    active = cluster.epoch(2)
    cluster.register(2, incarnation=2, previous=active)
    second = cluster.epoch(2)
    cluster.register(2, incarnation=3, previous=second)
    third = cluster.epoch(2)
    cluster.register(2, incarnation=1, previous=active)
    assert cluster.partition(topic).elr == (2,), "late, and its disk has what the third life had"
    cluster.register(2, incarnation=4, previous=third)
    assert cluster.partition(topic).elr == (2,), "the third life was followed by none that was active"
    assert cluster.beat(2) == "unfenced"
    cluster.register(2, incarnation=5, previous=third)
    assert cluster.partition(topic).elr == (), "the fourth was active"
    cluster.check()


def test_a_broker_that_never_heard_of_its_registration_proves_what_it_proved_then(cluster) -> None:
    """What the simulation found: two of three replicas lost their records, and the third stopped in order
    before the answer to its registration came. Its next life named the only epoch that it knew, and counted
    as one that may have lost records, so that nobody had any."""
    cluster.static = {"min.insync.replicas": "3"}
    cluster.start(1, 2, 3)
    topic = cluster.create("t", (1, 2, 3))
    old = cluster.epoch(2)
    for broker_id in (1, 3):
        cluster.register(broker_id, incarnation=1)
    assert cluster.partition(topic).elr == (2,) or cluster.partition(topic).isr == (2,)
    for incarnation in (1, 2, 3):
        cluster.register(2, incarnation=incarnation, previous=old)
        assert cluster.partition(topic).elr == (2,)
    assert cluster.beat(2) == "unfenced"
    assert cluster.partition(topic).leader == 2
    assert cluster.partition(topic).leader_recovery_state is LeaderRecoveryState.RECOVERED
    cluster.check()


def test_an_elr_is_empty_once_a_lower_min_isr_is_met(cluster) -> None:
    cluster.static = {"min.insync.replicas": "2"}
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2), (2, 1))
    cluster.fence(2)
    among = list(cluster.image.all_partitions())
    assert list(settle_elrs(cluster.image, among=among, static=cluster.static)) == []
    cluster.static = {"min.insync.replicas": "1"}
    cluster.write(tuple(settle_elrs(cluster.image, among=among, static=cluster.static)))
    assert [cluster.partition(topic, each).elr for each in (0, 1)] == [(), ()]
    cluster.check()


@pytest.mark.parametrize(
    ("fenced", "fence", "stop", "caught_up", "answer", "records"),
    [
        (True, False, True, True, "shut down", 0),
        (True, False, False, True, "unfenced", 1),
        (True, False, False, False, "fenced", 0),
        (True, True, False, True, "fenced", 0),
        (False, False, False, True, "unfenced", 0),
        (False, True, False, True, "fenced", 1),
        (False, False, True, True, "shut down", 1),
    ],
)
def test_heartbeat_state_table_of_a_broker_that_leads_nothing(
    cluster, fenced: bool, fence: bool, stop: bool, caught_up: bool, answer: str, records: int
) -> None:
    cluster.register(1)
    if not fenced:
        cluster.beat(1)
    before = len(cluster.log)
    offset = cluster.epoch(1) - (not caught_up)
    assert cluster.beat(1, fence=fence, stop=stop, offset=offset) == answer
    assert len(cluster.log) - before == records


def test_heartbeats_of_unknown_brokers_and_of_old_epochs_are_refused(cluster) -> None:
    cluster.start(1)

    def error_of(broker_id: int, epoch: int) -> ErrorCode:
        request = BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=9)
        outcome = heartbeat(cluster.image, request, shutdown_offset=None, lowest_active_offset=None)
        assert not outcome.groups
        return outcome.response.error

    assert error_of(2, 0) is ErrorCode.BROKER_ID_NOT_REGISTERED
    assert error_of(1, cluster.epoch(1) + 1) is ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.bug("KAFKA-14296")
def test_a_leader_that_stops_gives_up_its_partitions_and_goes_when_all_have_seen_it(cluster) -> None:
    cluster.start(1, 2)
    topic, lone = cluster.create("t", (1, 2)), cluster.create("lone", (1,))
    assert cluster.beat(1, stop=True) == "unfenced"
    assert cluster.image.broker(1).in_controlled_shutdown
    state = cluster.partition(topic, 0)
    assert (state.leader, state.isr) == (2, (2,))
    alone = cluster.partition(lone)
    assert (alone.leader, alone.isr, alone.elr) == (NO_LEADER, (), (1,))
    cluster.check()

    goal = len(cluster.log) - 1
    assert cluster.beat(1, stop=True, goal=goal, lowest=goal - 1) == "unfenced"
    assert cluster.beat(1, stop=True, goal=goal, lowest=goal) == "shut down"
    assert cluster.image.broker(1).fenced


def test_a_broker_that_shuts_down_is_waited_for_even_where_the_topic_allows_unclean_elections(
    cluster,
) -> None:
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2))
    cluster.append(
        UNCLEAN,
        PartitionChange(topic_id=topic, partition_id=0, isr=(1,), reason=ChangeReason.REPLICA_LAGGED),
    )
    assert cluster.beat(1, stop=True) == "unfenced"
    state = cluster.partition(topic)
    assert (state.leader, state.isr, state.elr) == (NO_LEADER, (), (1,)), "2 may lack its records"


def test_a_broker_is_fenced_before_it_leaves_isrs(cluster) -> None:
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2))
    at = len(cluster.log)
    cluster.fence(1)
    assert cluster.log[at:] == [
        BrokerRegistrationChange(
            broker_id=1,
            broker_epoch=cluster.epoch(1),
            fenced=True,
            reason=ChangeReason.BROKER_FENCED,
            last_heard_ms=cluster.last_heard_ms,
        ),
        PartitionChange(
            topic_id=topic, partition_id=0, isr=(2,), leader=2, reason=ChangeReason.BROKER_FENCED
        ),
    ]
    cluster.fence(1)
    assert len(cluster.log) == at + 2


def test_after_all_brokers_were_fenced_only_the_last_isr_member_can_lead(cluster) -> None:
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2))
    cluster.fence(1)
    cluster.fence(2)
    assert cluster.beat(1) == "unfenced"
    assert cluster.partition(topic).leader == NO_LEADER
    assert cluster.beat(2) == "unfenced"
    assert (cluster.partition(topic).leader, cluster.partition(topic).isr) == (2, (2,))


def test_an_unclean_election_takes_any_replica_and_marks_it_recovering(cluster) -> None:
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2))
    cluster.fence(1)
    cluster.append(UNCLEAN)
    cluster.fence(2)
    assert cluster.beat(1) == "unfenced"
    state = cluster.partition(topic)
    assert (state.leader, state.isr) == (1, (1,))
    assert state.leader_recovery_state is LeaderRecoveryState.RECOVERING


def test_repair_finishes_a_fencing_that_was_cut_short(cluster) -> None:
    cluster.start(1, 2, 3)
    topic = cluster.create("t", (1, 2, 3), (3, 1, 2))
    cluster.append(
        BrokerRegistrationChange(broker_id=1, broker_epoch=cluster.epoch(1), fenced=True),
        BrokerRegistrationChange(broker_id=3, broker_epoch=cluster.epoch(3), fenced=True),
    )
    cluster.repair()
    cluster.check()
    assert cluster.partition(topic, 0).isr == (2,)
    assert cluster.partition(topic, 1).leader == 2


def test_repair_elects_where_an_unfenced_broker_could_lead(cluster) -> None:
    cluster.start(1)
    topic = cluster.create("t", (1,))
    cluster.append(PartitionChange(topic_id=topic, partition_id=0, leader=NO_LEADER))
    cluster.repair()
    assert cluster.partition(topic).leader == 1


def test_an_unregistered_broker_is_gone_and_leads_nothing(cluster) -> None:
    cluster.start(1, 2)
    topic = cluster.create("t", (1, 2))
    assert cluster.unregister(1) is ErrorCode.NONE
    assert cluster.image.broker(1) is None
    assert cluster.partition(topic).leader == 2
    again = unregister_broker(cluster.image, UnregisterBrokerRequest(broker_id=1))
    assert again.response.error is ErrorCode.BROKER_ID_NOT_REGISTERED


@pytest.mark.bug("KAFKA-15019")
def test_sessions_run_out_and_late_heartbeats_renew_them(cluster) -> None:
    cluster.start(1, 2)
    sessions = Sessions(timeout=9.0)
    for now in (0.0, 1.0, 2.0):
        assert sessions.expired(cluster.image, now=now, interval=1.0) == []
    sessions.touch(2, now=5.0, metadata_offset=3)
    for now in (3.0, 4.0, 5.0, 6.0, 7.0, 8.0):
        assert sessions.expired(cluster.image, now=now, interval=1.0) == []
    assert sessions.expired(cluster.image, now=9.0, interval=1.0) == [1]
    assert not sessions.live(1, now=9.0)
    assert sessions.live(2, now=9.0)
    sessions.touch(1, now=9.5, metadata_offset=3)
    assert sessions.expired(cluster.image, now=10.0, interval=1.0) == []


@pytest.mark.bug("KAFKA-15019")
def test_a_controller_that_was_held_up_fences_nobody_for_that(cluster) -> None:
    cluster.start(1)
    sessions = Sessions(timeout=9.0)
    sessions.expired(cluster.image, now=0.0, interval=1.0)
    assert sessions.expired(cluster.image, now=30.0, interval=1.0) == []
    assert sessions.expired(cluster.image, now=31.0, interval=1.0) == []


@pytest.mark.bug("KAFKA-14292")
def test_the_goal_of_a_shutdown_is_fixed_once(cluster) -> None:
    sessions = Sessions(timeout=9.0)
    sessions.fix_shutdown_offset(1, offset=10, now=0.0)
    sessions.fix_shutdown_offset(1, offset=20, now=1.0)
    assert sessions.shutdown_offset(1) == 10


def test_the_goal_of_a_return_is_fixed_once_after_each_fencing(cluster) -> None:
    cluster.start(1)
    sessions = Sessions(timeout=9.0)
    assert sessions.return_offset(1, offset=10, now=0.0) == 10
    assert sessions.return_offset(1, offset=20, now=1.0) == 10
    for now in range(2, 12):
        sessions.expired(cluster.image, now=float(now), interval=1.0)
    assert sessions.return_offset(1, offset=30, now=12.0) == 30


def test_a_session_that_ends_early_sets_another_goal_of_a_return(cluster) -> None:
    sessions = Sessions(timeout=9.0)
    assert sessions.return_offset(1, offset=10, now=0.0) == 10
    sessions.end(1)
    sessions.end(2)
    assert sessions.return_offset(1, offset=30, now=1.0) == 30


def test_a_broker_that_was_never_heard_was_not_heard_when_its_session_began(cluster) -> None:
    sessions = Sessions(timeout=9.0)
    sessions.begin(1, now=1.0, heard_at=None)
    assert sessions.last_heard(1) is sessions.last_heard(2) is None
    sessions.touch(1, now=2.0, metadata_offset=5)
    assert sessions.last_heard(1) == 2.0


def test_a_session_that_begins_after_its_broker_was_heard_is_a_whole_one(cluster) -> None:
    sessions = Sessions(timeout=9.0)
    sessions.begin(1, now=5.0, heard_at=1.0)
    assert sessions.last_heard(1) == 1.0
    assert sessions.live(1, now=13.9)
    sessions.touch(1, now=6.0, metadata_offset=5)
    assert sessions.last_heard(1) == 6.0


def test_a_broker_is_not_unfenced_before_it_has_applied_what_fenced_it(cluster) -> None:
    """Where Kafka asks for its registration only, it would go on answering as the leader that it was."""
    cluster.start(1)
    cluster.fence(1)
    broker = cluster.image.broker(1)
    beat = BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=broker.epoch,
        current_metadata_offset=broker.epoch,
        want_fence=False,
        want_shut_down=False,
    )
    late = heartbeat(
        cluster.image, beat, return_offset=broker.epoch + 1, shutdown_offset=None, lowest_active_offset=None
    )
    assert (late.response.is_fenced, late.response.is_caught_up) == (True, False)
    back = heartbeat(
        cluster.image, beat, return_offset=broker.epoch, shutdown_offset=None, lowest_active_offset=None
    )
    assert (back.response.is_fenced, back.response.is_caught_up) == (False, True)


def test_the_lowest_offset_counts_active_brokers_only(cluster) -> None:
    cluster.start(1, 2, 3)
    cluster.fence(3)
    sessions = Sessions(timeout=9.0)
    assert sessions.lowest_active_offset(cluster.image) == -1
    sessions.touch(1, now=0.0, metadata_offset=9)
    sessions.touch(2, now=0.0, metadata_offset=7)
    assert sessions.lowest_active_offset(cluster.image) == 7
    cluster.fence(1)
    cluster.fence(2)
    assert sessions.lowest_active_offset(cluster.image) is None
