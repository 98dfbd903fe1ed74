"""Read leases, as stories of three nodes. Time passes only where a test says so, and timers fire by hand.

Leases are of 1000 ms, of which the leader relies on 800.
"""

from dataclasses import replace

import pytest

from quorate.raft.core.core_config import CoreConfig
from quorate.raft.core.effects import ArmTimer, Effect, ReadIndexConfirmed, Role, Send
from quorate.raft.core.events import (
    ChangeVoters,
    RemoveVoter,
    Resign,
    Timer,
    TimerKind,
    TransferLeadership,
    Unreachable,
)
from quorate.raft.core.messages import FetchRequest, FetchResponse, Message, VoteRequest, VoteResponse
from quorate.types import Epoch, NodeId, Offset
from tests.simulator.core.core_world import CLUSTER_ID, CoreWorld

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
ELECTION, FETCH, PROMISE = (Timer(TimerKind.ELECTION), Timer(TimerKind.FETCH), Timer(TimerKind.PROMISE))
LEASE_MS = 1000


def settle(world: CoreWorld, *cut: NodeId) -> None:
    """Deliver and sync until only timers are left. What is from or for nodes that are `cut` is lost."""
    while world.in_flight or any(machine.core and machine.syncs for machine in world.nodes.values()):
        arriving, world.in_flight = world.in_flight, []
        for message in arriving:
            to = world.reached_by(message)
            if not {to, message.source} & set(cut) and world.nodes[to].core is not None:
                world.deliver(message)
        for node, machine in world.nodes.items():
            if machine.core and machine.syncs:
                world.sync(node)


def leased(*, dynamic: bool = False) -> CoreWorld:
    """Node 1 leads, and both others have promised at time 5000."""
    world = CoreWorld(voters=3, dynamic=dynamic, config=CoreConfig(read_lease_ms=LEASE_MS))
    world.now_ms = 5000
    for node in world.nodes:
        world.start(node)
    settle(world)
    world.fire(ONE, ELECTION)
    settle(world)
    world.propose(ONE)
    settle(world)
    assert world.nodes[ONE].up.role is Role.LEADER
    return world


def confirmed(effects: tuple[Effect, ...]) -> bool:
    return any(isinstance(effect, ReadIndexConfirmed) for effect in effects)


def asked_vote(
    world: CoreWorld, voter: NodeId, *, epoch: int = 9, source: NodeId = THREE, **fields: bool
) -> VoteResponse:
    """The voter's answer to a candidate with a log as good as its own."""
    core = world.nodes[voter].up
    request = VoteRequest(
        source=source,
        destination=voter,
        correlation=77,
        cluster_id=CLUSTER_ID,
        voter=world.nodes[voter].key,
        candidate=replace(world.nodes[voter].key, id=source),
        epoch=Epoch(epoch),
        last_epoch=core.log_end_epoch,
        end_offset=core.log_end_offset,
        **fields,
    )
    (answer,) = [
        effect.message
        for effect in world.deliver(request)
        if isinstance(effect, Send) and isinstance(effect.message, VoteResponse)
    ]
    return answer


# --- the leader ---


def test_a_read_sends_nothing_while_a_majority_has_promised() -> None:
    world = leased()
    assert world.read_index(ONE, 1) == (ReadIndexConfirmed(1, Offset(2)),)
    assert world.nodes[ONE].up.has_read_lease(world.now_ms)


def test_a_lease_is_four_fifths_of_the_promise() -> None:
    world = leased()
    world.now_ms += 799
    assert confirmed(world.read_index(ONE, 1))
    world.now_ms += 1
    effects = world.read_index(ONE, 2)
    assert not confirmed(effects)
    assert not world.nodes[ONE].up.has_read_lease(world.now_ms)
    asked = [effect.message for effect in effects if isinstance(effect, Send)]
    assert [(type(each), each.destination) for each in asked] == [
        (FetchResponse, TWO),
        (FetchResponse, THREE),
    ]
    settle(world)
    assert confirmed(world.read_index(ONE, 3)), "the round renewed the lease"


def test_a_lease_begins_when_the_answer_was_sent() -> None:
    world = leased()
    world.now_ms = 10_000
    world.propose(ONE)  # answers both
    held = [message for message in world.in_flight if message.destination == TWO]
    world.in_flight = []
    world.now_ms = 10_500
    for message in held:
        world.deliver(message)
    world.sync(TWO)
    world.now_ms = 10_700
    (fetch,) = world.in_flight
    world.deliver(fetch)
    world.now_ms = 10_799
    assert confirmed(world.read_index(ONE, 1))
    world.now_ms = 10_800
    assert not confirmed(world.read_index(ONE, 2))


def test_a_leader_without_a_commit_of_its_epoch_asks_a_round() -> None:
    world = leased()
    world.crash(ONE)
    world.fire(TWO, PROMISE)
    world.fire(THREE, PROMISE)
    world.step(THREE, Unreachable(ONE))
    world.fire(TWO, FETCH)
    for _ in range(10):
        arriving, world.in_flight = world.in_flight, []
        for message in arriving:
            if world.nodes[message.destination].core is not None:
                world.deliver(message)
        if world.nodes[THREE].syncs:
            world.sync(THREE)
    # Node 3 has the LeaderChange record and has promised, but on the leader's own disk it is not yet.
    assert world.nodes[TWO].up.role is Role.LEADER
    assert world.nodes[TWO].up.replica_end_offsets()[world.nodes[THREE].key] == 3
    assert not confirmed(world.read_index(TWO, 1))
    assert not world.nodes[TWO].up.has_read_lease(world.now_ms)
    effects = world.sync(TWO)
    assert confirmed(effects) or confirmed(world.read_index(TWO, 2))


def test_a_removed_voter_s_promise_does_not_count() -> None:
    world = leased(dynamic=True)
    world.crash(THREE)
    world.config = replace(world.config, read_lease_ms=0)
    world.start(THREE)  # without leases
    world.config = replace(world.config, read_lease_ms=LEASE_MS)
    settle(world)
    assert confirmed(world.read_index(ONE, 1)), "by the promise of node 2"
    world.now_ms += 100
    world.step(ONE, ChangeVoters(1, RemoveVoter(world.nodes[TWO].key)))
    assert world.nodes[ONE].up.voters.ids == (ONE, THREE)
    world.now_ms += LEASE_MS  # all that node 3 promised before its restart is over
    settle(world)
    world.now_ms += 1
    assert not confirmed(world.read_index(ONE, 2)), "node 3 has promised nothing"


def test_a_leader_that_resigned_has_no_lease() -> None:
    world = leased()
    world.step(ONE, Resign())
    assert not world.nodes[ONE].up.has_read_lease(world.now_ms)
    assert not confirmed(world.read_index(ONE, 1))


# --- voters ---


@pytest.mark.parametrize(("pre_vote", "epoch"), [(False, 2), (False, 9), (True, 1), (True, 9)])
def test_a_voter_that_promised_grants_nothing_and_stays_in_its_epoch(*, pre_vote: bool, epoch: int) -> None:
    world = leased()
    world.step(TWO, Unreachable(ONE))
    answer = asked_vote(world, TWO, epoch=epoch, pre_vote=pre_vote)
    assert not answer.granted
    assert answer.epoch == world.nodes[TWO].up.epoch == 1
    world.fire(TWO, PROMISE)
    assert asked_vote(world, TWO, epoch=9).granted


def test_a_broken_connection_does_not_make_a_voter_stand_before_its_promise_ends() -> None:
    world = leased()
    world.crash(ONE)
    world.step(TWO, Unreachable(ONE))
    world.fire(TWO, FETCH)
    assert world.nodes[TWO].up.role is Role.FOLLOWER
    effects = world.fire(TWO, PROMISE)
    assert effects == (ArmTimer(FETCH, 0, world.config.broken_connection_wait_ms),)
    world.fire(TWO, FETCH)
    assert world.nodes[TWO].up.role is Role.PROSPECTIVE


def test_each_answer_renews_the_promise() -> None:
    world = leased()
    world.step(TWO, Unreachable(ONE))
    world.fire(TWO, FETCH)
    del world.nodes[TWO].timers[PROMISE]
    world.propose(ONE)
    settle(world)
    assert {PROMISE, FETCH} <= set(world.nodes[TWO].timers), "and the wait for the leader begins anew"


def test_a_resignation_frees_the_voters() -> None:
    world = leased()
    world.step(ONE, Resign())
    settle(world)
    for node in (TWO, THREE):
        assert PROMISE not in world.nodes[node].timers
    assert asked_vote(world, TWO, epoch=2).granted


def test_a_transfer_of_leadership_waits_for_no_promise() -> None:
    world = leased()
    world.step(ONE, TransferLeadership(THREE))
    settle(world)
    world.fire(THREE, FETCH)  # at once: it is the first successor
    settle(world)
    assert world.nodes[THREE].up.role is Role.LEADER


def test_who_heard_of_the_resignation_frees_another_voter() -> None:
    world = leased()
    assert not asked_vote(world, TWO, epoch=1, pre_vote=True).granted
    assert not asked_vote(world, TWO, epoch=2, pre_vote=True, leader_resigned=True).granted
    assert asked_vote(world, TWO, epoch=1, pre_vote=True, leader_resigned=True).granted


def test_an_outside_id_frees_nobody() -> None:
    world = leased()
    outside = NodeId(8)
    assert not asked_vote(world, TWO, epoch=1, source=outside, pre_vote=True, leader_resigned=True).granted
    assert PROMISE in world.nodes[TWO].timers


# --- restarts ---


def restart(world: CoreWorld, node: NodeId, lease_ms: int) -> tuple[Effect, ...]:
    world.crash(node)
    config, world.config = world.config, replace(world.config, read_lease_ms=lease_ms)
    try:
        return world.start(node)
    finally:
        world.config = config


@pytest.mark.parametrize("lease_ms", [0, 500, LEASE_MS, 2000])
def test_a_restarted_voter_keeps_the_promise_that_it_may_have_given(lease_ms: int) -> None:
    world = leased()
    assert ArmTimer(PROMISE, LEASE_MS, LEASE_MS) in restart(world, TWO, lease_ms)
    assert not asked_vote(world, TWO).granted
    world.fire(TWO, PROMISE)
    assert asked_vote(world, TWO).granted


def promises(messages: list[Message]) -> list[int]:
    return [
        message.promise_ms
        for message in messages
        if isinstance(message, FetchRequest) and message.source == TWO and message.lease_time_ms
    ]


def test_a_shorter_promise_is_given_when_the_longer_one_is_over() -> None:
    world = leased()
    restart(world, TWO, 500)
    sent: list[Message] = []
    world.on_effect = lambda _, effect: sent.append(effect.message) if isinstance(effect, Send) else None
    settle(world)
    world.propose(ONE)
    settle(world)
    assert promises(sent) == []
    assert world.nodes[TWO].timers[PROMISE].max_ms == LEASE_MS
    world.fire(TWO, PROMISE)
    assert world.nodes[TWO].disk.election.promise_ms == 500
    world.propose(ONE)
    settle(world)
    assert set(promises(sent)) == {500}


def test_a_voter_without_leases_is_quiet_after_one_restart_only() -> None:
    world = leased()
    assert world.nodes[TWO].disk.election.promise_ms == LEASE_MS
    restart(world, TWO, 0)
    world.fire(TWO, PROMISE)
    assert world.nodes[TWO].disk.election.promise_ms == 0
    restart(world, TWO, 0)
    assert PROMISE not in world.nodes[TWO].timers


def test_a_promise_is_stored_before_it_is_given() -> None:
    world = leased()
    restart(world, TWO, 2000)
    seen: list[int] = []

    def look(node: NodeId, effect: Effect) -> None:
        if (
            isinstance(effect, Send)
            and isinstance(effect.message, FetchRequest)
            and effect.message.promise_ms
        ):
            seen.append(effect.message.promise_ms - world.nodes[node].disk.election.promise_ms)

    world.on_effect = look
    settle(world)
    assert seen
    assert set(seen) == {0}


def test_a_restarted_leader_frees_the_others() -> None:
    world = leased()
    restart(world, ONE, LEASE_MS)
    settle(world)
    world.fire(TWO, FETCH)
    settle(world)
    assert world.nodes[TWO].up.role is Role.LEADER


def test_the_last_voter_keeps_the_promise_to_a_leader_that_removed_itself() -> None:
    world = leased(dynamic=True)
    world.step(ONE, ChangeVoters(1, RemoveVoter(world.nodes[THREE].key)))
    settle(world)
    world.step(ONE, ChangeVoters(2, RemoveVoter(world.nodes[ONE].key)))
    for message in [each for each in world.in_flight if each.destination == TWO]:
        world.deliver(message)
    world.sync(TWO)  # its Fetch does not reach the leader
    world.in_flight = []
    # Node 2 has the set without the leader, and could commit it alone.
    assert world.nodes[TWO].up.voters.ids == (TWO,)
    assert world.nodes[ONE].up.has_read_lease(world.now_ms)
    restart(world, TWO, LEASE_MS)
    assert world.nodes[TWO].up.role is Role.UNATTACHED
    world.now_ms += LEASE_MS
    world.fire(TWO, PROMISE)
    assert world.nodes[TWO].up.role is Role.LEADER


def test_a_voter_gives_no_promise_to_a_leader_without_leases() -> None:
    world = CoreWorld(voters=3, config=CoreConfig())
    for node in world.nodes:
        world.start(node)
    settle(world)
    world.fire(ONE, ELECTION)
    settle(world)
    restart(world, TWO, LEASE_MS)
    settle(world)
    assert PROMISE not in world.nodes[TWO].timers
    assert world.nodes[TWO].disk.election.promise_ms == 0
