"""Dynamic voters, where the traces do not show it: what is counted, kept, and taken from where (KIP-853)."""

from collections.abc import Callable
from typing import Any

import pytest

from quorate.error_code import ErrorCode
from quorate.raft.core.core import Core
from quorate.raft.core.core_config import BatchSpan
from quorate.raft.core.effects import (
    AppendLeaderChange,
    AppendVoters,
    ArmTimer,
    CancelTimer,
    Effect,
    HighWatermarkAdvanced,
    ReadIndexConfirmed,
    Role,
    RoleChanged,
    Send,
    TransferEnded,
    VotersChanged,
)
from quorate.raft.core.events import (
    AddVoter,
    AdoptVoters,
    ChangeVoters,
    Durable,
    LogStartMoved,
    Propose,
    ReadIndex,
    Received,
    RemoveVoter,
    Resign,
    SnapshotTaken,
    Timer,
    TimerFired,
    TimerKind,
    TransferLeadership,
    UpdateVoter,
)
from quorate.raft.core.messages import FetchRequest, FetchResponse, VoteRequest, VoteResponse
from quorate.types import (
    Endpoint,
    Epoch,
    EpochEnd,
    NodeId,
    Offset,
    ReplicaKey,
    SnapshotId,
    Voter,
    VotersAt,
    VoterSet,
)
from tests.raft.core.conftest import answer, fetch_as, grant, grant_both

MakeVoters = Callable[..., VoterSet]
ELECTION = Timer(TimerKind.ELECTION)
FETCH = Timer(TimerKind.FETCH)


def key(node: int, disk: str | None = None) -> ReplicaKey:
    return ReplicaKey(NodeId(node), disk if disk is not None else f"disk-{node}")


def voter(node: int, disk: str | None = None) -> Voter:
    return Voter(key(node, disk), Endpoint(f"node-{node}", 9093))


def fetch(
    core: Core,
    source: int,
    offset: int,
    epoch: int | None = None,
    *,
    disk: str | None = None,
    read_round: int = 0,
) -> tuple[Effect, ...]:
    return fetch_as(core, key(source, disk), offset, epoch, read_round=read_round)


def leading(make_core: Any, *, others_grant: tuple[int, ...] = (2,), **settings: Any) -> Core:
    """Node 1 leads epoch 1 of voters 1 to 3 in the bootstrap snapshot; the first three records are committed,
    and 2 and 3 have them."""
    core: Core = make_core(**{"directory_id": "disk-1", "voter_sets": {-1: (1, 2, 3)}, **settings})
    core.start()
    core.step(TimerFired(ELECTION))
    if len(core.voters) > 1:
        grant_both(core, *others_grant)
    assert core.role is Role.LEADER
    core.step(Durable(core.generation, core.log_end_offset))
    for other in core.voters.ids:
        if other != core.node_id:
            fetch(core, other, core.log_end_offset)
    assert core.high_watermark == core.log_end_offset
    return core


def outcome(effects: tuple[Effect, ...]) -> VotersChanged:
    (changed,) = [effect for effect in effects if isinstance(effect, VotersChanged)]
    return changed


def test_a_leader_writes_the_bootstrap_voters_into_the_log_once(
    make_core: Any, make_voters: MakeVoters
) -> None:
    core = make_core(directory_id="disk-1", voter_sets={-1: (1,)})
    effects = core.start()
    (change,) = [effect for effect in effects if isinstance(effect, AppendLeaderChange)]
    assert change.voter_set == make_voters(1)
    assert core.log_end_offset == 3 and core.voters_at(Offset(3)) == make_voters(1)
    again = make_core(directory_id="disk-1", epoch=1, epochs=(1, 1, 1), voter_sets={-1: (1,), 2: (1,)})
    (change,) = [effect for effect in again.start() if isinstance(effect, AppendLeaderChange)]
    assert change.voter_set is None and again.log_end_offset == 4


def test_the_log_wins_over_another_configuration(make_core: Any, make_voters: MakeVoters) -> None:
    core = make_core(node=4, voters=4, directory_id="disk-4", voter_sets={-1: (1, 2, 3)})
    core.start()
    assert core.voters == make_voters(1, 2, 3) and not core.is_voter


def test_a_replica_that_has_not_caught_up_is_not_added(make_core: Any) -> None:
    core = leading(make_core)
    fetch(core, 4, 0, 0)
    refused = outcome(core.step(ChangeVoters(1, AddVoter(voter(4)))))
    assert refused.error is ErrorCode.REQUEST_TIMED_OUT and "caught up" in refused.message
    fetch(core, 4, 3)
    refused = outcome(core.step(ChangeVoters(2, AddVoter(voter(4, "another")))))
    assert refused.error is ErrorCode.REQUEST_TIMED_OUT and "does not fetch" in refused.message
    effects = core.step(ChangeVoters(3, AddVoter(voter(4))))
    assert AppendVoters(core.generation, Offset(3), Epoch(1), core.voters, False) == effects[0]
    assert core.voters.ids == (1, 2, 3, 4)


def test_an_added_voter_counts_with_what_it_has_at_once(make_core: Any) -> None:
    core = leading(make_core)
    fetch(core, 4, 3)
    core.step(ChangeVoters(1, AddVoter(voter(4))))
    core.step(Durable(core.generation, Offset(4)))
    assert fetch(core, 2, 4)[-1].__class__ is ArmTimer, "two of four"
    assert HighWatermarkAdvanced(Offset(4)) in fetch(core, 4, 4), "three of four"


def test_a_change_is_done_at_the_moment_it_is_committed(make_core: Any) -> None:
    core = leading(make_core)
    assert not any(
        isinstance(effect, VotersChanged) for effect in core.step(ChangeVoters(9, RemoveVoter(key(3))))
    )
    core.step(Durable(core.generation, Offset(4)))
    effects = fetch(core, 2, 4)
    assert effects.index(HighWatermarkAdvanced(Offset(4))) + 1 == effects.index(
        VotersChanged(9, ErrorCode.NONE)
    )


def test_a_change_is_not_done_when_only_what_lies_below_it_is_committed(make_core: Any) -> None:
    core = leading(make_core)
    core.step(Propose(1, 2))
    core.step(ChangeVoters(1, RemoveVoter(key(3))))
    core.step(Durable(core.generation, Offset(6)))
    effects = fetch(core, 2, 5)
    assert HighWatermarkAdvanced(Offset(5)) in effects
    assert not any(isinstance(effect, VotersChanged) for effect in effects)
    assert outcome(fetch(core, 2, 6)).error is ErrorCode.NONE


def test_the_echo_of_a_voters_id_with_another_disk_proves_nothing(make_core: Any) -> None:
    core = leading(make_core)
    core.step(ReadIndex(1))
    assert not any(
        isinstance(effect, ReadIndexConfirmed) for effect in fetch(core, 3, 3, disk="new", read_round=1)
    )
    assert ReadIndexConfirmed(1, Offset(3)) in fetch(core, 3, 3, read_round=1)


def test_the_sets_below_the_log_start_are_forgotten(make_core: Any) -> None:
    core = leading(make_core)
    core.step(SnapshotTaken(SnapshotId(Offset(3), Epoch(1))))
    core.step(LogStartMoved(EpochEnd(Epoch(1), Offset(3))))
    assert core.voters.ids == (1, 2, 3) and core.voters_at(Offset(3)) == core.voters
    assert core.voters_at(Offset(2)) is None


def test_a_removed_voter_is_neither_counted_nor_told_of_the_leader(make_core: Any) -> None:
    core = leading(make_core)
    core.step(ChangeVoters(1, RemoveVoter(key(3))))
    core.step(Durable(core.generation, Offset(4)))
    assert HighWatermarkAdvanced(Offset(4)) not in fetch(core, 3, 4)
    effects = core.step(TimerFired(Timer(TimerKind.BEGIN_QUORUM)))
    told = [effect.message.destination for effect in effects if isinstance(effect, Send)]
    assert 3 not in told
    assert HighWatermarkAdvanced(Offset(4)) in fetch(core, 2, 4)


@pytest.mark.bug("KAFKA-16531")
def test_a_leader_that_removed_itself_needs_both_others_to_stay(make_core: Any) -> None:
    core = leading(make_core)
    effects = core.step(ChangeVoters(1, RemoveVoter(key(1))))
    assert RoleChanged(Role.LEADER, Epoch(1), NodeId(1), NodeId(1), epoch_start_offset=Offset(0)) in effects
    check_quorum = ArmTimer(Timer(TimerKind.CHECK_QUORUM), 3000, 3000)
    assert check_quorum not in fetch(core, 2, 3)
    assert check_quorum in fetch(core, 3, 3)


def test_a_leader_that_removed_itself_does_not_count_its_own_sync(make_core: Any) -> None:
    core = leading(make_core)
    core.step(ChangeVoters(1, RemoveVoter(key(1))))
    assert core.step(Durable(core.generation, Offset(4))) == ()
    fetch(core, 2, 4)
    assert core.high_watermark == 3
    effects = fetch(core, 3, 4)
    assert HighWatermarkAdvanced(Offset(4)) in effects and core.role is Role.RESIGNED


def test_a_sole_voter_begins_to_look_after_its_majority_when_it_is_one_no_more(make_core: Any) -> None:
    core = leading(make_core, voter_sets={-1: (1,)})
    effects = fetch(core, 2, 3) + core.step(ChangeVoters(1, AddVoter(voter(2))))
    armed = [effect.timer.kind for effect in effects if isinstance(effect, ArmTimer)]
    assert TimerKind.CHECK_QUORUM in armed and armed.count(TimerKind.BEGIN_QUORUM) == 1
    core.step(Durable(core.generation, Offset(4)))
    assert core.high_watermark == 3
    fetch(core, 2, 4)
    effects = core.step(ChangeVoters(2, RemoveVoter(key(2))))
    cancelled = [effect.timer.kind for effect in effects if isinstance(effect, CancelTimer)]
    assert cancelled == [TimerKind.CHECK_QUORUM], "node 2 fetches on, as an observer"
    assert outcome(core.step(Durable(core.generation, Offset(5)))).error is ErrorCode.NONE


def test_the_configured_voters_are_adopted_with_the_disks_they_fetch_with(
    make_core: Any, make_voters: MakeVoters
) -> None:
    core = leading(make_core, voter_sets={})
    fetched = core.clone()
    assert outcome(core.step(ChangeVoters(1, RemoveVoter(key(3))))).error is ErrorCode.UNSUPPORTED_VERSION
    effects = fetched.step(ChangeVoters(1, AdoptVoters()))
    assert effects[0] == AppendVoters(fetched.generation, Offset(1), Epoch(1), make_voters(1, 2, 3), True)
    assert fetched.log_end_offset == 3 and fetched.has_dynamic_voters


def test_adoption_waits_for_a_voter_that_has_not_fetched(make_core: Any) -> None:
    core: Core = make_core(directory_id="disk-1")
    core.start()
    core.step(TimerFired(ELECTION))
    grant_both(core, 2)
    core.step(Durable(core.generation, Offset(1)))
    fetch(core, 2, 1)
    refused = outcome(core.step(ChangeVoters(1, AdoptVoters())))
    assert refused.error is ErrorCode.REQUEST_TIMED_OUT and "node 3" in refused.message


@pytest.mark.bug("etcd issue 21694")
def test_a_voter_that_moved_keeps_its_vote_and_its_progress(make_core: Any) -> None:
    core = leading(make_core)
    moved = Voter(key(2), Endpoint("elsewhere", 9093))
    core.step(ChangeVoters(1, UpdateVoter(moved)))
    assert core.endpoint_of(NodeId(2)) == moved.endpoint and core.voters.has(key(2))
    assert core.replica_end_offsets()[key(2)] == 3


def test_no_change_begins_while_leadership_is_transferred(make_core: Any) -> None:
    core = leading(make_core)
    core.step(ChangeVoters(1, UpdateVoter(Voter(key(2), Endpoint("elsewhere", 9093)))))
    core.step(TransferLeadership(NodeId(2)))
    refused = outcome(core.step(ChangeVoters(2, RemoveVoter(key(3)))))
    assert refused.error is ErrorCode.REQUEST_TIMED_OUT and "node 2" in refused.message


def test_a_disk_that_came_back_is_an_observer_beside_the_voter_that_had_it(make_core: Any) -> None:
    core = leading(make_core)
    fetch(core, 3, 3, disk="new")
    assert core.replica_end_offsets()[key(3, "new")] == 3
    refused = outcome(core.step(ChangeVoters(1, AddVoter(voter(3, "new")))))
    assert refused.error is ErrorCode.DUPLICATE_VOTER
    core.step(ChangeVoters(2, RemoveVoter(key(3))))
    core.step(Durable(core.generation, Offset(4)))
    fetch(core, 2, 4)
    core.step(ChangeVoters(3, AddVoter(voter(3, "new"))))
    assert core.voters.has(key(3, "new")) and not core.voters.has(key(3))


# --- followers ---


def following(make_core: Any, **settings: Any) -> Core:
    core: Core = make_core(
        **{"epoch": 2, "leader": 2, "epochs": (1, 1, 1), "directory_id": "disk-1", **settings}
    )
    core.start()
    return core


def append(core: Core, *batches: BatchSpan) -> tuple[Effect, ...]:
    """The leader, node 2, answers with these batches."""
    return answer(core, 2, FetchResponse, leader=NodeId(2), batches=batches)


def test_a_follower_uses_the_voter_set_that_it_appended(make_core: Any, make_voters: MakeVoters) -> None:
    core = following(make_core, voter_sets={-1: (1, 2, 3)})
    batch = BatchSpan(Offset(3), Offset(4), Epoch(2), VotersAt(Offset(3), make_voters(2, 3)))
    effects = append(core, batch)
    assert RoleChanged(Role.FOLLOWER, Epoch(2), NodeId(2), None) in effects
    assert core.voters == make_voters(2, 3) and not core.is_voter


@pytest.mark.bug("KAFKA-17332")
def test_a_node_that_is_being_added_acknowledges_only_what_is_durable(
    make_core: Any, make_voters: MakeVoters
) -> None:
    """It counts before it knows that it votes, so an observer syncs as a voter does."""
    core = following(make_core, voter_sets={-1: (2, 3)})
    assert not core.is_voter
    appended = append(core, BatchSpan(Offset(3), Offset(4), Epoch(2)))
    assert not [effect for effect in appended if isinstance(effect, Send)], "not synced yet"
    (fetched,) = core.step(Durable(core.generation, Offset(4)))
    assert isinstance(fetched, Send) and isinstance(fetched.message, FetchRequest)
    assert fetched.message.offset == 4
    added = append(core, BatchSpan(Offset(4), Offset(5), Epoch(2), VotersAt(Offset(4), make_voters(1, 2, 3))))
    assert core.is_voter and not [effect for effect in added if isinstance(effect, Send)]
    (fetched,) = core.step(Durable(core.generation, Offset(5)))
    assert isinstance(fetched, Send) and isinstance(fetched.message, FetchRequest)
    assert fetched.message.offset == 5


@pytest.mark.bug("KAFKA-17332")
def test_a_leader_that_is_no_voter_any_more_may_resign(make_core: Any) -> None:
    """Resigning used to raise."""
    core = leading(make_core)
    core.step(ChangeVoters(1, RemoveVoter(key(1))))
    assert not core.is_voter and core.role is Role.LEADER
    core.step(Resign())
    assert core.role is Role.RESIGNED


def test_an_observer_becomes_a_voter_by_what_it_reads(make_core: Any, make_voters: MakeVoters) -> None:
    core = following(make_core, voter_sets={-1: (2, 3)})
    assert not core.is_voter
    append(core, BatchSpan(Offset(3), Offset(4), Epoch(2), VotersAt(Offset(3), make_voters(1, 2, 3))))
    assert core.is_voter
    core.step(TimerFired(FETCH))
    assert core.role is Role.PROSPECTIVE


def test_a_voter_set_outside_its_batch_is_not_appended(make_core: Any, make_voters: MakeVoters) -> None:
    core = following(make_core, voter_sets={-1: (1, 2, 3)})
    append(core, BatchSpan(Offset(3), Offset(4), Epoch(2), VotersAt(Offset(4), make_voters(2, 3))))
    assert core.log_end_offset == 3 and core.is_voter


def test_a_node_removed_for_good_only_looks_for_the_leader(make_core: Any) -> None:
    removed = following(make_core, voter_sets={-1: (1, 2, 3), 2: (2, 3)}, snapshot_end=3)
    removed.step(TimerFired(FETCH))
    assert removed.role is Role.UNATTACHED, "its removal is in a snapshot, so committed"


def test_a_node_whose_removal_may_be_uncommitted_stands_and_does_not_count_itself(make_core: Any) -> None:
    """Raft dissertation section 4.2.2."""
    core = following(make_core, voter_sets={-1: (1, 2, 3), 2: (2, 3)})
    core.step(TimerFired(FETCH))
    assert core.role is Role.PROSPECTIVE
    assert grant(core, 2, pre_vote=True) == (), "one of two"
    grant(core, 3, pre_vote=True)
    assert core.role is Role.CANDIDATE


def test_a_node_that_knows_nobody_asks_the_bootstrap_servers_in_turn(make_core: Any) -> None:
    servers = (Endpoint("node-8", 9093), Endpoint("node-9", 9093))
    core = make_core(node=5, voters=0, directory_id="disk-5", bootstrap=servers)

    def asked(effects: tuple[Effect, ...]) -> list[NodeId]:
        return [effect.message.destination for effect in effects if isinstance(effect, Send)]

    assert asked(core.start()) == [-2]
    assert core.endpoint_of(NodeId(-2)) == servers[0] and core.endpoint_of(NodeId(-4)) is None
    effects = core.step(
        Received(
            FetchResponse(
                source=NodeId(-2),
                destination=NodeId(5),
                correlation=1,
                error=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                epoch=Epoch(0),
            )
        )
    )
    assert asked(effects) == [-3]
    core.step(
        Received(
            FetchResponse(
                source=NodeId(-3),
                destination=NodeId(5),
                correlation=2,
                error=ErrorCode.FENCED_LEADER_EPOCH,
                epoch=Epoch(4),
                leader=NodeId(2),
                leader_endpoint=Endpoint("node-2", 9093),
            )
        )
    )
    assert core.role is Role.FOLLOWER and core.endpoint_of(NodeId(2)) == Endpoint("node-2", 9093)
    assert not core.is_voter


def test_a_server_answers_a_fetch_that_was_sent_to_no_id(make_core: Any) -> None:
    core = leading(make_core)
    request = FetchRequest(
        source=NodeId(5),
        destination=NodeId(-2),
        correlation=1,
        cluster_id="c",
        replica=key(5),
        epoch=Epoch(0),
        offset=Offset(0),
        last_fetched_epoch=Epoch(0),
        max_wait_ms=0,
        max_bytes=0,
        high_watermark=None,
    )
    (effect,) = core.step(Received(request))
    assert isinstance(effect, Send) and isinstance(effect.message, FetchResponse)
    assert (effect.message.error, effect.message.leader) == (ErrorCode.FENCED_LEADER_EPOCH, 1)


@pytest.mark.bug("etcd-io/raft abb533c")
@pytest.mark.parametrize("is_voter", [True, False])
def test_a_node_answers_a_vote_even_if_it_does_not_know_that_it_votes(make_core: Any, is_voter: bool) -> None:
    """A new voter may not have the record yet."""
    core = make_core(directory_id="disk-1", voter_sets={-1: (1, 2, 3) if is_voter else (2, 3)})
    core.start()
    effects = core.step(
        Received(
            VoteRequest(
                source=NodeId(2),
                destination=NodeId(1),
                correlation=1,
                cluster_id="c",
                voter=key(1),
                candidate=key(2),
                epoch=Epoch(1),
                last_epoch=Epoch(0),
                end_offset=Offset(0),
            )
        )
    )
    (said,) = [
        effect.message
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, VoteResponse)
    ]
    assert said.granted


PERIOD = Timer(TimerKind.BEGIN_QUORUM)


def test_an_observer_that_fell_silent_is_not_added_before_it_has_caught_up_again(make_core: Any) -> None:
    core = leading(make_core, voter_sets={-1: (1,)})
    armed = ArmTimer(PERIOD, 1000, 1000)
    assert armed in fetch(core, 2, 3), "somebody is there whose silence matters"
    assert armed in core.step(TimerFired(PERIOD))
    once = core.clone()
    assert isinstance(once.step(ChangeVoters(1, AddVoter(voter(2))))[0], AppendVoters), "one period may pass"
    assert armed not in core.step(TimerFired(PERIOD)), "nobody is left to wait for"
    refused = outcome(core.step(ChangeVoters(1, AddVoter(voter(2)))))
    assert refused.error is ErrorCode.REQUEST_TIMED_OUT
    assert "within the last 2000 ms; see that it runs" in refused.message
    core.step(Propose(1, 5))
    core.step(Durable(core.generation, Offset(8)))
    fetch(core, 2, 3)
    assert outcome(core.step(ChangeVoters(2, AddVoter(voter(2))))).error is ErrorCode.REQUEST_TIMED_OUT
    assert armed in fetch(core, 2, 8)
    assert isinstance(core.step(ChangeVoters(3, AddVoter(voter(2))))[0], AppendVoters)


def test_a_voter_that_was_removed_because_it_is_silent_is_not_added_as_it_is(make_core: Any) -> None:
    """Its progress as a voter does not count any more."""
    core = leading(make_core)
    for _ in range(2):
        core.step(TimerFired(PERIOD))
        fetch(core, 2, 3)
    core.step(ChangeVoters(1, RemoveVoter(key(3))))
    core.step(Durable(core.generation, Offset(4)))
    fetch(core, 2, 4)
    assert core.high_watermark == 4 and core.voters.ids == (1, 2)
    refused = outcome(core.step(ChangeVoters(2, AddVoter(voter(3)))))
    assert refused.error is ErrorCode.REQUEST_TIMED_OUT and "caught up" in refused.message


def test_a_change_that_could_not_be_committed_is_refused_and_names_who_is_missed(make_core: Any) -> None:
    """{1, 2, 3} without 2 is {1, 3}, which commits nothing while 3 is down."""
    core = leading(make_core)
    for _ in range(2):
        core.step(TimerFired(PERIOD))
        fetch(core, 2, 3)
    refused = outcome(core.step(ChangeVoters(1, RemoveVoter(key(2)))))
    assert refused.error is ErrorCode.REQUEST_TIMED_OUT
    assert "[1, 3] that this would leave, 3 did not fetch" in refused.message
    assert core.voters.ids == (1, 2, 3)
    assert isinstance(core.step(ChangeVoters(2, RemoveVoter(key(3))))[0], AppendVoters)


def test_a_successor_that_is_silent_holds_no_append_back(make_core: Any) -> None:
    core = leading(make_core)
    for _ in range(2):
        core.step(TimerFired(PERIOD))
        fetch(core, 2, 3)
    assert core.step(TransferLeadership(NodeId(3))) == (
        TransferEnded(NodeId(3), ErrorCode.REQUEST_TIMED_OUT),
    )


def test_a_removal_that_makes_fewer_voters_a_majority_commits_their_records(make_core: Any) -> None:
    """The majority is counted again with the change, not with the next Fetch or sync."""
    core = leading(make_core, voter_sets={-1: (1, 2)})
    core.step(Propose(1, 2))
    core.step(Durable(core.generation, Offset(5)))
    assert core.high_watermark == 3, "node 2 has not got them"
    effects = core.step(ChangeVoters(1, RemoveVoter(key(2))))
    assert HighWatermarkAdvanced(Offset(5)) in effects
    assert core.high_watermark == 5


def test_check_quorum_starts_again_after_a_change_of_voters(make_core: Any) -> None:
    """Two of five have fetched in this period. The timer starts anew, and so does the count."""
    core = leading(make_core, voter_sets={-1: (1, 2, 3, 4, 5)}, others_grant=(2, 3))
    check_quorum = ArmTimer(Timer(TimerKind.CHECK_QUORUM), 3000, 3000)
    assert check_quorum not in fetch(core, 2, 3)
    assert check_quorum in core.step(ChangeVoters(1, RemoveVoter(key(5))))
    assert check_quorum not in fetch(core, 3, 3), "of four, two others are needed: one is here"
    assert check_quorum in fetch(core, 4, 3)
