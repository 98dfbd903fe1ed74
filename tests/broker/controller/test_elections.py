"""Elections of one partition: the selectors, the ELR, and the records."""

import enum
import uuid

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from quorate.broker.controller.operations.elections import (
    Election,
    NoLeader,
    as_change,
    controlled_shutdown,
    eligible_after,
    offline_partition,
    preferred_replica,
    reassigned_partition,
)
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
    key = PartitionKey(uuid.UUID(int=1), 0)
    state = partition(1, 1, 2)
    same = Election(leader=1, isr=(1, 2), recovery=RECOVERED)
    assert as_change(key, state, same, cause=WHY) is None
    shrunk = Election(leader=1, isr=(1,), recovery=RECOVERED, elr=(2,))
    assert as_change(key, state, shrunk, cause=WHY) == PartitionChange(
        topic_id=key.topic_id, partition_id=0, isr=(1,), eligible_leader_replicas=(2,), reason=WHY
    )
    unclean = Election(leader=2, isr=(2,), recovery=RECOVERING, unclean=True)
    assert as_change(key, state, unclean, cause=WHY) == PartitionChange(
        topic_id=key.topic_id,
        partition_id=0,
        isr=(2,),
        leader=2,
        leader_recovery_state=RECOVERING,
        reason=ChangeReason.UNCLEAN_ELECTION,
    )
    again = Election(leader=1, isr=(1,), recovery=RECOVERED)
    back = partition(NO_LEADER, elr=(1,), last_known=(2,))
    assert as_change(key, back, again, cause=WHY) == PartitionChange(
        topic_id=key.topic_id,
        partition_id=0,
        isr=(1,),
        leader=1,
        eligible_leader_replicas=(),
        last_known_elr=(),
        reason=WHY,
    )


# The selectors


@pytest.mark.parametrize(
    ("leader", "isr", "alive", "unclean", "leaving", "expected"),
    [
        # The leader that can go on leads on, wherever it stands in the assignment.
        (2, (1, 2, 3), {1, 2, 3}, False, None, (2, (1, 2, 3), RECOVERED)),
        # Else the first in assignment order, not in ISR order.
        (3, (3, 2, 1), {1, 2}, False, None, (1, (3, 2, 1), RECOVERED)),
        (NO_LEADER, (2,), {1, 2, 3}, False, None, (2, (2,), RECOVERED)),
        # Nobody in the ISR can lead: nobody leads, and the ISR stays until its members are known to be gone.
        (1, (1,), {2, 3}, False, None, (NO_LEADER, (1,), RECOVERED)),
        (1, (1,), {2, 3}, True, None, (2, (2,), RECOVERING)),
        (1, (1,), set(), True, None, (NO_LEADER, (1,), RECOVERED)),
        # Clean comes before unclean.
        (NO_LEADER, (3,), {1, 2, 3}, True, None, (3, (3,), RECOVERED)),
        # One who leaves is out of the ISR, the last one too.
        (1, (1, 2), {1, 2}, False, 1, (2, (2,), RECOVERED)),
        (1, (1,), {1, 2}, False, 1, (NO_LEADER, (), RECOVERED)),
        (1, (1,), {1, 2}, True, 1, (2, (2,), RECOVERING)),
    ],
)
def test_an_offline_partition_gets_the_expected_leader(
    leader, isr, alive, unclean, leaving, expected
) -> None:
    chosen = offline_partition(
        partition(leader, *isr), acceptable=alive.__contains__, unclean=unclean, min_isr=1, leaving=leaving
    )
    assert (chosen.leader, chosen.isr, chosen.recovery) == expected
    assert chosen.unclean == (chosen.recovery is RECOVERING)


def test_the_first_replica_leads_again_if_it_is_in_sync_and_available() -> None:
    def preferred(state: PartitionState, *alive: int) -> Election | NoLeader:
        return preferred_replica(state, acceptable=set(alive).__contains__, min_isr=1)

    assert preferred(partition(2, 1, 2), 1, 2) == Election(leader=1, isr=(1, 2), recovery=RECOVERED)
    assert preferred(partition(2, 2, 3), 1, 2, 3) is NoLeader.PREFERRED_NOT_IN_SYNC
    assert preferred(partition(2, 1, 2), 2) is NoLeader.PREFERRED_UNAVAILABLE


@pytest.mark.parametrize(
    ("leader", "expected"),
    [
        # The leader stays if it is among the new replicas, wherever it stands.
        (3, (3, (3, 2), (4,))),
        # Else the first of them that is in sync.
        (1, (2, (3, 2), (4,))),
    ],
)
def test_the_leader_of_reassigned_replicas_is_one_of_them(leader, expected) -> None:
    state = partition(leader, 1, 3, 2, elr=(4,))._replace(replicas=(4, 2, 3, 1))
    chosen = reassigned_partition(
        state, target=(4, 2, 3), acceptable={1, 2, 3}.__contains__, unclean=True, min_isr=3
    )
    assert (chosen.leader, chosen.isr, chosen.elr) == expected


def test_a_broker_that_shuts_down_hands_over_but_never_uncleanly() -> None:
    def shut_down(state: PartitionState, *alive: int) -> Election:
        return controlled_shutdown(state, acceptable=set(alive).__contains__, min_isr=1, leaving=1)

    handed_over = shut_down(partition(1, 1, 3), 1, 2, 3)
    assert (handed_over.leader, handed_over.isr) == (3, (3,))
    alone = shut_down(partition(1, 1), 1, 2)
    assert (alone.leader, alone.isr, alone.elr, alone.recovery) == (NO_LEADER, (), (1,), RECOVERED)
    assert alone.none is NoLeader.SHUTTING_DOWN


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
    chosen = offline_partition(
        state,
        acceptable=alive.__contains__,
        unclean=False,
        min_isr=2,
        leaving=leaving,
        lost=lost,
    )
    assert (chosen.leader, chosen.isr, chosen.elr, chosen.last_known) == expected
    assert chosen.recovery is RECOVERED


def test_the_last_leader_leads_and_recovers_when_no_replica_has_all_records() -> None:
    def elected(state: PartitionState, alive: set[int]) -> Election:
        return offline_partition(state, acceptable=alive.__contains__, unclean=False, min_isr=2)

    nobody = partition(NO_LEADER, last_known=(2,))
    assert elected(nobody, {1, 3}) == Election(
        leader=NO_LEADER,
        isr=(),
        recovery=RECOVERED,
        last_known=(2,),
        none=NoLeader.LAST_LEADER_UNAVAILABLE,
    ), "the others never had everything"
    assert elected(nobody, {1, 2, 3}) == Election(leader=2, isr=(2,), recovery=RECOVERING, unclean=True)
    # As a version that knew no ELR has left it.
    assert elected(partition(NO_LEADER, 2), {1, 3}).isr == (2,)
    sole = offline_partition(
        partition(NO_LEADER, 2),
        acceptable=lambda _: False,
        unclean=False,
        min_isr=2,
        leaving=2,
        lost=True,
    )
    assert (sole.isr, sole.elr, sole.last_known) == ((), (), (2,))


@pytest.mark.parametrize(
    ("state", "alive", "unclean", "why"),
    [
        (partition(1, 1, 2), {3}, False, NoLeader.ISR_UNAVAILABLE),
        (partition(NO_LEADER, elr=(2,), last_known=(3,)), {1, 3}, False, NoLeader.ELR_UNAVAILABLE),
        (partition(NO_LEADER, last_known=(3,)), {1, 2}, False, NoLeader.LAST_LEADER_UNAVAILABLE),
        (partition(1, 1, 2), set(), True, NoLeader.REPLICAS_UNAVAILABLE),
    ],
)
def test_an_offline_partition_without_a_leader_says_why(state, alive, unclean, why) -> None:
    chosen = offline_partition(state, acceptable=alive.__contains__, unclean=unclean, min_isr=1)
    assert (chosen.leader, chosen.none) == (NO_LEADER, why)


# Whatever the partition, and whoever is alive


class Way(enum.Enum):
    OFFLINE = enum.auto()
    REASSIGNED = enum.auto()
    PREFERRED = enum.auto()
    SHUTDOWN = enum.auto()


BROKERS = st.integers(1, 5)
SETS = st.sets(BROKERS)


@st.composite
def partitions(draw: st.DrawFn) -> PartitionState:
    """As the controller may have it: the ISR and the ELR are apart, and a leader is in the ISR."""
    replicas = tuple(draw(st.lists(BROKERS, min_size=1, max_size=4, unique=True)))
    isr = tuple(draw(st.lists(st.sampled_from(replicas), max_size=4, unique=True)))
    others = [each for each in replicas if each not in isr]
    elr = tuple(each for each in others if draw(st.booleans()))
    leader = draw(st.sampled_from((NO_LEADER, *isr)))
    last_known = () if isr else (draw(st.sampled_from(replicas)),)
    recovery = draw(st.sampled_from(LeaderRecoveryState))
    state = partition(leader, *isr, elr=elr, last_known=last_known)
    return state._replace(replicas=replicas, leader_recovery_state=recovery)


@pytest.mark.parametrize("way", Way)
@given(
    state=partitions(),
    alive=SETS,
    min_isr=st.integers(1, 4),
    unclean=st.booleans(),
    leaving=BROKERS,
    lost=st.booleans(),
    target=st.lists(BROKERS, min_size=1, max_size=4, unique=True).map(tuple),
)
def test_each_selector_elects_only_whom_its_rule_allows_and_says_why_if_nobody(
    way: Way, state: PartitionState, alive, min_isr, unclean, leaving, lost, target
) -> None:
    """`alive` are those that are active with their directory online."""
    acceptable, gone, among = alive.__contains__, {leaving}, state.replicas
    match way:
        case Way.OFFLINE:
            chosen = offline_partition(
                state, acceptable=acceptable, min_isr=min_isr, unclean=unclean, leaving=leaving, lost=lost
            )
        case Way.SHUTDOWN:
            chosen = controlled_shutdown(
                state, acceptable=acceptable, min_isr=min_isr, leaving=leaving, lost=lost
            )
            assert not chosen.unclean
        case Way.REASSIGNED:
            assume(set(target) & set(state.isr))
            gone, among = set(), target
            chosen = reassigned_partition(
                state, target=target, acceptable=acceptable, min_isr=min_isr, unclean=unclean
            )
            assert {*chosen.isr, *chosen.elr} <= set(target)
        case Way.PREFERRED:
            gone = set()
            found = preferred_replica(state, acceptable=acceptable, min_isr=min_isr)
            if isinstance(found, NoLeader):
                assert not {state.replicas[0]} & set(state.isr) & alive, "it could have led"
                return
            chosen = found
            assert (chosen.leader, chosen.isr) == (state.replicas[0], state.isr)
    sure = ({*state.isr, *state.elr} & set(among)) - gone
    if chosen.leader == NO_LEADER:
        assert isinstance(chosen.none, NoLeader)
        assert not sure & alive, f"one of {sure & alive} is sure to have everything, and could lead"
        assert not unclean or way is Way.SHUTDOWN or not (set(among) & alive) - gone
        assert chosen.isr or chosen.elr or chosen.last_known or way is not Way.REASSIGNED
    else:
        assert chosen.none is None
        assert chosen.leader in among
        assert chosen.leader in alive - gone
        assert chosen.leader in chosen.isr
        assert chosen.unclean == (chosen.leader not in sure), "a leader that may lack records, unsaid"
        if chosen.unclean:
            assert chosen.recovery is RECOVERING
            assert unclean or not sure, "somebody is sure to have everything, and may come back"
        else:
            assert chosen.recovery is state.leader_recovery_state
    assert not set(chosen.isr) & set(chosen.elr)
    assert not (way in (Way.OFFLINE, Way.SHUTDOWN) and leaving in chosen.isr)
    assert not (way in (Way.OFFLINE, Way.SHUTDOWN) and lost and leaving in chosen.elr)
