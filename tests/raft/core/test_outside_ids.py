"""The effect of an outside id on a voter: none while a leader is heard or elected, and little otherwise."""

from typing import Any

import pytest

from quorate.error_code import ErrorCode
from quorate.raft.core.core import Core
from quorate.raft.core.effects import ArmTimer, Persist, Role, Send
from quorate.raft.core.events import (
    Durable,
    Received,
    RequestFailed,
    Timer,
    TimerFired,
    TimerKind,
    Unreachable,
)
from quorate.raft.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    Message,
    VoteRequest,
    VoteResponse,
)
from quorate.raft.core.roles.outside_ids import EPOCHS_MAX
from quorate.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey
from tests.raft.core.conftest import answer, grant, grant_both, request_of

ELECTION = Timer(TimerKind.ELECTION)
STRANGER = NodeId(99)
ELSEWHERE = Endpoint("elsewhere", 9093)


def vote(core: Core, epoch: int, *, pre_vote: bool = False, end_offset: int = 1000) -> VoteRequest:
    return request_of(
        core,
        STRANGER,
        VoteRequest,
        voter=ReplicaKey(core.node_id),
        candidate=ReplicaKey(STRANGER, "disk-99"),
        epoch=Epoch(epoch),
        last_epoch=Epoch(epoch - 1),
        end_offset=Offset(end_offset),
        pre_vote=pre_vote,
    )


def begin(core: Core, epoch: int) -> BeginQuorumEpochRequest:
    fields = {"voter": ReplicaKey(core.node_id), "epoch": Epoch(epoch), "endpoint": ELSEWHERE}
    return request_of(core, STRANGER, BeginQuorumEpochRequest, **fields)


def end(core: Core, epoch: int) -> EndQuorumEpochRequest:
    fields = {"epoch": Epoch(epoch), "preferred_successors": (STRANGER,)}
    return request_of(core, STRANGER, EndQuorumEpochRequest, **fields)


def everything(core: Core) -> list[Message]:
    later = (core.epoch, core.epoch + 1, core.epoch + 100, 2**31 - 2)
    return [
        each
        for epoch in later
        for each in (
            vote(core, epoch),
            vote(core, epoch, pre_vote=True),
            begin(core, epoch),
            end(core, epoch),
        )
    ]


def leader(make_core: Any) -> Core:
    core: Core = make_core(directory_id="disk-1")
    core.start()
    core.step(TimerFired(ELECTION))
    grant_both(core, 2)
    core.step(Durable(core.generation, core.log_end_offset))
    assert core.role is Role.LEADER
    return core


def prospective(make_core: Any) -> Core:
    core: Core = make_core(directory_id="disk-1")
    core.start()
    core.step(TimerFired(ELECTION))
    assert core.role is Role.PROSPECTIVE
    return core


def candidate(make_core: Any) -> Core:
    core = prospective(make_core)
    grant(core, 2, pre_vote=True)
    assert core.role is Role.CANDIDATE
    return core


def follower_that_lost_its_leader(make_core: Any) -> Core:
    core = follower(make_core)
    core.step(Unreachable(NodeId(2)))
    return core


def follower(make_core: Any) -> Core:
    core: Core = make_core(directory_id="disk-1")
    core.start()
    fields = {"voter": ReplicaKey(NodeId(1)), "epoch": Epoch(4), "endpoint": Endpoint("node-2", 9093)}
    core.step(Received(request_of(core, 2, BeginQuorumEpochRequest, **fields)))
    assert core.role is Role.FOLLOWER
    return core


def voter_that_voted(make_core: Any) -> Core:
    """For another voter, in an election that is under way."""
    core: Core = make_core(directory_id="disk-1")
    core.start()
    request = request_of(
        core,
        2,
        VoteRequest,
        voter=ReplicaKey(NodeId(1)),
        candidate=ReplicaKey(NodeId(2)),
        epoch=Epoch(4),
        last_epoch=Epoch(0),
        end_offset=Offset(0),
    )
    core.step(Received(request))
    assert core.voted == ReplicaKey(NodeId(2))
    return core


@pytest.mark.parametrize(
    "of", [leader, follower, follower_that_lost_its_leader, prospective, candidate, voter_that_voted]
)
def test_an_id_outside_the_voter_sets_changes_nothing_while_a_leader_is_heard_or_elected(
    of: Any, make_core: Any
) -> None:
    core: Core = of(make_core)
    before = core.key()
    for message in everything(core):
        effects = core.step(Received(message))
        (told,) = [effect.message for effect in effects if isinstance(effect, Send)]
        assert effects == (Send(told),) and told.destination == STRANGER
        assert not (isinstance(told, VoteResponse) and told.granted)
        assert core.key() == before, message


def test_a_voter_without_a_leader_votes_for_an_outside_id_by_the_same_rules_once(make_core: Any) -> None:
    """Its own voter set may be old, and the outside id the only one to bring the quorum back."""
    core: Core = make_core(directory_id="disk-1")
    core.start()
    before = core.key()
    (asked,) = core.step(Received(vote(core, 3, pre_vote=True)))
    assert isinstance(asked, Send) and isinstance(asked.message, VoteResponse) and asked.message.granted
    assert core.key() == before, "a question costs nothing"
    core.step(Received(vote(core, core.epoch + 1 + EPOCHS_MAX)))
    assert core.key() == before, "no honest one is so far ahead"
    effects = core.step(Received(vote(core, 3)))
    assert core.voted == ReplicaKey(STRANGER, "disk-99") and core.epoch == 3
    assert Persist(core.election) in effects
    after = core.key()
    for message in everything(core):
        if message != vote(core, 3):
            core.step(Received(message))
    assert core.key() == after, "now it is the voters' turn"


def test_an_observer_votes_for_no_id_outside_the_voter_sets(make_core: Any) -> None:
    """In an epoch ahead of the leader's it could fetch no more, and nobody would follow it there."""
    core: Core = make_core(node=4, directory_id="disk-4")
    core.start()
    before = core.key()
    for pre_vote in (True, False):
        effects = core.step(Received(vote(core, 3, pre_vote=pre_vote)))
        assert [each.message.granted for each in effects if isinstance(each, Send)] == [False]  # type: ignore[attr-defined]
    assert core.key() == before


def test_an_outside_id_with_a_shorter_log_raises_no_epoch(make_core: Any) -> None:
    core: Core = make_core(directory_id="disk-1", epoch=1, epochs=(1, 1, 1))
    core.start()
    before = core.key()
    request = vote(core, 2, end_offset=2)
    core.step(Received(request))
    assert core.key() == before


def test_an_outside_id_that_says_it_leads_is_asked_and_followed_only_if_it_answers_so(make_core: Any) -> None:
    core: Core = make_core(directory_id="disk-1")
    core.start()
    for voter in (2, 3):
        if NodeId(voter) in core._node.in_flight:
            core.step(RequestFailed(NodeId(voter), core._node.in_flight[NodeId(voter)]))
    for peer in list(core._node.in_flight):
        core.step(RequestFailed(peer, core._node.in_flight[peer]))
    stored = core.election
    effects = core.step(Received(begin(core, 6)))
    asked = next(effect.message for effect in effects if isinstance(effect, Send))
    assert isinstance(asked, FetchRequest) and asked.destination == STRANGER
    assert core.endpoint_of(STRANGER) == ELSEWHERE and core.election == stored
    answer(
        core,
        STRANGER,
        FetchResponse,
        epoch=Epoch(6),
        leader=STRANGER,
        leader_endpoint=ELSEWHERE,
        error=ErrorCode.FENCED_LEADER_EPOCH,
        high_watermark=None,
        log_start_offset=Offset(0),
    )
    assert (core.role, core.leader, core.epoch) == (Role.FOLLOWER, STRANGER, 6)


def test_only_one_id_outside_the_voter_sets_is_remembered(make_core: Any) -> None:
    core: Core = make_core(directory_id="disk-1")
    core.start()
    peers = len(core._node.may_know_leader)
    for _ in range(3):
        core.step(Received(begin(core, 6)))
    assert len(core._node.may_know_leader) == peers + 1


def test_a_follower_that_lost_its_leader_heeds_outside_ids_after_a_round_of_its_own(
    make_core: Any,
) -> None:
    core = follower(make_core)
    core.step(Unreachable(NodeId(2)))
    before = core.key()
    core.step(Received(vote(core, 5)))
    assert core.key() == before
    core.step(TimerFired(Timer(TimerKind.FETCH)))
    core.step(TimerFired(ELECTION))
    assert (core.role, core.epoch) == (Role.FOLLOWER, 4), "nobody granted it"
    effects = core.step(Received(vote(core, 5)))
    assert core.epoch == 5 and any(isinstance(effect, ArmTimer) for effect in effects)
    core.step(TimerFired(ELECTION))
    assert core.role is Role.PROSPECTIVE
    before = core.key()
    core.step(Received(vote(core, 6)))
    assert core.key() == before
