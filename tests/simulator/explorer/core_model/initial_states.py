"""The initial states of explorations: a few ordered events lead the shipped core there."""

from collections.abc import Callable, Mapping
from typing import Final

from quorate.raft.core import (
    AdoptVoters,
    ChangeVoters,
    Durable,
    Event,
    FetchSnapshotRequest,
    LogStartMoved,
    Propose,
    RemoveVoter,
    RequestFailed,
    Resign,
    Role,
    SnapshotChecked,
    SnapshotTaken,
    Timer,
    TimerFired,
    TimerKind,
    Unreachable,
)
from quorate.types import EpochEnd, NodeId, SnapshotId
from tests.simulator.explorer.core_model.canonical import CURRENT
from tests.simulator.explorer.core_model.machine import Machine
from tests.simulator.explorer.core_model.world import World
from tests.simulator.explorer.model import State


class InitialStateError(Exception):
    """The core does not get there: it makes no progress, or goes another way."""


class Director:
    """Lets things happen in a `World` one by one, at no cost to its budgets. Nodes by index, from 0."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.state = world.down()
        self._proposals = 0

    @property
    def nodes(self) -> range:
        return range(len(self.world.names))

    @property
    def last(self) -> int:
        return self.nodes[-1]

    def start(self, *nodes: int) -> None:
        for node in nodes:
            self.state = self.world.starts(self.state, node)

    def happens(self, node: int, event: Event) -> None:
        self.state = self.world.happens(self.state, node, event)

    def lose_touch(self, *nodes: int, with_: int = 0) -> None:
        """Break the nodes' connections to that node."""
        for node in nodes:
            self.happens(node, Unreachable(self.world.names[with_]))

    def machine(self, node: int) -> Machine:
        return self.world.machines_of(self.state)[node]

    def deliver_newest(self) -> None:
        self.state = self.world.arrives(self.state, self.world.packets_of(self.state)[-1][0])

    def fire(self, node: int, kind: TimerKind) -> None:
        self.happens(node, TimerFired(Timer(kind)))

    def propose(self, node: int) -> None:
        self._proposals += 1
        self.happens(node, Propose(-self._proposals, 1))

    def crash(self, node: int) -> None:
        self.state = self.world.falls(self.state, node)

    def settle(self, *nodes: int, leads: int | None = None) -> None:
        """Deliver every message and end every sync among these nodes (all, if none are given), until nothing
        is left, or until the node `leads` does."""
        names = {self.world.names[node] for node in nodes or range(len(self.world.names))}
        for _ in range(1000):
            if (leads is not None and self.role(leads) is Role.LEADER) or not self._one(names):
                return
        raise InitialStateError("the nodes never come to rest")

    def role(self, node: int) -> Role | None:
        core = self.machine(node).core
        return core.role if core is not None else None

    def must_lead(self, node: int) -> None:
        role = self.role(node)
        if role is not Role.LEADER:
            raise InitialStateError(f"node {node + 1} should lead, but is {role.value if role else 'down'}")

    def lose(self, *, to: int | None = None) -> None:
        """Lose all packets under way, or those to that node."""
        for number, packet in self.world.packets_of(self.state):
            if to is None or packet.message.destination == self.world.names[to]:
                self.state = self.world.vanishes(self.state, number)

    def _one(self, names: set[NodeId]) -> bool:
        for node, machine in enumerate(self.world.machines_of(self.state)):
            if machine.key.id in names and machine.syncs:
                self.happens(node, Durable(machine.syncs[0].generation, machine.syncs[0].end_offset))
                return True
        for number, packet in self.world.packets_of(self.state):
            message = packet.message
            if message.source in names and message.destination in names:
                machine = next(
                    each for each in self.world.machines_of(self.state) if each.key.id == message.destination
                )
                if machine.core is not None:
                    self.state = self.world.arrives(self.state, number)
                    return True
        return False


def cold(director: Director) -> None:
    """Every node has just started for the first time."""
    director.start(*director.nodes)


def rivals(director: Director) -> None:
    """Two of the nodes that have just started stand for election at once."""
    cold(director)
    director.settle()
    for node in director.nodes[1:]:
        director.fire(node, TimerKind.ELECTION)


def elected(director: Director) -> None:
    """The first node leads epoch 1. Every node has its LeaderChange record and waits for more."""
    cold(director)
    director.settle()
    if director.role(0) is not Role.LEADER:  # a sole voter needs no timer
        director.fire(0, TimerKind.ELECTION)
        director.settle()
    director.must_lead(0)


def premature(director: Director) -> None:
    """The first node led epoch 1 and is down. No other node has its LeaderChange record, and the second asks
    for votes."""
    cold(director)
    director.settle()
    director.fire(0, TimerKind.ELECTION)
    director.settle(leads=0)
    director.must_lead(0)
    director.crash(0)
    director.lose()
    kind = TimerKind.FETCH if director.role(1) is Role.FOLLOWER else TimerKind.ELECTION
    director.fire(1, kind)


def lagging(director: Director) -> None:
    """The first node leads; the last has missed the last two committed records and lost touch."""
    elected(director)
    director.propose(0)
    director.propose(0)
    director.settle(*director.nodes[:-1])
    director.lose()


def short_candidate(director: Director) -> None:
    """The leader is down; the last node, which has missed a committed record, asks for votes."""
    lagging(director)
    director.crash(0)
    director.lose_touch(*director.nodes[1:-1])
    director.fire(director.last, TimerKind.FETCH)


def wooed(director: Director) -> None:
    """The leader alone has a new record. The second node has lost touch with it, and the last one asks the
    second for its vote."""
    elected(director)
    director.lose_touch(1)
    director.fire(director.last, TimerKind.FETCH)
    director.propose(0)


def diverged(director: Director) -> None:
    """The first node led epoch 1, appended records that no other node got, and is down. The second asks for
    votes."""
    elected(director)
    director.propose(0)
    director.propose(0)
    director.settle(0)
    director.crash(0)
    director.lose()
    _second_stands(director)


def stale_candidate(director: Director) -> None:
    """Start as diverged, but the second node has led epoch 2, committed in it, and is down; the first, whose
    log is the longer, asks for votes."""
    diverged(director)
    director.settle(*director.nodes[1:])
    director.must_lead(1)
    director.lose()
    director.crash(1)
    director.lose_touch(*director.nodes[2:], with_=1)
    director.start(0)
    director.fire(0, TimerKind.ELECTION)
    director.lose()
    director.fire(0, TimerKind.ELECTION)


def deposed(director: Director) -> None:
    """The first node leads epoch 1 and does not know that the second leads epoch 2."""
    elected(director)
    _second_stands(director)
    director.settle(*director.nodes[1:])
    director.must_lead(1)
    director.lose()


def _second_stands(director: Director) -> None:
    """Let the second node stand for election, without the first."""
    director.lose_touch(*director.nodes[1:])
    director.fire(1, TimerKind.FETCH)


def dynamic(director: Director) -> None:
    """Start as elected, with the voters in the log."""
    elected(director)
    director.happens(0, ChangeVoters(0, AdoptVoters()))
    director.settle()
    machine = director.machine(0)
    if machine.disk.history[-1].voters is None or machine.up.high_watermark != machine.disk.end_offset:
        raise InitialStateError("the voters should be in the log, and committed")


def undone_change(director: Director) -> None:
    """Start as diverged, but the record that no other node got is a change of the voters."""
    dynamic(director)
    director.happens(0, ChangeVoters(0, RemoveVoter(director.world.voter(director.world.names[-1]).key)))
    director.settle(0)
    director.crash(0)
    director.lose()
    _second_stands(director)


def behind_the_start(director: Director) -> None:
    """The first node leads and its log starts with a snapshot; the last node is behind that, and lost
    touch."""
    lagging(director)
    disk = director.machine(0).disk
    director.happens(0, SnapshotTaken(SnapshotId(disk.end_offset, disk.last_epoch)))
    director.happens(0, LogStartMoved(EpochEnd(disk.last_epoch, disk.end_offset)))


def _ask_again(director: Director) -> None:
    """The last node, which lost touch, gives up its old Fetch and sends another."""
    first = director.world.names[0]
    director.happens(director.last, RequestFailed(first, CURRENT))
    director.happens(director.last, TimerFired(Timer(TimerKind.BACKOFF, first)))


def checking(director: Director) -> None:
    """Start as behind the start. The leader resigns while the last node checks its fetched snapshot."""
    behind_the_start(director)
    _ask_again(director)
    director.settle()
    if director.machine(-1).checking is None:
        raise InitialStateError("the last node should have a snapshot to check")
    director.happens(0, Resign())
    director.lose()
    director.fire(0, TimerKind.ELECTION)


def loading(director: Director) -> None:
    """Start as behind the start. The leader resigns while the last node's first request for the snapshot is
    under way."""
    behind_the_start(director)
    _ask_again(director)
    for _ in range(2):
        director.deliver_newest()
    director.happens(0, Resign())
    for number, packet in director.world.packets_of(director.state):
        if not isinstance(packet.message, FetchSnapshotRequest):
            director.state = director.world.vanishes(director.state, number)


def late_request(director: Director) -> None:
    """Start as loading. The node that led asks for votes while the request for its snapshot is still under
    way."""
    loading(director)
    director.fire(0, TimerKind.ELECTION)
    director.lose_touch(1)
    director.lose(to=1)
    director.fire(0, TimerKind.ELECTION)
    director.lose(to=director.last)


def late_request_to_a_follower(director: Director) -> None:
    """Start as loading, and the second node asks for votes."""
    loading(director)
    director.lose_touch(1)
    director.fire(1, TimerKind.FETCH)


def late_chunk(director: Director) -> None:
    """The last node has loaded a snapshot of which it had asked for the first bytes twice, and asks for
    votes. The leader is down."""
    behind_the_start(director)
    _ask_again(director)
    for _ in range(2):
        director.deliver_newest()
    _ask_again(director)
    director.settle()
    checked = director.machine(director.last).checking
    if checked is None:
        raise InitialStateError("the last node should have a snapshot to check")
    director.happens(director.last, SnapshotChecked(checked, None))
    director.settle()
    director.crash(0)
    director.lose()
    director.lose_touch(*director.nodes[1:-1])
    director.fire(director.last, TimerKind.FETCH)
    director.lose(to=0)


def late_check(director: Director) -> None:
    """Start as checking, and the node that led asks for votes."""
    checking(director)
    director.lose_touch(1)
    director.lose()
    director.fire(0, TimerKind.ELECTION)


def late_sync(director: Director) -> None:
    """The leader is down; the last node has fetched a record of its, asks for votes, and has not synced it
    yet."""
    elected(director)
    director.propose(0)
    last = director.world.names[-1]
    for number, packet in director.world.packets_of(director.state):
        if packet.message.destination == last:
            director.state = director.world.arrives(director.state, number)
    director.crash(0)
    director.lose()
    director.lose_touch(*director.nodes[1:-1])
    director.fire(director.last, TimerKind.FETCH)
    director.lose(to=0)


def late_timer(director: Director) -> None:
    """The node that led asks for votes, and the timer of a Fetch that it has long answered still runs."""
    elected(director)
    director.propose(0)
    director.happens(0, Resign())
    director.lose()
    director.fire(0, TimerKind.ELECTION)
    director.lose()
    director.fire(0, TimerKind.ELECTION)


def resigned(director: Director) -> None:
    """The first node has resigned, and does not know that the second leads epoch 2."""
    elected(director)
    director.happens(0, Resign())
    director.lose()
    _second_stands(director)
    director.settle(*director.nodes[1:])
    director.must_lead(1)
    director.lose()


INITIAL_STATES: Final[Mapping[str, Callable[[Director], None]]] = {
    "cold": cold,
    "rivals": rivals,
    "premature": premature,
    "elected": elected,
    "lagging": lagging,
    "short candidate": short_candidate,
    "wooed": wooed,
    "diverged": diverged,
    "stale candidate": stale_candidate,
    "deposed": deposed,
    "dynamic": dynamic,
    "undone change": undone_change,
    "behind the start": behind_the_start,
    "loading": loading,
    "checking": checking,
    "late request": late_request,
    "late request to a follower": late_request_to_a_follower,
    "late chunk": late_chunk,
    "late check": late_check,
    "late sync": late_sync,
    "late timer": late_timer,
    "resigned": resigned,
}


def begin(world: World) -> State:
    """The world's initial state; from here on its bound counts."""
    director = Director(world)
    INITIAL_STATES[world.bound.initial](director)
    world.limit(director.state)
    return director.state
