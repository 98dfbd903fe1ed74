import uuid

import pytest

from quorate.broker.controller.operations.elections import (
    Election,
    Selector,
    as_change,
    elect,
    eligible_after,
)
from quorate.broker.metadata.metadata_records import NO_LEADER, LeaderRecoveryState, PartitionChange
from quorate.broker.metadata.states import PartitionState, as_eligible

RECOVERED, RECOVERING = LeaderRecoveryState.RECOVERED, LeaderRecoveryState.RECOVERING
OFFLINE, PREFERRED = Selector.OFFLINE, Selector.PREFERRED
REASSIGNED, SHUTDOWN = Selector.REASSIGNED, Selector.CONTROLLED_SHUTDOWN


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


@pytest.mark.parametrize(
    ("selector", "leader", "isr", "alive", "unclean", "leaving", "expected"),
    [
        # The leader that can go on leads on, wherever it stands in the assignment.
        (OFFLINE, 2, (1, 2, 3), {1, 2, 3}, False, None, (2, (1, 2, 3), RECOVERED)),
        # Else the first in assignment order, not in ISR order.
        (OFFLINE, 3, (3, 2, 1), {1, 2}, False, None, (1, (3, 2, 1), RECOVERED)),
        (OFFLINE, NO_LEADER, (2,), {1, 2, 3}, False, None, (2, (2,), RECOVERED)),
        # Nobody in the ISR can lead: nobody leads, and the ISR stays until its members are known to be gone.
        (OFFLINE, 1, (1,), {2, 3}, False, None, (NO_LEADER, (1,), RECOVERED)),
        (OFFLINE, 1, (1,), {2, 3}, True, None, (2, (2,), RECOVERING)),
        (OFFLINE, 1, (1,), set(), True, None, (NO_LEADER, (1,), RECOVERED)),
        # Clean comes before unclean.
        (OFFLINE, NO_LEADER, (3,), {1, 2, 3}, True, None, (3, (3,), RECOVERED)),
        # One who leaves is out of the ISR, the last one too.
        (OFFLINE, 1, (1, 2), {1, 2}, False, 1, (2, (2,), RECOVERED)),
        (OFFLINE, 1, (1,), {1, 2}, False, 1, (NO_LEADER, (), RECOVERED)),
        (OFFLINE, 1, (1,), {1, 2}, True, 1, (2, (2,), RECOVERING)),
        (PREFERRED, 2, (1, 2), {1, 2}, False, None, (1, (1, 2), RECOVERED)),
        (PREFERRED, 2, (2, 3), {1, 2, 3}, False, None, (2, (2, 3), RECOVERED)),
        (PREFERRED, 2, (1, 2), {2}, False, None, (2, (1, 2), RECOVERED)),
        (REASSIGNED, 9, (3, 2), {2, 3}, False, None, (2, (3, 2), RECOVERED)),
        (REASSIGNED, 3, (3, 2), {2, 3}, False, None, (3, (3, 2), RECOVERED)),
        # A broker that leaves in order has all the data and comes back.
        (SHUTDOWN, 1, (1,), {1, 2}, True, 1, (NO_LEADER, (), RECOVERED)),
        (SHUTDOWN, 1, (1, 3), {1, 2, 3}, True, 1, (3, (3,), RECOVERED)),
    ],
)
def test_an_election_chooses_the_expected_leader(
    selector, leader, isr, alive, unclean, leaving, expected
) -> None:
    chosen = elect(
        partition(leader, *isr),
        acceptable=alive.__contains__,
        unclean=unclean,
        min_isr=1,
        selector=selector,
        leaving=leaving,
    )
    assert (chosen.leader, chosen.isr, chosen.recovery) == expected


@pytest.mark.parametrize(
    ("state", "alive", "leaving", "lost", "expected"),
    [
        # Who leaves an ISR that becomes too small stays eligible.
        (partition(1, 1, 2, 3), {2, 3}, 1, False, (2, (2, 3), (), ())),
        (partition(2, 2, 3), {2}, 3, False, (2, (2,), (3,), ())),
        (partition(2, 2, elr=(3,)), set(), 2, False, (NO_LEADER, (), (2, 3), (2,))),
        # Unless it may lack records, which concerns the ELR as it does the ISR.
        (partition(2, 2, 3), {2}, 3, True, (2, (2,), (), ())),
        (partition(2, 2, elr=(3,)), {2}, 3, True, (2, (2,), (), ())),
        # An eligible one leads when nobody in the ISR can, and is the ISR then.
        (partition(2, 2, elr=(3,)), {1, 3}, 2, False, (3, (3,), (2,), ())),
        (partition(2, 2, elr=(3,)), {1, 3}, 2, True, (3, (3,), (), ())),
        (partition(NO_LEADER, elr=(2, 3), last_known=(2,)), {3}, None, False, (3, (3,), (2,), ())),
        (partition(NO_LEADER, elr=(2, 3), last_known=(2,)), {1}, None, False, (NO_LEADER, (), (2, 3), (2,))),
        # Who led last and lost records waits for those who have lost none.
        (partition(NO_LEADER, elr=(3,), last_known=(2,)), {1, 2}, None, False, (NO_LEADER, (), (3,), (2,))),
    ],
)
def test_the_elr_holds_the_expected_replicas_with_a_min_isr_of_two(
    state, alive, leaving, lost, expected
) -> None:
    chosen = elect(
        state,
        acceptable=alive.__contains__,
        unclean=False,
        min_isr=2,
        selector=OFFLINE,
        leaving=leaving,
        lost=lost,
    )
    assert (chosen.leader, chosen.isr, chosen.elr, chosen.last_known) == expected
    assert chosen.recovery is RECOVERED


def test_the_last_leader_leads_and_recovers_when_no_replica_has_all_records() -> None:
    def elected(state: PartitionState, alive: set[int]) -> Election:
        return elect(
            state, acceptable=alive.__contains__, unclean=False, min_isr=2, selector=OFFLINE, leaving=None
        )

    nobody = partition(NO_LEADER, last_known=(2,))
    assert elected(nobody, {1, 3}) == Election(
        leader=NO_LEADER, isr=(), recovery=RECOVERED, last_known=(2,)
    ), "the others never had everything"
    assert elected(nobody, {1, 2, 3}) == Election(leader=2, isr=(2,), recovery=RECOVERING)
    # As a version that knew no ELR has left it.
    assert elected(partition(NO_LEADER, 2), {1, 3}).isr == (2,)
    sole = elect(
        partition(NO_LEADER, 2),
        acceptable=lambda _: False,
        unclean=False,
        min_isr=2,
        selector=OFFLINE,
        leaving=2,
        lost=True,
    )
    assert (sole.isr, sole.elr, sole.last_known) == ((), (), (2,))


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
    assert as_change(topic, 0, state, same) is None
    shrunk = Election(leader=1, isr=(1,), recovery=RECOVERED, elr=(2,))
    assert as_change(topic, 0, state, shrunk) == PartitionChange(
        topic_id=topic, partition_id=0, isr=(1,), eligible_leader_replicas=(2,)
    )
    unclean = Election(leader=2, isr=(2,), recovery=RECOVERING)
    assert as_change(topic, 0, state, unclean) == PartitionChange(
        topic_id=topic, partition_id=0, isr=(2,), leader=2, leader_recovery_state=RECOVERING
    )
    back = partition(NO_LEADER, elr=(1,), last_known=(2,))
    assert as_change(topic, 0, back, Election(leader=1, isr=(1,), recovery=RECOVERED)) == PartitionChange(
        topic_id=topic,
        partition_id=0,
        isr=(1,),
        leader=1,
        eligible_leader_replicas=(),
        last_known_elr=(),
    )
