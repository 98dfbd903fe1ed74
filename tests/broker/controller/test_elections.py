import uuid

import pytest

from quorate.broker.controller.elections import Election, Selector, as_change, elect
from quorate.broker.controller.image import PartitionState
from quorate.broker.controller.records import NO_LEADER, LeaderRecoveryState, PartitionChange

RECOVERED, RECOVERING = LeaderRecoveryState.RECOVERED, LeaderRecoveryState.RECOVERING
OFFLINE, PREFERRED = Selector.OFFLINE, Selector.PREFERRED
REASSIGNED, SHUTDOWN = Selector.REASSIGNED, Selector.CONTROLLED_SHUTDOWN


def partition(leader: int, *isr: int) -> PartitionState:
    return PartitionState(
        replicas=(1, 2, 3),
        isr=isr,
        removing_replicas=(),
        adding_replicas=(),
        leader=leader,
        leader_recovery_state=RECOVERED,
        leader_epoch=4,
        partition_epoch=9,
    )


@pytest.mark.parametrize(
    ("selector", "leader", "isr", "alive", "unclean", "leaving", "expected"),
    [
        # The leader that can go on leads on, wherever it stands in the assignment.
        (OFFLINE, 2, (1, 2, 3), {1, 2, 3}, False, None, (2, (1, 2, 3), RECOVERED)),
        # Else the first in assignment order, not in ISR order.
        (OFFLINE, 3, (3, 2, 1), {1, 2}, False, None, (1, (3, 2, 1), RECOVERED)),
        (OFFLINE, NO_LEADER, (2,), {1, 2, 3}, False, None, (2, (2,), RECOVERED)),
        # Nobody in the ISR: nobody leads, and the ISR stays.
        (OFFLINE, 1, (1,), {2, 3}, False, None, (NO_LEADER, (1,), RECOVERED)),
        (OFFLINE, 1, (1,), {2, 3}, True, None, (2, (2,), RECOVERING)),
        (OFFLINE, 1, (1,), set(), True, None, (NO_LEADER, (1,), RECOVERED)),
        # Clean comes before unclean.
        (OFFLINE, NO_LEADER, (3,), {1, 2, 3}, True, None, (3, (3,), RECOVERED)),
        # One who leaves is out of the ISR, unless it is the last.
        (OFFLINE, 1, (1, 2), {1, 2}, False, 1, (2, (2,), RECOVERED)),
        (OFFLINE, 1, (1,), {1, 2}, False, 1, (NO_LEADER, (1,), RECOVERED)),
        (OFFLINE, 1, (1,), {1, 2}, True, 1, (2, (2,), RECOVERING)),
        (PREFERRED, 2, (1, 2), {1, 2}, False, None, (1, (1, 2), RECOVERED)),
        (PREFERRED, 2, (2, 3), {1, 2, 3}, False, None, (2, (2, 3), RECOVERED)),
        (PREFERRED, 2, (1, 2), {2}, False, None, (2, (1, 2), RECOVERED)),
        (REASSIGNED, 9, (3, 2), {2, 3}, False, None, (2, (3, 2), RECOVERED)),
        (REASSIGNED, 3, (3, 2), {2, 3}, False, None, (3, (3, 2), RECOVERED)),
        # A broker that leaves in order has all the data and comes back.
        (SHUTDOWN, 1, (1,), {1, 2}, True, 1, (NO_LEADER, (1,), RECOVERED)),
        (SHUTDOWN, 1, (1, 3), {1, 2, 3}, True, 1, (3, (3,), RECOVERED)),
    ],
)
def test_who_leads(selector, leader, isr, alive, unclean, leaving, expected) -> None:
    chosen = elect(
        partition(leader, *isr),
        acceptable=alive.__contains__,
        unclean=unclean,
        selector=selector,
        leaving=leaving,
    )
    assert (chosen.leader, chosen.isr, chosen.recovery) == expected


def test_an_election_that_changes_nothing_needs_no_record() -> None:
    topic = uuid.UUID(int=1)
    state = partition(1, 1, 2)
    same = Election(leader=1, isr=(1, 2), recovery=RECOVERED)
    assert as_change(topic, 0, state, same) is None
    shrunk = Election(leader=1, isr=(1,), recovery=RECOVERED)
    assert as_change(topic, 0, state, shrunk) == PartitionChange(topic_id=topic, partition_id=0, isr=(1,))
    unclean = Election(leader=2, isr=(2,), recovery=RECOVERING)
    assert as_change(topic, 0, state, unclean) == PartitionChange(
        topic_id=topic, partition_id=0, isr=(2,), leader=2, leader_recovery_state=RECOVERING
    )
