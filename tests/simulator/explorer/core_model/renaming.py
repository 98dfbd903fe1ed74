"""Nodes under other names: all values that name a node, with the names exchanged."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Final, get_type_hints

from quorate.raft.core import (
    AddVoter,
    BatchSpan,
    ChangeVoters,
    Event,
    FetchRequest,
    Message,
    Received,
    RemoveVoter,
    RequestFailed,
    SnapshotChecked,
    Timer,
    TimerFired,
    TransferLeadership,
    Unreachable,
    UpdateVoter,
    VoterChange,
)
from quorate.types import ElectionState, Endpoint, NodeId, ReplicaKey, Voter, VotersAt, VoterSet
from tests.simulator.effect_interpreter import WrittenBatch
from tests.simulator.explorer.core_model.explored_invariants import Past
from tests.simulator.explorer.core_model.machine import (
    Commits,
    Cuts,
    History,
    NodeDisk,
    Observation,
    Packet,
    Snapshot,
)

_NAMED: Final = ("NodeId", "Endpoint", "ReplicaKey", "Voter", "BatchSpan")
"""Types that name a node."""


@cache
def _naming_fields(kind: type) -> tuple[str, ...]:
    """The fields of a message in which a node may occur, by their types."""
    hints = get_type_hints(kind)
    return tuple(name for name, hint in hints.items() if any(named in str(hint) for named in _NAMED))


class Renaming:
    """A map from nodes to new names. Mere order of ids becomes that of the new ids."""

    def __init__(self, names: Mapping[NodeId, NodeId], endpoints: Mapping[Endpoint, Endpoint]) -> None:
        self._names = names
        self._endpoints = endpoints

    def node(self, node: NodeId) -> NodeId:
        return self._names[node]

    def node_if_any(self, node: NodeId | None) -> NodeId | None:
        return None if node is None else self._names[node]

    def endpoint(self, endpoint: Endpoint | None) -> Endpoint | None:
        return None if endpoint is None else self._endpoints[endpoint]

    def heard_of(self, value: tuple[NodeId, Endpoint] | None) -> tuple[NodeId, Endpoint] | None:
        return None if value is None else (self._names[value[0]], self._endpoints[value[1]])

    def key(self, key: ReplicaKey) -> ReplicaKey:
        return ReplicaKey(self._names[key.id], key.directory_id)

    def key_if_any(self, key: ReplicaKey | None) -> ReplicaKey | None:
        return None if key is None else self.key(key)

    def voter(self, voter: Voter) -> Voter:
        return Voter(self.key(voter.key), self._endpoints[voter.endpoint])

    def voters(self, voters: VoterSet) -> VoterSet:
        renamed = (self.voter(voter) for voter in voters)
        return VoterSet(tuple(sorted(renamed, key=lambda voter: voter.key.id)))

    def voters_at(self, voters: VotersAt | None) -> VotersAt | None:
        return None if voters is None else VotersAt(voters.offset, self.voters(voters.voters))

    def election(self, election: ElectionState) -> ElectionState:
        return ElectionState(
            election.epoch, self.node_if_any(election.leader), self.key_if_any(election.voted)
        )

    # --- what is stored ---

    def history(self, history: History) -> History:
        return tuple(self._batch(batch) for batch in history)

    def _batch(self, batch: WrittenBatch) -> WrittenBatch:
        return replace(batch, leader=self.node_if_any(batch.leader), voters=self.voters_at(batch.voters))

    def snapshot(self, snapshot: Snapshot) -> Snapshot:
        return Snapshot(snapshot.id, self.history(snapshot.history))

    def disk(self, disk: NodeDisk) -> NodeDisk:
        return replace(
            disk,
            election=self.election(disk.election),
            history=self.history(disk.history),
            snapshots=tuple(self.snapshot(snapshot) for snapshot in disk.snapshots),
        )

    # --- what is said ---

    def packet(self, packet: Packet) -> Packet:
        return Packet(self.message(packet.message), self.history(packet.history))

    def fetch(self, request: FetchRequest) -> FetchRequest:
        return replace(
            request,
            source=self.node(request.source),
            destination=self.node(request.destination),
            replica=self.key(request.replica),
        )

    def message(self, message: Message) -> Message:
        kind: type = type(message)
        changes = {name: self._field(name, getattr(message, name)) for name in _naming_fields(kind)}
        return replace(message, **changes)  # type: ignore[arg-type]

    def _field(self, name: str, value: object) -> object:
        match value:
            case None:
                return None
            case int():
                return self._names[NodeId(value)]
            case Endpoint():
                return self._endpoints[value]
            case ReplicaKey():
                return self.key(value)
            case tuple() if name == "preferred_successors":
                return tuple(sorted(self._names[node] for node in value))
            case tuple():
                return tuple(self._each(name, each) for each in value)
            case _:
                raise TypeError(f"{name} may hold a node; say how to rename {value!r}")

    def _each(self, name: str, value: object) -> object:
        return self._span(value) if isinstance(value, BatchSpan) else self._field(name, value)

    def _span(self, span: BatchSpan) -> BatchSpan:
        return span if span.voters is None else replace(span, voters=self.voters_at(span.voters))

    # --- what happens ---

    def timer(self, timer: Timer) -> Timer:
        return Timer(timer.kind, self.node_if_any(timer.node))

    def event(self, event: Event) -> Event:
        match event:
            case Received():
                return Received(self.message(event.message))
            case TimerFired():
                return TimerFired(self.timer(event.timer))
            case RequestFailed():
                return RequestFailed(self.node(event.destination), event.correlation)
            case Unreachable():
                return Unreachable(self.node(event.node))
            case TransferLeadership():
                return TransferLeadership(self.node(event.successor))
            case ChangeVoters():
                return ChangeVoters(event.request, self._change(event.change))
            case SnapshotChecked():
                voters = None if event.voters is None else self.voters(event.voters)
                return SnapshotChecked(event.snapshot, voters)
            case _:
                return event

    def _change(self, change: VoterChange) -> VoterChange:
        match change:
            case AddVoter():
                return AddVoter(self.voter(change.voter))
            case RemoveVoter():
                return RemoveVoter(self.key(change.key))
            case UpdateVoter():
                return UpdateVoter(self.voter(change.voter))
            case _:
                return change

    # --- what has to be remembered ---

    def observation(self, observation: Observation) -> Observation:
        match observation:
            case Commits() | Cuts():
                return replace(observation, history=self.history(observation.history))
            case _:
                return observation

    def past(self, past: Past) -> Past:
        return Past(
            self.history(past.committed),
            tuple(sorted((epoch, self.node(leader)) for epoch, leader in past.leaders)),
            tuple(replace(read, node=self.node(read.node)) for read in past.reads),
        )
