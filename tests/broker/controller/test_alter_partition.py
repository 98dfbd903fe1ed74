import uuid

import pytest

from quorate.broker.controller.operations.alter_partition import alter_partition
from quorate.broker.controller.rpc import (
    AlterPartitionItem,
    AlterPartitionRequest,
    AlterPartitionResult,
    IsrMember,
)
from quorate.broker.metadata.metadata_records import (
    ChangeReason,
    LeaderRecoveryState,
    Partition,
    PartitionChange,
    Topic,
)
from quorate.error_code import ErrorCode

TOPIC = uuid.UUID(int=1000)


@pytest.fixture
def led(cluster):
    """Brokers 1 to 4, and a partition of 1, 2, 3 led by 1 at leader epoch 5 and partition epoch 7."""
    cluster.start(1, 2, 3, 4)
    cluster.append(
        Topic(name="t", topic_id=TOPIC),
        Partition(
            topic_id=TOPIC,
            partition_id=0,
            replicas=(1, 2, 3),
            isr=(1, 2, 3),
            leader=1,
            leader_epoch=5,
            partition_epoch=7,
        ),
    )
    return cluster


def ask(
    cluster,
    *isr: int,
    sender: int = 1,
    topic: uuid.UUID = TOPIC,
    partition: int = 0,
    leader_epoch: int = 5,
    partition_epoch: int = 7,
    recovery: LeaderRecoveryState = LeaderRecoveryState.RECOVERED,
    epochs: dict[int, int] | None = None,
) -> AlterPartitionResult:
    item = AlterPartitionItem(
        topic_id=topic,
        partition_id=partition,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        new_isr=tuple(
            IsrMember(broker_id=each, broker_epoch=(epochs or {}).get(each, cluster.epoch(each)))
            for each in isr
        ),
        leader_recovery_state=recovery,
    )
    (result,) = cluster.do(cluster.ask_for_isr(item, sender=sender)).partitions
    cluster.check()
    return result


def test_a_shrink_is_written_and_answered_with_the_new_partition_epoch(led) -> None:
    result = ask(led, 1, 2)
    assert result == AlterPartitionResult(
        topic_id=TOPIC, partition_id=0, leader=1, leader_epoch=5, isr=(1, 2), partition_epoch=8
    )
    assert led.log[-1] == PartitionChange(
        topic_id=TOPIC, partition_id=0, isr=(1, 2), reason=ChangeReason.REPLICA_LAGGED
    )
    assert led.partition(TOPIC).isr == (1, 2)


def test_a_stale_broker_epoch_refuses_the_whole_request(led) -> None:
    request = AlterPartitionRequest(broker_id=1, broker_epoch=led.epoch(1) + 1, partitions=())
    outcome = alter_partition(led.image, request, static={})
    assert outcome.response.error is ErrorCode.STALE_BROKER_EPOCH


RECOVERING = LeaderRecoveryState.RECOVERING


@pytest.mark.parametrize(
    ("request_as", "error"),
    [
        # Each also breaks every later rule that it can, so that the order shows.
        ({"topic": uuid.UUID(int=9), "leader_epoch": 9, "isr": (2,)}, ErrorCode.UNKNOWN_TOPIC_ID),
        ({"partition": 1, "leader_epoch": 9, "isr": (2,)}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"leader_epoch": 6, "partition_epoch": 0, "sender": 2, "isr": (4,)}, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": 4, "partition_epoch": 8, "sender": 2, "isr": (4,)}, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": 4, "partition_epoch": 0, "sender": 2, "isr": (4,)}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"sender": 2, "partition_epoch": 0, "isr": (4,)}, ErrorCode.INVALID_REQUEST),
        ({"partition_epoch": 6, "isr": (4,)}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"isr": (1, 4)}, ErrorCode.INVALID_REQUEST),
        ({"isr": (1, 1)}, ErrorCode.INVALID_REQUEST),
        ({"isr": (2, 3)}, ErrorCode.INVALID_REQUEST),
        ({"isr": ()}, ErrorCode.INVALID_REQUEST),
        ({"isr": (1, 2), "recovery": RECOVERING}, ErrorCode.INVALID_REQUEST),
        ({"isr": (1,), "recovery": RECOVERING}, ErrorCode.INVALID_REQUEST),
        ({"isr": (1, 2), "epochs": {2: 999}}, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_the_checks_come_in_the_protocols_order(led, request_as, error: ErrorCode) -> None:
    before = len(led.log)
    fields = dict(request_as)
    assert ask(led, *fields.pop("isr"), **fields).error is error
    assert len(led.log) == before


def test_a_fenced_member_is_not_eligible_and_neither_is_one_that_shuts_down(led) -> None:
    led.fence(2)
    state = led.partition(TOPIC)
    assert ask(led, 1, 3, 2, partition_epoch=state.partition_epoch).error is ErrorCode.INELIGIBLE_REPLICA
    led.create("other", (3, 1))
    led.beat(3, stop=True)
    state = led.partition(TOPIC)
    assert state.isr == (1,)
    assert ask(led, 1, 3, partition_epoch=state.partition_epoch).error is ErrorCode.INELIGIBLE_REPLICA


def test_a_member_that_restarted_is_not_eligible_by_its_old_epoch(led) -> None:
    old = led.epoch(2)
    led.register(2, incarnation=1)
    led.beat(2)
    epoch = led.partition(TOPIC).partition_epoch
    refused = ask(led, 1, 3, 2, partition_epoch=epoch, epochs={2: old})
    assert refused.error is ErrorCode.INELIGIBLE_REPLICA
    assert ask(led, 1, 3, 2, partition_epoch=epoch).isr == (1, 3, 2)


def test_a_request_whose_answer_was_lost_is_answered_with_success_again(led) -> None:
    granted = ask(led, 1, 2)
    before = len(led.log)
    assert ask(led, 2, 1) == granted
    assert len(led.log) == before


def test_a_request_for_the_committed_isr_gets_a_new_epoch_that_ends_earlier_requests(led) -> None:
    before = led.partition(TOPIC)
    same = ask(led, *before.isr)
    assert (same.error, same.isr) == (ErrorCode.NONE, before.isr)
    assert same.partition_epoch == before.partition_epoch + 1
    assert led.partition(TOPIC).leader_epoch == before.leader_epoch
    late = ask(led, 1, 2, partition_epoch=before.partition_epoch)
    assert late.error is ErrorCode.INVALID_UPDATE_VERSION


def test_a_leader_recovers_before_it_grows_the_isr(led) -> None:
    led.append(
        PartitionChange(topic_id=TOPIC, partition_id=0, isr=(1,), leader=1, leader_recovery_state=RECOVERING)
    )
    at = {"leader_epoch": 6, "partition_epoch": 8}
    assert ask(led, 1, 2, recovery=RECOVERING, **at).error is ErrorCode.INVALID_REQUEST
    recovered = ask(led, 1, **at)
    assert (recovered.error, recovered.partition_epoch) == (ErrorCode.NONE, 9)
    assert recovered.leader_recovery_state is LeaderRecoveryState.RECOVERED


def test_a_partition_named_twice_is_changed_once(led) -> None:
    items = [led.isr_item(TOPIC, *isr) for isr in ((1, 2), (1, 3))]
    results = led.do(led.ask_for_isr(*items)).partitions
    assert [each.error for each in results] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert led.partition(TOPIC).isr == (1, 2)


def reassign(cluster, *, replicas, adding, removing) -> None:
    cluster.append(
        PartitionChange(
            topic_id=TOPIC,
            partition_id=0,
            replicas=replicas,
            adding_replicas=adding,
            removing_replicas=removing,
        )
    )


def test_a_reassignment_is_complete_when_every_target_is_in_the_isr(led) -> None:
    reassign(led, replicas=(1, 2, 4, 3), adding=(4,), removing=(3,))
    result = ask(led, 1, 2, 3, 4, partition_epoch=8)
    assert (result.error, result.isr, result.leader) == (ErrorCode.NONE, (1, 2, 4), 1)
    state = led.partition(TOPIC)
    assert (state.replicas, state.adding_replicas, state.removing_replicas) == ((1, 2, 4), (), ())
    assert state.leader_epoch == 6, "the removed replica must be fenced by a new leader epoch"


def test_a_reassignment_goes_on_while_a_target_is_missing(led) -> None:
    reassign(led, replicas=(4, 2, 1, 3), adding=(4,), removing=(1, 3))
    ask(led, 1, 2, partition_epoch=8)
    assert led.partition(TOPIC).adding_replicas == (4,)


def test_a_leader_that_is_removed_learns_of_its_successor(led) -> None:
    reassign(led, replicas=(4, 2, 1, 3), adding=(4,), removing=(1, 3))
    result = ask(led, 1, 2, 3, 4, partition_epoch=8)
    assert result.error is ErrorCode.NEW_LEADER_ELECTED
    assert (result.leader, result.leader_epoch, result.isr) == (4, 6, (2, 4))
    assert led.partition(TOPIC).replicas == (4, 2)
