import uuid

from quorate.broker.controller.operations.elections import Election, as_change, eligible_after
from quorate.broker.metadata.metadata_records import (
    NO_LEADER,
    ChangeReason,
    LeaderRecoveryState,
    PartitionChange,
)
from quorate.broker.metadata.states import PartitionKey, PartitionState, as_eligible

WHY = ChangeReason.BROKER_FENCED
RECOVERED, RECOVERING = LeaderRecoveryState.RECOVERED, LeaderRecoveryState.RECOVERING


def partition(leader: int, *isr: int, elr=(), last_known=()) -> PartitionState:
    return PartitionState(
        replicas=(1, 2, 3),
        isr=isr,
        removing_replicas=(),
        adding_replicas=(),
        leader=leader,
        leader_recovery_state=RECOVERED,
        leader_epoch=4,
        partition_epoch=9,
        eligible=as_eligible(elr, last_known),
    )


def test_a_partition_needs_no_more_in_sync_replicas_than_it_has() -> None:
    state = partition(1, 1, 2, 3)
    assert eligible_after(state, isr=(1, 2), min_isr=5) == (3,)
    assert eligible_after(state, isr=(1, 2, 3), min_isr=5) == ()
    sole = state._replace(replicas=(1,), isr=(1,))
    assert eligible_after(sole, isr=(1,), min_isr=2) == ()
    assert eligible_after(sole, isr=(), min_isr=2) == (1,)


def test_an_election_that_changes_nothing_needs_no_record() -> None:
    topic = uuid.UUID(int=1)
    state = partition(1, 1, 2)
    same = Election(leader=1, isr=(1, 2), recovery=RECOVERED)
    assert as_change(PartitionKey(topic, 0), state, same, cause=WHY) is None
    shrunk = Election(leader=1, isr=(1,), recovery=RECOVERED, elr=(2,))
    assert as_change(PartitionKey(topic, 0), state, shrunk, cause=WHY) == PartitionChange(
        topic_id=topic, partition_id=0, isr=(1,), eligible_leader_replicas=(2,), reason=WHY
    )
    unclean = Election(leader=2, isr=(2,), recovery=RECOVERING, unclean=True)
    assert as_change(PartitionKey(topic, 0), state, unclean, cause=WHY) == PartitionChange(
        topic_id=topic,
        partition_id=0,
        isr=(2,),
        leader=2,
        leader_recovery_state=RECOVERING,
        reason=ChangeReason.UNCLEAN_ELECTION,
    )
    again = Election(leader=1, isr=(1,), recovery=RECOVERED)
    back = partition(NO_LEADER, elr=(1,), last_known=(2,))
    assert as_change(PartitionKey(topic, 0), back, again, cause=WHY) == PartitionChange(
        topic_id=topic,
        partition_id=0,
        isr=(1,),
        leader=1,
        eligible_leader_replicas=(),
        last_known_elr=(),
        reason=WHY,
    )
