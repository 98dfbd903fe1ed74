"""Read index and leadership transfer, where the traces do not show it."""

from typing import Any

from quorate.error_code import ErrorCode
from quorate.raft.core.core import Core
from quorate.raft.core.effects import (
    ArmTimer,
    Effect,
    ReadIndexConfirmed,
    ReadIndexFailed,
    Role,
    Send,
    TransferEnded,
)
from quorate.raft.core.events import (
    Durable,
    Propose,
    ReadIndex,
    Resign,
    Timer,
    TimerFired,
    TimerKind,
    TransferLeadership,
)
from quorate.raft.core.messages import EndQuorumEpochRequest, FetchResponse
from quorate.types import Epoch, NodeId, Offset, ReplicaKey
from tests.raft.core.conftest import fetch_as, grant_both

TWO, THREE = NodeId(2), NodeId(3)
TRANSFER = Timer(TimerKind.TRANSFER)


def fetch(core: Core, source: int, *, read_round: int = 0, offset: int | None = None) -> tuple[Effect, ...]:
    return fetch_as(core, ReplicaKey(NodeId(source)), offset, read_round=read_round)


def leading(make_core: Any, *, voters: int = 3, committed: bool = True) -> Core:
    core: Core = make_core(voters=voters)
    core.start()
    core.step(TimerFired(Timer(TimerKind.ELECTION)))
    grant_both(core, *range(2, voters // 2 + 2))
    assert core.role is Role.LEADER
    core.step(Durable(core.generation, Offset(1)))
    if committed:
        for node in range(2, voters + 1):
            fetch(core, node)
    return core


def passed(effects: tuple[Effect, ...]) -> list[tuple[int, int]]:
    return [
        (effect.read_round, effect.read_index) for effect in effects if isinstance(effect, ReadIndexConfirmed)
    ]


def told_rounds(effects: tuple[Effect, ...]) -> list[tuple[int, int]]:
    return [
        (effect.message.destination, effect.message.read_round)
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, FetchResponse)
    ]


# --- read index ---


def test_a_sole_voter_confirms_reads_by_itself(make_core: Any) -> None:
    core = leading(make_core, voters=1)
    assert core.step(ReadIndex(4)) == (ReadIndexConfirmed(4, Offset(1)),)


def test_a_sole_voter_waits_for_its_first_commit(make_core: Any) -> None:
    core = make_core(voters=1)
    core.start()
    assert core.step(ReadIndex(1)) == ()
    assert passed(core.step(Durable(core.generation, Offset(1)))) == [(1, 1)]


def test_a_majority_of_five_is_two_echoes(make_core: Any) -> None:
    core = leading(make_core, voters=5)
    for node in (2, 3):
        fetch(core, node)  # they were told the high watermark
    assert told_rounds(core.step(ReadIndex(3))) == [(node, 3) for node in (2, 3, 4, 5)]
    assert passed(fetch(core, 2, read_round=3)) == []
    assert passed(fetch(core, 2, read_round=3)) == [], "the same voter twice is one"
    assert passed(fetch(core, 4, read_round=3)) == [(3, 1)]
    assert passed(fetch(core, 5, read_round=3)) == [], "told once"


def test_an_observer_proves_nothing(make_core: Any) -> None:
    core = leading(make_core)
    core.step(ReadIndex(1))
    assert passed(fetch(core, 9, read_round=1)) == []
    assert passed(fetch(core, 3, read_round=1)) == [(1, 1)]


def test_the_read_index_is_what_was_committed_when_it_was_asked_for(make_core: Any) -> None:
    core = leading(make_core)
    core.step(ReadIndex(1))
    core.step(Propose(1, 2))
    core.step(Durable(core.generation, Offset(3)))
    core.step(ReadIndex(2))
    assert passed(fetch(core, 2, read_round=1)) == [(1, 1)], "a later one that is under way holds it up"
    assert core.high_watermark == 3
    assert passed(fetch(core, 2, read_round=2)) == [(2, 1)]


def test_a_confirmed_round_confirms_the_reads_of_earlier_rounds(make_core: Any) -> None:
    core = leading(make_core)
    for read_round in (1, 2, 3):
        core.step(ReadIndex(read_round))
    assert passed(fetch(core, 2, read_round=2)) == [(2, 1)]
    assert passed(fetch(core, 2, read_round=3)) == [(3, 1)]


def test_a_fetch_that_has_not_heard_of_the_read_index_is_not_parked(make_core: Any) -> None:
    core = leading(make_core)
    core.step(ReadIndex(5))
    assert told_rounds(fetch(core, 2, read_round=0)) == [(2, 5)]
    effects = fetch(core, 2, read_round=5)
    assert passed(effects) == [(5, 1)]
    assert isinstance(effects[-1], ArmTimer), "parked: nothing to tell"


def test_a_read_round_is_not_mentioned_once_it_is_confirmed(make_core: Any) -> None:
    core = leading(make_core)
    calm = core.key()
    core.step(ReadIndex(5))
    fetch(core, 2, read_round=5)
    fetch(core, 3, read_round=0)
    assert told_rounds(core.step(TimerFired(Timer(TimerKind.FETCH_WAIT, TWO)))) == [(2, 0)]
    assert core._roles.role._read_index.state_key() == leading(make_core)._roles.role._read_index.state_key()  # type: ignore[attr-defined]
    assert core.key() != calm, "what was parked differs"


def test_reads_fail_without_a_leader_and_when_leadership_ends(make_core: Any) -> None:
    core = leading(make_core)
    core.step(ReadIndex(1))
    core.step(ReadIndex(2))
    failed = [effect for effect in core.step(Resign()) if isinstance(effect, ReadIndexFailed)]
    assert failed == [ReadIndexFailed(2, None, Epoch(1))]
    assert core.step(ReadIndex(3)) == (ReadIndexFailed(3, None, Epoch(1)),)


# --- leadership transfer ---


def successors(effects: tuple[Effect, ...]) -> list[tuple[NodeId, ...]]:
    return [
        effect.message.preferred_successors
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, EndQuorumEpochRequest)
    ]


def test_the_chosen_one_comes_first_whatever_the_others_have(make_core: Any) -> None:
    core = leading(make_core)
    effects = core.step(TransferLeadership(THREE))
    assert core.role is Role.RESIGNED and successors(effects) == [(THREE, TWO)] * 2


def test_leadership_goes_only_to_another_voter(make_core: Any) -> None:
    core = leading(make_core)
    for successor in (1, 9):
        refused = TransferEnded(NodeId(successor), ErrorCode.INVALID_VOTER_KEY)
        assert core.step(TransferLeadership(NodeId(successor))) == (refused,)
    follower = make_core(epoch=2, leader=2)
    follower.start()
    assert follower.step(TransferLeadership(THREE)) == (
        TransferEnded(THREE, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    )


def test_a_transfer_waits_until_all_is_committed_and_the_successor_has_it(make_core: Any) -> None:
    core = leading(make_core)
    core.step(Propose(1, 1))
    assert core.step(TransferLeadership(TWO)) == (ArmTimer(TRANSFER, 1000, 1000),)
    fetch(core, 3)
    core.step(Durable(core.generation, Offset(2)))
    assert core.high_watermark == 2 and core.role is Role.LEADER, "node 2 has not got it"
    fetch(core, 2)
    assert core.role is Role.RESIGNED


def test_a_successor_that_is_ahead_of_the_majority_waits_for_it(make_core: Any) -> None:
    core = leading(make_core, voters=5)
    core.step(Propose(1, 1))
    core.step(Durable(core.generation, Offset(2)))
    core.step(TransferLeadership(TWO))
    fetch(core, 2)
    assert core.role is Role.LEADER, "two of five have it"
    fetch(core, 3)
    assert core.role is Role.RESIGNED


def test_a_transfer_waits_for_the_leaders_own_sync(make_core: Any) -> None:
    core = leading(make_core)
    core.step(Propose(1, 1))
    core.step(TransferLeadership(TWO))
    fetch(core, 2)
    fetch(core, 3)
    assert core.high_watermark == 2 and core.role is Role.LEADER
    core.step(Durable(core.generation, Offset(2)))
    assert core.role is Role.RESIGNED


def test_a_second_choice_takes_the_place_of_the_first(make_core: Any) -> None:
    core = leading(make_core)
    core.step(Propose(1, 1))
    core.step(TransferLeadership(TWO))
    assert core.step(TransferLeadership(THREE)) == (
        TransferEnded(TWO, ErrorCode.REQUEST_TIMED_OUT),
        ArmTimer(TRANSFER, 1000, 1000),
    )
    assert core.step(TimerFired(TRANSFER)) == (TransferEnded(THREE, ErrorCode.REQUEST_TIMED_OUT),)
    core.step(Durable(core.generation, Offset(2)))
    fetch(core, 3)
    assert core.role is Role.LEADER, "it is over"
