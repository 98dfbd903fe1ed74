"""The played world: what it keeps under any steps, and what a step can't do."""

from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as some

from quorate.play import steps as st
from quorate.play.play_node import PlayNode, PlayRecord
from quorate.play.played import Played
from quorate.play.start import Start, start_from_json, start_to_json
from quorate.play.steps import Json, StepError, step_from_json, step_to_json
from quorate.play.watch import Watch
from quorate.play.world import World
from quorate.raft.core import Core, Effect, Event, InvariantError, Propose, Role
from quorate.types import ElectionState, Epoch, NodeId, VoterSet

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


def state(world: World) -> Hashable:
    """All by which two worlds may differ."""
    return (
        tuple(
            (
                node.election,
                tuple(node.records),
                node.synced,
                None if node.core is None else node.core.key(),
                node.paused,
                tuple(node.timers),
                tuple(sorted(node.awaited.items())),
                frozenset(node.hopeless),
                tuple(node.proposals.items()),
                node.high_watermark,
                node.processes,
                node.stopped_by,
                node.directory,
                node.log_start,
                tuple(node.snapshots.items()),
                node.partial,
                node.checking,
                node.stores_left,
            )
            for node in world.nodes.values()
        ),
        tuple((packet.id, str(packet.message)) for packet in world.in_flight),
        frozenset(world.cuts),
        str(world.watch),
    )


def possible(world: World) -> list[st.Step]:
    """Every step that may be taken, each kind at least once where it makes sense."""
    found: list[st.Step] = [st.Exchange(rounds=2, sync=True), st.Exchange(rounds=1)]
    seen: dict[tuple[NodeId, NodeId, str], int] = {}
    for packet in world.in_flight:
        name = packet.source, packet.destination, packet.kind
        seen[name] = seen.get(name, 0) + 1
        found.append(st.Drop(*name, seen[name]))
        if world.may_arrive(packet):
            found.append(st.Repeat(*name, seen[name]))
            found += [st.Deliver(*name, seen[name])] * 3
    ids = list(world.nodes)
    for node in world.nodes.values():
        if node.core is None:
            found.append(st.Restart(node.id))
            continue
        found += [st.Crash(node.id), st.Crash(node.id, power=True)]
        if node.paused:
            found.append(st.Resume(node.id))
            continue
        if node.core.role is Role.LEADER:
            found += [st.Resign(node.id), st.Transfer(node.id, ids[0])]
            found += [st.AddVoter(node.id, each) for each in ids if each not in node.core.voters]
            found += [st.RemoveVoter(node.id, each) for each in node.core.voters.ids]
            found += [st.UpdateVoter(node.id, ids[0], "elsewhere"), st.AdoptVoters(node.id)]
        found += [st.Pause(node.id), st.Propose(node.id, f"r{world._next}"), st.Read(node.id)]
        found += [st.Fire(node.id, name, peer) for name, peer in world.due(node)]
        found += [st.GiveUp(node.id, peer) for peer in node.awaited]
        found += [st.Doom(node.id, 2), *(st.Unreachable(node.id, each) for each in ids if each != node.id)]
        taken = 0 if node.snapshot is None else node.snapshot.end_offset
        if min(node.high_watermark, node.core.durable_end_offset) > taken:
            found.append(st.Snapshot(node.id))
        if taken > node.log_start:
            found.append(st.Trim(node.id))
        if node.checking is not None:
            found += [st.Check(node.id), st.Check(node.id, damaged=True)]
        if node.synced < len(node.records):
            found += [st.Sync(node.id)] * 2
    for one in ids:
        for other in ids[one:]:
            found.append(st.Heal(one, other) if (one, other) in world.cuts else st.Cut(one, other))
    return found


def elected(nodes: int = 3) -> Played:
    played = Played(Start(nodes=nodes))
    played.take(st.Fire(ONE, "election"))
    played.take(st.Exchange(rounds=20, sync=True))
    return played


STARTS = (
    *(Start(nodes=nodes) for nodes in range(1, 6)),
    Start(nodes=4, voters=3, dynamic=True),
    Start(nodes=3, voters=1, dynamic=True, fetch=100),
)


@given(
    start=some.sampled_from(STARTS),
    settles=some.booleans(),
    drawn=some.lists(some.integers(0, 10_000), max_size=60),
)
def test_no_steps_lead_the_production_core_to_a_violation(
    start: Start, settles: bool, drawn: list[int]
) -> None:
    world = World(start)
    if settles:
        if start.voters != 1 and start.nodes != 1:
            world.take(st.Fire(ONE, "election"))
        world.take(st.Exchange(rounds=20, sync=True))
    for number in drawn:
        choices = possible(world)
        world.take(choices[number % len(choices)])
        assert not world.violations


@given(drawn=some.lists(some.integers(0, 10_000), max_size=25))
def test_undo_leads_back_through_the_same_states_and_the_same_steps_forth_again(drawn: list[int]) -> None:
    played = elected()
    played.take(st.Propose(ONE, "red"))
    states = [state(played.world)]
    begin = len(played.steps)
    for number in drawn:
        choices = possible(played.world)
        played.take(choices[number % len(choices)])
        states.append(state(played.world))
    steps = list(played.steps[begin:])
    for before in reversed(states[:-1]):
        played.undo()
        assert state(played.world) == before
    for step, after in zip(steps, states[1:], strict=True):
        assert step_from_json(step_to_json(step)) == step
        played.take(step)
        assert state(played.world) == after


def test_there_is_nothing_to_undo_before_the_first_step() -> None:
    with pytest.raises(StepError, match="none to take back"):
        Played(Start(nodes=3)).undo()


def test_a_record_is_committed_when_a_majority_has_it_on_its_disks() -> None:
    played = elected()
    played.take(st.Propose(ONE, "red"))
    assert [node.synced for node in played.world.nodes.values()] == [1, 1, 1]
    assert played.world.nodes[ONE].records[-1] == PlayRecord(Epoch(1), "red")
    played.take(st.Exchange(nodes=(ONE, TWO), rounds=5))
    assert played.world.nodes[ONE].high_watermark == 1
    played.take(st.Sync(TWO))
    played.take(st.Exchange(nodes=(ONE, TWO), rounds=5))
    assert played.world.nodes[ONE].high_watermark == 1, "the leader's own disk has not got it"
    played.take(st.Sync(ONE))
    assert played.world.nodes[ONE].high_watermark == 2


def test_a_loss_of_power_takes_what_was_not_durable_and_a_crash_does_not() -> None:
    played = elected()
    played.take(st.Propose(ONE, "red"))
    world = played.world.copy()
    world.take(st.Crash(ONE))
    assert len(world.nodes[ONE].records) == 2
    played.take(st.Crash(ONE, power=True))
    assert len(played.world.nodes[ONE].records) == 1


def test_a_request_whose_answer_is_lost_can_time_out_and_is_sent_again() -> None:
    world = World(Start(nodes=2))
    world.take(st.Lose())
    assert ("request", TWO) in world.due(world.nodes[ONE])
    world.take(st.Tick())
    world.take(st.Tick())
    assert [packet.kind for packet in world.in_flight] == ["fetch", "fetch"]


def test_a_leader_that_is_gone_is_replaced_and_follows_when_it_is_back() -> None:
    played = elected()
    for step in (
        st.Crash(ONE),
        st.Fire(TWO, "fetch"),
        st.Fire(THREE, "fetch"),
        st.Exchange(rounds=30, sync=True),
    ):
        played.take(step)
    leaders = [node.id for node in played.world.nodes.values() if node.core and node.core.role is Role.LEADER]
    assert leaders == [TWO]
    played.take(st.Restart(ONE))
    played.take(st.Exchange(rounds=30, sync=True))
    for _ in range(3):
        played.take(st.Tick())
        played.take(st.Exchange(rounds=30, sync=True))
    core = played.world.nodes[ONE].core
    assert core is not None
    assert (core.role, core.leader) == (Role.FOLLOWER, TWO)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (st.Deliver(ONE, TWO, "vote"), "kind: no vote number 1 from 1 to 2 is in flight, only: fetch from 1"),
        (st.Restart(ONE), "node 1 is up; crash it first"),
        (st.Resume(ONE), "node 1 is not paused"),
        (st.Sync(ONE), "all that node 1 has is durable"),
        (st.Heal(ONE, TWO), "the link of nodes 1 and 2 is whole already"),
        (st.Cut(ONE, ONE), "a link is between two nodes"),
        (st.Crash(NodeId(9)), "there is no node 9, only 1, 2, 3"),
        (st.Fire(ONE, "fetch"), "node 1 has no fetch to fire, only: election"),
        (st.Exchange(nodes=(NodeId(7),)), "there is no node 7"),
    ],
)
def test_a_step_that_cannot_be_taken_says_what_can_and_changes_nothing(step: st.Step, message: str) -> None:
    played = Played(Start(nodes=3))
    before = state(played.world)
    with pytest.raises(StepError) as caught:
        played.take(step)
    assert message in str(caught.value)
    assert state(played.world) == before
    assert not played.steps


def test_what_is_paused_or_cut_off_receives_nothing() -> None:
    played = Played(Start(nodes=3))
    fetch = st.Deliver(ONE, TWO, "fetch")
    played.take(st.Cut(TWO, ONE))
    with pytest.raises(StepError, match="the link of nodes 1 and 2 is cut"):
        played.take(fetch)
    played.take(st.Heal(ONE, TWO))
    played.take(st.Pause(TWO))
    with pytest.raises(StepError, match="node 2 is paused"):
        played.take(fetch)
    with pytest.raises(StepError, match="node 2 is paused"):
        played.take(st.Propose(TWO, "red"))
    played.take(st.Resume(TWO))
    played.take(fetch)


def test_going_to_other_steps_takes_only_those_that_differ() -> None:
    played = elected()
    first = list(played.steps)
    kept = played.at(1)
    played.go_to(first[:1])
    assert played.steps == first, "the later ones stay known"
    played.go_to([first[0], st.Crash(TWO)])
    assert played.at(1) is kept
    assert played.world.nodes[TWO].core is None
    with pytest.raises(StepError, match="step 3: node 2 is down"):
        played.go_to([first[0], st.Crash(TWO), st.Crash(TWO)])


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"nodes": 8}, "nodes: must be 1 to 7, not 8; the page offers 1 to 5, and a script may have 7"),
        ({"nodes": 3, "voters": 4}, "voters: must be 1 to 3, the number of nodes, not 4"),
        ({"nodes": 3, "logs": [[1]], "epoch": 1}, "logs: must have one entry for each of the 3 nodes"),
        ({"nodes": 1, "logs": [[2]], "epoch": 1}, "epoch: must be at least 2"),
        ({"nodes": 2, "logs": [[1], [2]], "epochs": [2, 1]}, "epochs: must be at least 2"),
        ({"nodes": 1, "logs": [[2, 1]], "epoch": 2}, "epochs begin at 1 and never go back"),
        ({"nodes": 1, "epochs": [True]}, "epochs: .* has something that is no epoch"),
        ({"fetch": 0}, "fetch: must be 1 to"),
        ({"down": 1}, "down: must be true or false, not 1"),
    ],
)
def test_a_start_that_is_none_is_refused(start: dict[str, Json], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        start_from_json(start)


@pytest.mark.parametrize(
    "start",
    [
        Start(),
        Start(nodes=4, voters=3, dynamic=True, down=True, fetch=9, logs=((1,),) * 4, epochs=(1, 2, 1, 1)),
    ],
)
def test_a_start_outlives_its_json(start: Start) -> None:
    assert start_from_json(start_to_json(start)) == start


def test_an_answer_to_an_earlier_process_is_not_taken_for_one_to_this() -> None:
    played = Played(Start(nodes=3))
    for step in (
        st.Lose(),
        st.Fire(ONE, "election"),
        st.Deliver(ONE, TWO, "pre-vote"),
        st.Crash(ONE),
        st.Restart(ONE),
        st.Fire(ONE, "election"),
        st.Deliver(TWO, ONE, "pre-vote answer"),
    ):
        played.take(step)
    core = played.world.nodes[ONE].core
    assert core is not None
    assert core.role is Role.PROSPECTIVE


class FindsARuleBroken(Core):
    __slots__ = ()

    def step(self, event: Event) -> tuple[Effect, ...]:
        if isinstance(event, Propose):
            raise InvariantError("as this test wants it")
        return super().step(event)


def test_a_node_whose_core_finds_a_rule_broken_ends_itself_and_is_told() -> None:
    world = World(Start(nodes=3), FindsARuleBroken)
    world.take(st.Propose(ONE, "red"))
    assert world.nodes[ONE].core is None
    assert world.nodes[ONE].stopped_by == "as this test wants it"
    assert [each.invariant for each in world.violations] == ["NoIllegalState"]
    world.take(st.Restart(ONE))
    assert world.nodes[ONE].stopped_by == ""


@pytest.mark.parametrize(
    ("one", "other", "broken"),
    [
        ("1a 2b", "1a 2b 2c", False),
        ("1a 2b", "1a 3b", False),
        ("1a 2b 3c", "2x 3c", False),
        ("1a 2b 3c", "1x 2b", True),
        ("1a", "1b", True),
    ],
)
def test_logs_with_one_epoch_at_an_offset_are_equal_up_to_it(one: str, other: str, broken: bool) -> None:
    nodes = {
        node: PlayNode(
            node, ElectionState(Epoch(3)), [PlayRecord(Epoch(int(x[0])), x[1]) for x in log.split()]
        )
        for node, log in ((ONE, one), (TWO, other))
    }
    watch = Watch(VoterSet(()))
    watch.look(nodes)
    assert [each.invariant for each in watch.violations] == (["LogMatching"] if broken else [])
