"""The invariants of all nodes together (docs/reference/kraft-rules.md#invariants), as functions of a state
and a little history."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from quorate.simulation.violations import SafetyViolation
from quorate.types import Epoch, NodeId, VoterSet
from tests.simulator.effect_interpreter import WrittenBatch
from tests.simulator.explorer.core_model.machine import (
    Commits,
    Cuts,
    History,
    Leads,
    Machine,
    NodeDisk,
    Observation,
    ReadFailed,
    ReadPassed,
    end_of,
)


@dataclass(frozen=True, slots=True)
class ReadIndexCall:
    """A request for a read index."""

    node: NodeId
    read_round: int
    committed: int
    """Offset below which everything was committed then (exclusive)."""


@dataclass(frozen=True, slots=True)
class Past:
    """The facts to remember because the nodes may forget them."""

    committed: History = ()
    """The longest prefix that any node ever called committed."""
    leaders: tuple[tuple[Epoch, NodeId], ...] = ()
    """The leaders of epochs in which a node may still lead or follow, in order."""
    reads: tuple[ReadIndexCall, ...] = ()


def seen(
    past: Past, node: int, observations: Sequence[Observation], machines: Sequence[Machine], static: VoterSet
) -> Past:
    """Return the past after these observations of `machines[node]`. Raises SafetyViolation."""
    machine = machines[node]
    key = machine.key.id
    for observation in observations:
        match observation:
            case Leads():
                past = _leads(past, key, observation.epoch, machine.disk, machines)
            case Commits():
                past = _commits(past, key, observation, machines, static)
            case Cuts():
                lost = [batch for batch in observation.history if batch in past.committed]
                _require(not lost, f"no committed record is cut, but node {key} cuts {lost}")
            case ReadPassed():
                for read in past.reads:
                    _require(
                        read.node != key
                        or read.read_round > observation.read_round
                        or (observation.read_index or 0) >= read.committed,
                        f"a linearizable read sees what was committed: {read}, not {observation.read_index}",
                    )
                past = _without_reads(past, key, observation.read_round)
            case ReadFailed():
                past = _without_reads(past, key, observation.read_round)
    return past


def asked_to_read(past: Past, node: NodeId, read_round: int) -> Past:
    return replace(past, reads=(*past.reads, ReadIndexCall(node, read_round, end_of(past.committed))))


def crashed(past: Past, node: NodeId) -> Past:
    """Return the past without the answers that the crashed node waited for."""
    return _without_reads(past, node, None)


def pruned(past: Past, machines: Sequence[Machine]) -> Past:
    """Return the past without the leaders of epochs that every node has left behind for good."""
    if not past.leaders:
        return past
    oldest = min(machine.disk.election.epoch for machine in machines)
    if past.leaders[0][0] >= oldest:
        return past
    return replace(past, leaders=tuple(each for each in past.leaders if each[0] >= oldest))


def logs_match(one: History, other: History) -> bool:
    """Log matching (Raft section 5.3): equal epochs at an offset mean equal logs up to it."""
    same = 0
    for ours, theirs in zip(one, other, strict=False):
        if ours != theirs:
            break
        same += 1
    rest = {(batch.base_offset, batch.epoch) for batch in other[same:]}
    return not any((batch.base_offset, batch.epoch) in rest for batch in one[same:])


def _require(condition: bool, invariant: str) -> None:
    if not condition:
        raise SafetyViolation(invariant)


def _without_reads(past: Past, node: NodeId, read_round: int | None) -> Past:
    if not past.reads:
        return past
    kept = tuple(
        read
        for read in past.reads
        if read.node != node or (read_round is not None and read.read_round > read_round)
    )
    return replace(past, reads=kept)


def _leads(past: Past, key: NodeId, epoch: Epoch, disk: NodeDisk, machines: Sequence[Machine]) -> Past:
    known = dict(past.leaders).get(epoch)
    _require(known is None or known == key, f"one leader in epoch {epoch}: {known}, and now {key}")
    if all(machine.disk.election.epoch <= epoch for machine in machines):
        # A leader that the others have already left behind may lack what they committed since.
        count = len(past.committed)
        _require(
            disk.history[:count] == past.committed,
            f"a leader has every committed record: node {key} leads epoch {epoch} with "
            f"{_shown(disk.history)}, "
            f"committed is {_shown(past.committed)}",
        )
    if known is not None:
        return past
    return replace(past, leaders=tuple(sorted((*past.leaders, (epoch, key)))))


def _commits(
    past: Past, key: NodeId, observation: Commits, machines: Sequence[Machine], static: VoterSet
) -> Past:
    history, committed = observation.history, past.committed
    shared = min(len(history), len(committed))
    _require(
        history[:shared] == committed[:shared],
        f"a committed record never changes: node {key} has {_shown(history)}, not {_shown(committed)}",
    )
    if observation.own_epoch is not None:
        _require(
            bool(history) and history[-1].epoch == observation.own_epoch,
            f"older epochs' records commit only with one of the leader's own: node {key}, leader of epoch "
            f"{observation.own_epoch}, commits {_shown(history)}",
        )
    if len(history) <= len(committed):
        return past
    _require(
        observation.own_epoch is not None,
        f"nothing is committed that no leader committed: node {key} commits {_shown(history)}",
    )
    leader = next(machine for machine in machines if machine.key.id == key)
    voters = voters_in(leader.disk.history, static)
    end = end_of(history)
    holders = [
        machine.key.id
        for machine in machines
        if voters.has(machine.key)
        and machine.disk.synced >= end
        and machine.disk.history[: len(history)] == history
    ]
    _require(
        len(holders) >= voters.majority,
        f"what is committed is durable on a majority of {voters.ids}, not only on {holders}: "
        f"node {key} commits {_shown(history)}",
    )
    return replace(past, committed=history)


def voters_in(history: Sequence[WrittenBatch], static: VoterSet) -> VoterSet:
    """The latest set in the log, committed or not."""
    return next((batch.voters.voters for batch in reversed(history) if batch.voters is not None), static)


def _shown(history: History) -> str:
    return "[" + " ".join(f"{batch.base_offset}:e{batch.epoch}" for batch in history) + "]"
