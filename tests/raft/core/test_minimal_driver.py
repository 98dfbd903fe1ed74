"""The core's manual: its driver runs, and it names all that there is."""

import inspect
import re
import sys
import textwrap
from collections import deque
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

import quorate.raft.core as front_door
from quorate.raft.core import (
    CheckSnapshot,
    Durable,
    Effect,
    Event,
    Generation,
    InvariantError,
    Message,
    Role,
    Timer,
    TimerKind,
    VoterChange,
)
from quorate.raft.driver.driver import Driver
from quorate.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey, SnapshotId, Voter, VoterSet

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "examples"))

from minimal_driver import MinimalDriver, deliver_all  # noqa: E402

MANUAL = inspect.getdoc(front_door) or ""
ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
ELECTION, FETCH = Timer(TimerKind.ELECTION), Timer(TimerKind.FETCH)

Network = deque[Message]
Nodes = dict[NodeId, MinimalDriver]


@pytest.fixture
def network() -> Network:
    return deque()


@pytest.fixture
def nodes(network: Network) -> Nodes:
    """Three that know of no leader yet."""
    voters = VoterSet(
        tuple(Voter(ReplicaKey(node), Endpoint(f"node-{node}", 9093)) for node in (ONE, TWO, THREE))
    )
    started = {node: MinimalDriver(node, voters, network) for node in (ONE, TWO, THREE)}
    deliver_all(network, started)
    return started


def leaders(nodes: Nodes) -> list[NodeId]:
    return [node for node, driver in nodes.items() if driver.core.role is Role.LEADER]


def miss_the_leader(nodes: Nodes, network: Network) -> None:
    """One after another hears nothing of it for too long."""
    for driver in nodes.values():
        driver.fire(FETCH)
        deliver_all(network, nodes)


def test_three_drivers_elect_commit_lose_the_leader_and_commit_again(nodes: Nodes, network: Network) -> None:
    nodes[ONE].fire(ELECTION)
    deliver_all(network, nodes)
    assert leaders(nodes) == [ONE]

    nodes[ONE].propose(1, [b"red", b"green"])
    assert nodes[ONE].high_watermark == 1, "a majority has not fetched it"
    deliver_all(network, nodes)
    first = [(Epoch(1), b""), (Epoch(1), b"red"), (Epoch(1), b"green")]
    assert [driver.log for driver in nodes.values()] == [first, first, first]
    assert [driver.high_watermark for driver in nodes.values()] == [3, 3, 3]

    nodes[ONE].propose(2, [b"lost"])
    network.clear()  # it told nobody
    gone = nodes.pop(ONE)
    miss_the_leader(nodes, network)
    (leader,) = leaders(nodes)

    (follower,) = set(nodes) - {leader}
    nodes[follower].propose(3, [b"refused"])
    assert not nodes[follower].proposals, "it does not lead"
    nodes[leader].propose(4, [b"blue"])
    deliver_all(network, nodes)
    epoch = nodes[leader].core.epoch
    second = [*first, (epoch, b""), (epoch, b"blue")]
    assert epoch > 1
    assert [driver.log for driver in nodes.values()] == [second, second]
    assert [driver.high_watermark for driver in nodes.values()] == [5, 5]

    # The leader that was gone comes back with a record that nobody committed, and cuts it off.
    assert gone.log == [*first, (Epoch(1), b"lost")]
    nodes[ONE] = gone
    gone.restart()
    assert gone.core.role is Role.RESIGNED, "it knows that it led this epoch"
    deliver_all(network, nodes)
    for timer in (Timer(TimerKind.BACKOFF, ONE), Timer(TimerKind.BEGIN_QUORUM)):
        if timer in nodes[leader].timers:
            nodes[leader].fire(timer)
    deliver_all(network, nodes)
    assert (gone.core.role, gone.core.leader) == (Role.FOLLOWER, leader)
    assert (gone.log, gone.high_watermark) == (second, 5)


def test_a_durable_end_beyond_the_log_end_violates_an_invariant(nodes: Nodes) -> None:
    with pytest.raises(InvariantError, match="more became durable than was appended"):
        nodes[ONE].step(Durable(Generation(0), Offset(1)))


def test_the_driver_refuses_effects_that_it_cannot_carry_out(nodes: Nodes) -> None:
    with pytest.raises(NotImplementedError, match="CheckSnapshot"):
        nodes[ONE].do(CheckSnapshot(SnapshotId(Offset(1), Epoch(1))))


def entries() -> dict[str, str]:
    """What the manual lists: names at the start of an indented line, and the text below each."""
    pattern = r"^  (\w+(?:, \w+)*)(?: \(barrier\))?\n((?:    .*\n|\n)+)"
    return {
        name: head.group(0)
        for head in re.finditer(pattern, MANUAL, re.M)
        for name in head.group(1).split(", ")
    }


def test_the_manual_lists_every_effect_in_order_and_every_event() -> None:
    listed = list(entries())
    effects = [each.__name__ for each in get_args(Effect)]
    events = [each.__name__ for each in get_args(Event)]
    assert [name for name in listed if name in effects] == effects
    assert [name for name in listed if name not in effects] == events


def test_the_manual_names_every_change_of_the_voters() -> None:
    missing = [each.__name__ for each in get_args(VoterChange) if f"`{each.__name__}`" not in MANUAL]
    assert not missing


def test_the_manual_the_effects_and_the_driver_have_the_same_barriers() -> None:
    effects = {each.__name__ for each in get_args(Effect) if each.is_barrier}
    marked = {name for name, text in entries().items() if "(barrier)" in text.splitlines()[0]}
    (sentence,) = re.findall(r"barriers: (.*?)\.", MANUAL, re.S)
    awaited = get_args(get_type_hints(Driver._complete_barrier)["barrier"])
    assert marked == effects
    assert set(re.findall(r"`(\w+)`", sentence)) == effects
    assert {each.__name__ for each in awaited} == effects


def test_the_manual_shows_the_driver_as_it_is() -> None:
    for method in (MinimalDriver.carry_out, MinimalDriver.do):
        assert textwrap.indent(textwrap.dedent(inspect.getsource(method)), "    ") in MANUAL + "\n"


def test_the_driver_names_paragraphs_that_the_manual_has() -> None:
    named = set(re.findall(r'# .*?"([^"]+)"(?: and "([^"]+)")?', inspect.getsource(MinimalDriver)))
    titles = {title for pair in named for title in pair if title}
    assert len(titles) >= 6
    assert titles <= set(re.findall(r"^([A-Z][^\n]*)\n-+$", MANUAL, re.M))
