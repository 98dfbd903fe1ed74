"""One event, and the whole list of its effects: one too many fails too."""

from dataclasses import replace
from typing import Any

import pytest

from quorate.error_code import ErrorCode
from quorate.invariant import InvariantError
from quorate.raft.core.core import Core
from quorate.raft.core.core_config import BatchSpan, CoreConfig, Generation
from quorate.raft.core.effects import (
    AppendFetched,
    AppendLeaderChange,
    AppendProposal,
    ArmTimer,
    CancelTimer,
    Effect,
    HighWatermarkAdvanced,
    Persist,
    RejectProposal,
    Role,
    RoleChanged,
    Send,
    SendRecords,
    Truncate,
)
from quorate.raft.core.events import (
    CommitHeard,
    Durable,
    Propose,
    Received,
    RequestFailed,
    Resign,
    Timer,
    TimerFired,
    TimerKind,
    Unreachable,
)
from quorate.raft.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from quorate.types import ElectionState, Endpoint, Epoch, EpochEnd, NodeId, Offset, ReplicaKey
from tests.raft.core.conftest import answer_of, grant_both

ELECTION = Timer(TimerKind.ELECTION)
FETCH = Timer(TimerKind.FETCH)
CHECK_QUORUM = Timer(TimerKind.CHECK_QUORUM)
BEGIN_QUORUM = Timer(TimerKind.BEGIN_QUORUM)
ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
ARM_ELECTION = ArmTimer(ELECTION, 1000, 1999)
ARM_FETCH = ArmTimer(FETCH, 2000, 2000)
ARM_CHECK_QUORUM = ArmTimer(CHECK_QUORUM, 3000, 3000)


def at(node: int) -> Endpoint:
    return Endpoint(f"node-{node}", 9093)


def fetch_request(**changes: Any) -> FetchRequest:
    request = FetchRequest(
        source=TWO,
        destination=ONE,
        correlation=7,
        cluster_id="c",
        replica=ReplicaKey(TWO),
        epoch=Epoch(1),
        offset=Offset(1),
        last_fetched_epoch=Epoch(1),
        max_wait_ms=500,
        max_bytes=100,
        high_watermark=None,
    )
    return replace(request, **changes)


def fetch_response(**changes: Any) -> FetchResponse:
    response = FetchResponse(source=TWO, destination=ONE, correlation=1, epoch=Epoch(2), leader=TWO)
    return replace(response, **changes)


def leader_answer(**changes: Any) -> FetchResponse:
    """Node 1's, leading epoch 1, to `fetch_request()`, which asks for records and so knows where it is."""
    response = FetchResponse(source=ONE, destination=TWO, correlation=7, epoch=Epoch(1), leader=ONE)
    return replace(response, **changes)


def vote_request(**changes: Any) -> VoteRequest:
    request = VoteRequest(
        source=TWO,
        destination=ONE,
        correlation=7,
        cluster_id="c",
        voter=ReplicaKey(ONE),
        candidate=ReplicaKey(TWO),
        epoch=Epoch(3),
        last_epoch=Epoch(2),
        end_offset=Offset(2),
    )
    return replace(request, **changes)


def vote_response(core: Core, source: NodeId, **changes: Any) -> VoteResponse:
    return answer_of(core, source, VoteResponse, **{"granted": True, **changes})


def leading(make_core: Any, **settings: Any) -> Core:
    """Node 1, leader of epoch 1 of an empty log, its LeaderChange durable, without a Fetch."""
    core: Core = make_core(**settings)
    core.start()
    core.step(TimerFired(ELECTION))
    grant_both(core, TWO)
    assert core.role is Role.LEADER
    core.step(Durable(Generation(0), Offset(1)))
    return core


def following(make_core: Any, **settings: Any) -> Core:
    """Node 1, following node 2 in epoch 2, with records of epochs 1 and 2, its first Fetch in flight."""
    core: Core = make_core(**{"epoch": 2, "leader": 2, "epochs": (1, 2), **settings})
    core.start()
    return core


# --- start ---


def test_a_node_whose_log_is_ahead_of_its_vote_starts_unattached_at_the_logs_epoch(make_core: Any) -> None:
    core = make_core(epoch=1, voted=1, epochs=(1, 4))
    effects = core.start()
    assert effects[:3] == (
        Persist(ElectionState(Epoch(4))),
        RoleChanged(Role.UNATTACHED, Epoch(4), None, None),
        ARM_ELECTION,
    )
    assert isinstance(effects[3], Send) and len(effects) == 4


def test_a_leader_restarts_as_resigned_and_says_so(make_core: Any) -> None:
    core = make_core(epoch=3, leader=1, voted=1, epochs=(1, 3))

    def end(voter: NodeId, correlation: int) -> Send:
        return Send(
            EndQuorumEpochRequest(
                source=ONE,
                destination=voter,
                correlation=correlation,
                cluster_id="c",
                epoch=Epoch(3),
                preferred_successors=(TWO, THREE),
            )
        )

    assert core.start() == (
        RoleChanged(Role.RESIGNED, Epoch(3), None, ONE),
        ARM_ELECTION,
        end(TWO, 1),
        end(THREE, 2),
    )
    assert core.leader is None


def test_a_candidate_restarts_as_candidate_of_the_same_epoch(make_core: Any) -> None:
    core = make_core(epoch=3, voted=1)
    effects = core.start()
    assert core.role is Role.CANDIDATE and core.epoch == 3
    assert not any(isinstance(effect, Persist) for effect in effects)


def test_a_candidate_that_lost_restarts_as_follower_of_the_winner(make_core: Any) -> None:
    core = make_core(epoch=3, voted=1, leader=2)
    core.start()
    assert core.role is Role.FOLLOWER and core.leader == 2 and core.voted == ReplicaKey(ONE)


def test_a_follower_restarts_as_follower_and_fetches(make_core: Any) -> None:
    core = make_core(epoch=2, leader=2, epochs=(1, 2))
    assert core.start() == (
        RoleChanged(Role.FOLLOWER, Epoch(2), TWO, None),
        ARM_FETCH,
        Send(
            FetchRequest(
                source=ONE,
                destination=TWO,
                correlation=1,
                cluster_id="c",
                replica=ReplicaKey(ONE),
                epoch=Epoch(2),
                offset=Offset(2),
                last_fetched_epoch=Epoch(2),
                max_wait_ms=500,
                max_bytes=8 * 1024 * 1024,
                high_watermark=None,
            )
        ),
    )


def test_an_observer_never_stands(make_core: Any) -> None:
    core = make_core(node=4, epoch=2, leader=2)
    core.start()
    core.step(TimerFired(FETCH))
    assert core.role is Role.UNATTACHED
    for event in (TimerFired(ELECTION), TimerFired(FETCH)):
        assert core.step(event) == ()
    assert core.epoch == 2


def nobody_leads(core: Core, source: NodeId) -> FetchResponse:
    return answer_of(core, source, FetchResponse, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_a_voter_that_hears_from_a_majority_that_no_leader_is_known_stands_soon_and_once(
    make_core: Any,
) -> None:
    core = make_core()
    core.start()
    hurried = ArmTimer(ELECTION, 0, 200)
    assert hurried in core.step(Received(nobody_leads(core, TWO)))
    assert hurried not in core.step(Received(nobody_leads(core, THREE)))


def test_a_voter_that_has_voted_lets_the_election_under_way_end(make_core: Any) -> None:
    core = make_core(epoch=3, voted=2)
    core.start()
    effects = core.step(Received(nobody_leads(core, TWO)))
    assert not any(isinstance(effect, ArmTimer) and effect.timer == ELECTION for effect in effects)


# --- votes ---


def answer(core: Core, request: VoteRequest, **changes: Any) -> Send:
    response = VoteResponse(
        source=ONE, destination=TWO, correlation=7, epoch=request.epoch, pre_vote=request.pre_vote
    )
    return Send(replace(response, **changes))


def test_a_vote_is_stored_with_its_epoch_before_it_is_said(make_core: Any) -> None:
    core = make_core(epoch=2, epochs=(1, 2))
    core.start()
    request = vote_request()
    effects = core.step(Received(request))
    assert effects[0] == Persist(ElectionState(Epoch(3), None, ReplicaKey(TWO)))
    assert effects[1] == RoleChanged(Role.UNATTACHED, Epoch(3), None, TWO)
    assert effects[2] == ARM_ELECTION
    assert effects[-1] == answer(core, request, granted=True)


def test_a_second_candidate_is_refused_and_the_first_told_again(make_core: Any) -> None:
    core = make_core(epoch=2, epochs=(1, 2))
    core.start()
    core.step(Received(vote_request()))
    again = vote_request(correlation=8)
    assert core.step(Received(again)) == (answer(core, again, granted=True, correlation=8),)
    other = vote_request(source=THREE, candidate=ReplicaKey(THREE))
    assert core.step(Received(other)) == (answer(core, other, destination=THREE),)


@pytest.mark.parametrize(
    ("last_epoch", "end_offset", "granted"), [(2, 2, True), (2, 1, False), (1, 9, False), (2, 3, True)]
)
def test_the_log_decides_epoch_first(make_core: Any, last_epoch: int, end_offset: int, granted: bool) -> None:
    for pre_vote in (False, True):
        core = make_core(epoch=3, epochs=(1, 2))
        core.start()
        request = vote_request(last_epoch=last_epoch, end_offset=end_offset, pre_vote=pre_vote)
        assert core.step(Received(request))[-1] == answer(core, request, granted=granted)
        assert core.voted == (ReplicaKey(TWO) if granted and not pre_vote else None)


def test_a_follower_that_hears_its_leader_refuses_a_pre_vote_until_it_is_gone(make_core: Any) -> None:
    core = following(make_core)
    request = vote_request(source=THREE, candidate=ReplicaKey(THREE), epoch=Epoch(2), pre_vote=True)

    def granted() -> bool:
        effect, *_ = core.step(Received(request))
        assert isinstance(effect, Send) and isinstance(effect.message, VoteResponse)
        return effect.message.granted

    assert granted(), "it has not heard it yet"
    core.step(Received(fetch_response()))
    assert not granted()
    assert core.step(Unreachable(THREE)) == ()
    assert core.step(Unreachable(TWO)) == (ArmTimer(FETCH, 0, 50),)
    assert core.step(Unreachable(TWO)) == ()
    assert granted()
    core.step(Received(fetch_response(correlation=2)))
    assert not granted(), "it answered"


def test_of_two_equal_rivals_the_lower_id_refuses_until_the_other_has_answered(make_core: Any) -> None:
    core = make_core(epoch=3, epochs=(1, 2))
    core.start()
    effects = core.step(TimerFired(ELECTION))
    core.step(RequestFailed(TWO, correlation_of(effects, TWO)))

    def granted(source: NodeId, **changes: Any) -> bool:
        request = vote_request(source=source, candidate=ReplicaKey(source), pre_vote=True, **changes)
        effect, *_ = core.step(Received(request))
        assert isinstance(effect, Send) and isinstance(effect.message, VoteResponse)
        return effect.message.granted

    assert not granted(THREE), "it has not answered"
    assert granted(THREE, end_offset=Offset(3)), "its log is longer: it would not grant ours"
    assert granted(TWO), "it could not be asked"
    core.step(RequestFailed(THREE, correlation_of(effects, THREE)))
    assert granted(THREE), "it could not be asked"


def correlation_of(effects: tuple[Effect, ...], destination: NodeId) -> int:
    """The correlation of the request to `destination` among the effects."""
    (found,) = (
        each.message.correlation
        for each in effects
        if isinstance(each, Send) and each.message.destination == destination
    )
    return int(found)


def test_a_leader_refuses_pre_votes_of_its_epoch_and_gives_way_to_a_higher_one(make_core: Any) -> None:
    core = leading(make_core)
    request = vote_request(epoch=Epoch(1), last_epoch=Epoch(1), pre_vote=True)
    assert core.step(Received(request)) == (answer(core, request, leader=ONE, leader_endpoint=at(1)),)
    core.step(Received(vote_request(epoch=Epoch(2), last_epoch=Epoch(1), pre_vote=True)))
    assert core.role is Role.UNATTACHED and core.epoch == 2


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"cluster_id": "d"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"source": ONE, "candidate": ReplicaKey(ONE)}, ErrorCode.INVALID_REQUEST),
        ({"candidate": ReplicaKey(THREE)}, ErrorCode.INVALID_REQUEST),
        ({"end_offset": -1}, ErrorCode.INVALID_REQUEST),
        ({"last_epoch": -1}, ErrorCode.INVALID_REQUEST),
        ({"last_epoch": 3}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 1, "last_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 2, "last_epoch": 1, "voter": ReplicaKey(THREE)}, ErrorCode.INVALID_VOTER_KEY),
    ],
)
def test_a_wrong_vote_request_changes_nothing(
    make_core: Any, changes: dict[str, Any], error: ErrorCode
) -> None:
    core = make_core(epoch=2, epochs=(1, 2))
    core.start()
    before = core.key()
    (effect,) = core.step(Received(vote_request(**changes)))
    assert isinstance(effect, Send) and isinstance(effect.message, VoteResponse)
    assert (effect.message.error, effect.message.granted) == (error, False)
    assert core.key() == before


def test_a_request_for_another_voter_still_moves_the_epoch(make_core: Any) -> None:
    core = make_core(epoch=2, directory_id="mine")
    core.start()
    effects = core.step(Received(vote_request(voter=ReplicaKey(ONE, "theirs"))))
    assert effects[0] == Persist(ElectionState(Epoch(3)))
    assert effects[-1] == answer(core, vote_request(), error=ErrorCode.INVALID_VOTER_KEY)


def test_votes_are_counted_by_voter_and_each_round_starts_empty(make_core: Any) -> None:
    core = make_core(voters=5)
    core.start()
    core.step(TimerFired(ELECTION))
    grant = vote_response(core, TWO, pre_vote=True)
    assert core.step(Received(grant)) == ()
    assert core.step(Received(grant)) == (), "a duplicate: nothing is in flight to node 2"
    core.step(TimerFired(ELECTION))  # back to unattached
    core.step(TimerFired(ELECTION))
    assert core.role is Role.PROSPECTIVE
    assert core.step(Received(vote_response(core, THREE, pre_vote=True))) == ()
    assert core.role is Role.PROSPECTIVE


def test_votes_of_an_earlier_round_are_ignored(make_core: Any) -> None:
    core = make_core()
    core.start()
    core.step(TimerFired(ELECTION))
    late = vote_response(core, TWO, pre_vote=True)
    core.step(TimerFired(ELECTION))
    core.step(TimerFired(ELECTION))
    assert core.step(Received(late)) == ()
    assert core.role is Role.PROSPECTIVE


def test_a_lost_pre_vote_returns_to_the_leader_that_was_known(make_core: Any) -> None:
    core = following(make_core)
    core.step(TimerFired(FETCH))
    assert core.role is Role.PROSPECTIVE
    core.step(Received(vote_response(core, THREE, pre_vote=True, granted=False, leader=TWO)))
    assert core.role is Role.PROSPECTIVE, "hearsay of a leader we don't hear ends nothing"
    core.step(Received(vote_response(core, TWO, pre_vote=True, granted=False, leader=TWO)))
    assert core.role is Role.FOLLOWER and core.leader == 2


def test_a_voter_that_refused_and_then_asks_itself_is_asked_again(make_core: Any) -> None:
    core = following(make_core)
    core.step(TimerFired(FETCH))
    core.step(Received(vote_response(core, THREE, pre_vote=True, granted=False, leader=TWO)))
    rival = vote_request(
        source=THREE, candidate=ReplicaKey(THREE), epoch=Epoch(2), last_epoch=Epoch(1), pre_vote=True
    )
    refusal, question = core.step(Received(rival))
    assert refusal == answer(core, rival, destination=THREE, leader=TWO, leader_endpoint=at(2))
    assert isinstance(question, Send) and isinstance(question.message, VoteRequest)
    assert question.message.destination == THREE


def test_a_winner_stores_that_it_leads_before_it_writes(make_core: Any) -> None:
    core = make_core(epochs=(1,), epoch=1)
    core.start()
    core.step(TimerFired(ELECTION))
    core.step(Received(vote_response(core, TWO, pre_vote=True)))

    def begin(voter: NodeId, correlation: int) -> Send:
        return Send(
            BeginQuorumEpochRequest(
                source=ONE,
                destination=voter,
                correlation=correlation,
                cluster_id="c",
                voter=ReplicaKey(voter),
                epoch=Epoch(2),
                endpoint=at(1),
            )
        )

    assert core.step(Received(vote_response(core, TWO))) == (
        Persist(ElectionState(Epoch(2), ONE, ReplicaKey(ONE))),
        CancelTimer(ELECTION),
        RoleChanged(Role.LEADER, Epoch(2), ONE, ONE, epoch_start_offset=Offset(1)),
        AppendLeaderChange(
            Generation(0),
            base_offset=Offset(1),
            epoch=Epoch(2),
            leader=ONE,
            voters=(ONE, TWO, THREE),
            granting_voters=(ONE, TWO),
        ),
        ARM_CHECK_QUORUM,
        ArmTimer(BEGIN_QUORUM, 1000, 1000),
        begin(TWO, 6),
        begin(THREE, 7),
    )


# --- the leader ---


def test_a_leader_offers_a_proposal_to_parked_fetches_before_its_own_sync(make_core: Any) -> None:
    core = leading(make_core)
    park = core.step(Received(fetch_request()))
    assert park == (
        ARM_CHECK_QUORUM,
        HighWatermarkAdvanced(Offset(1)),
        Send(leader_answer(high_watermark=1)),
    )
    park = core.step(Received(fetch_request(high_watermark=1)))
    assert park == (ARM_CHECK_QUORUM, ArmTimer(Timer(TimerKind.FETCH_WAIT, TWO), 500, 500))
    assert core.step(Propose(9, 3)) == (
        AppendProposal(Generation(0), 9, Offset(1), Offset(4), Epoch(1)),
        SendRecords(leader_answer(high_watermark=1), Offset(1), 100),
    )
    assert core.step(Durable(Generation(0), Offset(4))) == ()
    assert core.step(Received(fetch_request(offset=4, high_watermark=1))) == (
        ARM_CHECK_QUORUM,
        HighWatermarkAdvanced(Offset(4)),
        Send(leader_answer(high_watermark=4)),
    )


def test_a_leader_may_wait_for_records_to_go_with_a_newer_high_watermark(make_core: Any) -> None:
    core = leading(make_core, config=CoreConfig(high_watermark_wait_ms=3))
    wait = Timer(TimerKind.FETCH_WAIT, TWO)
    assert core.step(Received(fetch_request())) == (
        ARM_CHECK_QUORUM,
        HighWatermarkAdvanced(Offset(1)),
        ArmTimer(wait, 3, 3),
    )
    assert core.step(TimerFired(wait)) == (Send(leader_answer(high_watermark=1)),)
    assert core.step(TimerFired(wait)) == ()


@pytest.mark.bug("KAFKA-15100")
def test_a_fetch_that_waited_long_enough_is_answered_empty(make_core: Any) -> None:
    """It changes nothing else, nor does a wait that ends when nobody leads here."""
    core = leading(make_core)
    core.step(Received(fetch_request()))
    core.step(Received(fetch_request(high_watermark=1)))
    wait = TimerFired(Timer(TimerKind.FETCH_WAIT, TWO))
    before = core.replica_end_offsets()
    assert core.step(wait) == (Send(leader_answer(high_watermark=1)),)
    assert core.replica_end_offsets() == before
    assert core.step(wait) == ()
    core.step(Received(fetch_request(high_watermark=1)))
    core.step(Resign())
    resigned = core.key()
    assert core.step(wait) == ()
    assert core.key() == resigned


def test_a_newer_fetch_replaces_the_parked_one(make_core: Any) -> None:
    core = leading(make_core)
    core.step(Received(fetch_request()))
    core.step(Received(fetch_request(high_watermark=1)))
    assert core.step(Received(fetch_request(high_watermark=1, correlation=8)))[0] == Send(
        leader_answer(high_watermark=1)
    )


@pytest.mark.bug("KAFKA-15100")
@pytest.mark.bug("KAFKA-13141")
def test_a_diverging_fetch_is_answered_at_once_and_counts_for_nothing(make_core: Any) -> None:
    core = leading(make_core)
    before = core.replica_end_offsets()
    assert core.step(Received(fetch_request(offset=5))) == (
        Send(leader_answer(diverging=EpochEnd(Epoch(1), Offset(1)))),
    )
    assert core.replica_end_offsets() == before and core.high_watermark is None


def test_the_high_watermark_stays_where_it_is_when_a_voter_lost_its_log(make_core: Any) -> None:
    core = leading(make_core)
    core.step(Received(fetch_request()))
    assert core.high_watermark == 1
    effects = core.step(Received(fetch_request(offset=0, last_fetched_epoch=0)))
    assert effects == (ARM_CHECK_QUORUM, SendRecords(leader_answer(high_watermark=1), Offset(0), 100))
    assert core.high_watermark == 1


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"cluster_id": "d"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"offset": -1}, ErrorCode.INVALID_REQUEST),
        ({"last_fetched_epoch": 2}, ErrorCode.INVALID_REQUEST),
        ({"max_wait_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"max_bytes": -1}, ErrorCode.INVALID_REQUEST),
        ({"replica": ReplicaKey(THREE)}, ErrorCode.INVALID_REQUEST),
        ({"source": ONE, "replica": ReplicaKey(ONE)}, ErrorCode.INVALID_REQUEST),
        ({"destination": THREE}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 0, "last_fetched_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 2}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_wrong_fetch_changes_nothing(make_core: Any, changes: dict[str, Any], error: ErrorCode) -> None:
    core = leading(make_core)
    before = core.key()
    request = fetch_request(**changes)
    assert core.step(Received(request)) == (
        Send(leader_answer(error=error, destination=request.source, leader_endpoint=at(1))),
    )
    assert core.key() == before


def test_a_fetch_of_a_voters_id_with_another_disk_is_an_observers(make_core: Any) -> None:
    core = leading(make_core)
    core._roles.role._replicas.followers[TWO].key = ReplicaKey(TWO, "first")  # type: ignore[attr-defined]
    core.step(Received(fetch_request(replica=ReplicaKey(TWO, "second"))))
    assert core.high_watermark is None
    core.step(Received(fetch_request(replica=ReplicaKey(TWO, "first"))))
    assert core.high_watermark == 1


def test_observers_are_forgotten_beyond_a_thousand(make_core: Any) -> None:
    core = leading(make_core)
    for node in range(10, 1015):
        request = fetch_request(source=node, replica=ReplicaKey(NodeId(node)))
        core.step(Received(request))
    assert len(core.replica_end_offsets()) == 1000 + 3
    assert ReplicaKey(NodeId(10)) not in core.replica_end_offsets()


def test_parked_fetches_are_refused_when_the_leader_resigns(make_core: Any) -> None:
    core = leading(make_core)
    core.step(Received(fetch_request()))
    core.step(Received(fetch_request(high_watermark=1)))
    effects = core.step(Resign())
    assert effects[:5] == (
        CancelTimer(Timer(TimerKind.FETCH_WAIT, TWO)),
        Send(leader_answer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=None, leader_endpoint=None)),
        CancelTimer(CHECK_QUORUM),
        CancelTimer(BEGIN_QUORUM),
        RoleChanged(Role.RESIGNED, Epoch(1), None, ONE),
    )
    assert core.step(Propose(1, 1)) == (RejectProposal(1, None, Epoch(1)),)
    assert core.step(Resign()) == ()


def test_a_single_voter_does_not_lose_its_quorum(make_core: Any) -> None:
    core = make_core(voters=1)
    armed = [effect for effect in core.start() if isinstance(effect, ArmTimer)]
    assert core.role is Role.LEADER and armed == []
    assert core.high_watermark is None
    assert core.step(Durable(Generation(0), Offset(1))) == (HighWatermarkAdvanced(Offset(1)),)


def test_begin_is_repeated_until_it_is_acknowledged(make_core: Any) -> None:
    core = leading(make_core)
    correlation = core._node.in_flight[THREE]
    pause = Timer(TimerKind.BACKOFF, THREE)
    assert core.step(RequestFailed(THREE, correlation)) == (ArmTimer(pause, 20, 20),)
    (again,) = core.step(TimerFired(pause))
    assert isinstance(again, Send) and isinstance(again.message, BeginQuorumEpochRequest)
    done = BeginQuorumEpochResponse(
        source=THREE, destination=ONE, correlation=again.message.correlation, epoch=Epoch(1), leader=ONE
    )
    assert core.step(Received(done)) == ()
    assert core.step(RequestFailed(THREE, again.message.correlation)) == ()


# --- the follower ---


@pytest.mark.bug("KAFKA-16927")
def test_a_follower_that_is_told_of_its_leader_again_goes_on_and_knows_where_it_listens_now(
    make_core: Any,
) -> None:
    """It used to be an illegal transition."""
    core = following(make_core)
    moved = Endpoint("node-2-by-another-name", 9093)
    told = BeginQuorumEpochRequest(
        source=TWO,
        destination=ONE,
        correlation=7,
        cluster_id="c",
        voter=ReplicaKey(ONE),
        epoch=Epoch(2),
        endpoint=moved,
    )
    before = core.key()
    answer = BeginQuorumEpochResponse(
        source=ONE, destination=TWO, correlation=7, epoch=Epoch(2), leader=TWO, leader_endpoint=moved
    )
    assert core.step(Received(told)) == (Send(answer),)
    assert (core.role, core.epoch, core.leader) == (Role.FOLLOWER, 2, 2)
    assert core.endpoint_of(TWO) == moved
    core.step(Received(replace(told, endpoint=at(2))))
    assert core.key() == before, "nothing else has changed"


def test_a_follower_acknowledges_only_what_is_durable(make_core: Any) -> None:
    core = following(make_core)
    spans = (BatchSpan(Offset(2), Offset(4), Epoch(2)),)
    assert core.step(Received(fetch_response(batches=spans, records=b"ab", high_watermark=9))) == (
        AppendFetched(Generation(0), spans, b"ab"),
        HighWatermarkAdvanced(Offset(4)),
        ARM_FETCH,
    )
    assert core.step(Durable(Generation(0), Offset(3))) == ()
    (ack,) = core.step(Durable(Generation(0), Offset(4)))
    assert isinstance(ack, Send) and isinstance(ack.message, FetchRequest)
    assert (ack.message.offset, ack.message.last_fetched_epoch, ack.message.high_watermark) == (4, 2, 4)


def test_a_follower_cuts_where_the_logs_part_and_fetches_again(make_core: Any) -> None:
    core = following(make_core, epochs=(1, 1, 1, 2), epoch=3)
    diverging = fetch_response(epoch=Epoch(3), diverging=EpochEnd(Epoch(1), Offset(2)), high_watermark=4)
    cut, arm, fetch = core.step(Received(diverging))
    assert (cut, arm) == (Truncate(Generation(1), Offset(2)), ARM_FETCH)
    assert isinstance(fetch, Send) and isinstance(fetch.message, FetchRequest)
    assert (fetch.message.offset, fetch.message.last_fetched_epoch) == (2, 1)
    assert core.high_watermark is None, "a diverging answer's says nothing of our log"
    assert core.step(Durable(Generation(0), Offset(4))) == ()


def test_a_follower_stops_rather_than_cut_what_is_committed(make_core: Any) -> None:
    core = following(make_core)
    core.step(Received(fetch_response(high_watermark=2)))
    diverging = fetch_response(correlation=2, diverging=EpochEnd(Epoch(1), Offset(1)))
    with pytest.raises(InvariantError, match="committed"):
        core.step(Received(diverging))


@pytest.mark.parametrize(
    "spans",
    [
        (BatchSpan(Offset(3), Offset(4), Epoch(2)),),
        (BatchSpan(Offset(1), Offset(4), Epoch(2)),),
        (BatchSpan(Offset(2), Offset(2), Epoch(2)),),
        (BatchSpan(Offset(2), Offset(3), Epoch(1)),),
        (BatchSpan(Offset(2), Offset(3), Epoch(3)),),
        (BatchSpan(Offset(2), Offset(3), Epoch(2)), BatchSpan(Offset(4), Offset(5), Epoch(2))),
    ],
)
def test_batches_that_do_not_continue_the_log_are_refused(
    make_core: Any, spans: tuple[BatchSpan, ...]
) -> None:
    core = following(make_core)
    pause = ArmTimer(Timer(TimerKind.BACKOFF, TWO), 20, 20)
    assert core.step(Received(fetch_response(batches=spans, high_watermark=9))) == (pause,)
    assert core.log_end_offset == 2 and core.high_watermark is None


@pytest.mark.bug("KAFKA-15510")
def test_an_empty_answer_keeps_the_last_fetched_epoch(make_core: Any) -> None:
    core = following(make_core)
    _, fetch = core.step(Received(fetch_response()))
    assert isinstance(fetch, Send) and isinstance(fetch.message, FetchRequest)
    assert fetch.message.last_fetched_epoch == 2


def test_an_answer_without_a_request_is_ignored(make_core: Any) -> None:
    core = following(make_core)
    before = core.key()
    diverging = fetch_response(correlation=99, diverging=EpochEnd(Epoch(1), Offset(1)))
    assert core.step(Received(diverging)) == ()
    assert core.step(Received(fetch_response(source=THREE, leader=TWO))) == ()
    assert core.key() == before


def test_two_leaders_in_one_epoch_stop_the_node(make_core: Any) -> None:
    core = following(make_core)
    begin = BeginQuorumEpochRequest(
        source=THREE,
        destination=ONE,
        correlation=1,
        cluster_id="c",
        voter=ReplicaKey(ONE),
        epoch=Epoch(2),
    )
    with pytest.raises(InvariantError, match="two leaders"):
        core.step(Received(begin))


@pytest.mark.parametrize(
    ("successors", "wait_ms"),
    [((ONE, THREE), 0), ((THREE, ONE), 500), ((THREE,), 1000), ((), 1000), ((THREE, NodeId(4), ONE), 500)],
)
def test_successors_stand_one_after_the_other(
    make_core: Any, successors: tuple[NodeId, ...], wait_ms: int
) -> None:
    core = following(make_core)
    end = EndQuorumEpochRequest(
        source=TWO,
        destination=ONE,
        correlation=7,
        cluster_id="c",
        epoch=Epoch(2),
        preferred_successors=successors,
    )
    told = EndQuorumEpochResponse(
        source=ONE, destination=TWO, correlation=7, epoch=Epoch(2), leader=TWO, leader_endpoint=at(2)
    )
    assert core.step(Received(end)) == (ArmTimer(FETCH, wait_ms, wait_ms), Send(told))


def test_a_failed_fetch_is_asked_again_after_a_pause(make_core: Any) -> None:
    core = following(make_core)
    pause = Timer(TimerKind.BACKOFF, TWO)
    assert core.step(RequestFailed(TWO, 1)) == (ArmTimer(pause, 20, 20),)
    assert core.step(RequestFailed(TWO, 1)) == ()
    (fetch,) = core.step(TimerFired(pause))
    assert isinstance(fetch, Send) and isinstance(fetch.message, FetchRequest)


def test_a_commit_that_is_heard_of_counts_only_for_a_log_that_fits_the_leaders(make_core: Any) -> None:
    """The answer to a Fetch may ask for one cut of several; what remains after it may still not be the
    leader's."""
    core = following(make_core, epoch=4, epochs=(1, 2, 3, 3))
    heard = CommitHeard(Epoch(4), Offset(3))
    assert core.step(heard) == ()
    core.step(Received(fetch_response(epoch=Epoch(4), diverging=EpochEnd(Epoch(2), Offset(3)))))
    assert core.log_end_offset == 2
    assert core.step(heard) == (), "offset 1 may be another epoch's at the leader"
    core.step(
        Received(fetch_response(correlation=2, epoch=Epoch(4), diverging=EpochEnd(Epoch(1), Offset(1))))
    )
    assert core.step(heard) == ()
    core.step(Received(fetch_response(correlation=3, epoch=Epoch(4))))
    assert core.step(heard) == (HighWatermarkAdvanced(Offset(1)),)
    assert core.step(CommitHeard(Epoch(3), Offset(1))) == (), "of an earlier leader"
