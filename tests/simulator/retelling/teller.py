"""Retells what cores did as the steps of a played world, and plays them along."""

import dataclasses
from collections.abc import Callable
from typing import Final

from quorate.play import steps as st
from quorate.play.play_node import Packet, PlayNode
from quorate.play.script import write_script
from quorate.play.start import Start
from quorate.play.steps import Step, StepError
from quorate.play.world import World
from quorate.raft.core import (
    AddVoter,
    AdoptVoters,
    ChangeVoters,
    CommitHeard,
    Durable,
    Event,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    LogStartMoved,
    Message,
    Propose,
    ReadIndex,
    Received,
    RemoveVoter,
    Request,
    RequestFailed,
    Resign,
    SnapshotChecked,
    SnapshotDamaged,
    SnapshotTaken,
    TimerFired,
    TransferLeadership,
    Unreachable,
    UpdateVoter,
)
from quorate.types import ElectionState, NodeId, ReplicaKey

_LIKE: Final = ("epoch", "leader", "error", "offset", "last_fetched_epoch", "high_watermark", "diverging")
_LIKE_TOO: Final = ("last_epoch", "end_offset", "pre_vote", "granted", "snapshot")


class CannotRetell(Exception):
    """It has a step that teaching mode does not have, or the play goes another way."""


class Teller:
    """`directory_of`: the present directory of a node, as the one who tells knows it."""

    def __init__(self, start: Start, directory_of: Callable[[NodeId], str | None]) -> None:
        self.world = World(start)
        self._start = start
        self._directory_of = directory_of
        self._steps: list[Step] = []
        self._says: dict[int, str] = {}
        self._records = 0

    def copy(self) -> "Teller":
        """Return an independent copy, to try something."""
        twin = Teller(self._start, self._directory_of)
        twin.world, twin._records = self.world.copy(), self._records
        twin._steps, twin._says = list(self._steps), dict(self._says)
        return twin

    def say(self, text: str) -> None:
        """Say it before the next step."""
        said = self._says.get(len(self._steps))
        self._says[len(self._steps)] = text if said is None else f"{said} {text}"

    def script(self, *, title: str, source: str) -> str:
        """Return the script, which expects what the steps lead to."""
        return write_script(self._start, self._steps, title=title, source=source, says=self._says)

    def take(self, step: Step) -> None:
        """Take a step. Raises `CannotRetell`."""
        try:
            self.world.take(step)
        except StepError as error:
            raise CannotRetell(f"step {len(self._steps) + 1}, {step.name}: {error}") from None
        self._steps.append(step)

    # --- messages ---

    def deliver(
        self,
        message: Message,
        way: tuple[NodeId, NodeId],
        *,
        awaited: bool | None = None,
        stays: bool = False,
    ) -> None:
        """`way`: the nodes that the message is from and for. `awaited`: whether the one that asked still
        waits for an answer."""
        name = self._name(message, way, awaited)
        self.take(st.Repeat(*name) if stays else st.Deliver(*name))

    def lose(self, message: Message, way: tuple[NodeId, NodeId], *, awaited: bool | None = None) -> None:
        self.take(st.Drop(*self._name(message, way, awaited)))

    def lose_answers_to(self, node: NodeId) -> None:
        """Its connections are broken."""
        for packet in list(self.world.in_flight):
            if packet.destination == node and not isinstance(packet.message, Request):
                self.take(st.Drop(*self._name_of(packet)))

    def _name(
        self, message: Message, way: tuple[NodeId, NodeId], awaited: bool | None
    ) -> tuple[NodeId, NodeId, str, int]:
        alike = [
            packet
            for packet in self.world.in_flight
            if (packet.source, packet.destination) == way and _alike(packet.message, message)
        ]
        if not alike:
            raise CannotRetell(f"step {len(self._steps) + 1}: no such message is in flight: {message}")
        as_awaited = (each for each in alike if awaited in (None, self._is_awaited(each)))
        return self._name_of(next(as_awaited, alike[0]))

    def _is_awaited(self, packet: Packet) -> bool:
        message = packet.message
        if isinstance(message, Request):
            asker, asked = self.world.nodes[packet.source], message.destination
        else:
            asker, asked = self.world.nodes[packet.destination], message.source
        return asker.awaited.get(asked) == message.correlation

    def _name_of(self, packet: Packet) -> tuple[NodeId, NodeId, str, int]:
        name = packet.source, packet.destination, packet.kind
        alike = [each for each in self.world.in_flight if (each.source, each.destination, each.kind) == name]
        return (*name, alike.index(packet) + 1)

    # --- what happens to one node ---

    def happen(self, node: NodeId, event: Event) -> None:
        """An event that is no message. Raises `CannotRetell`."""
        match event:
            case TimerFired(timer):
                self.take(st.Fire(node, timer.kind.value, timer.node))
            case Durable():
                self._sync(self.world.nodes[node], event)
            case RequestFailed(peer):
                is_lost = peer in self.world.nodes[node].hopeless
                self.take(st.Fire(node, "request", peer) if is_lost else st.GiveUp(node, peer))
            case Unreachable(peer):
                self.take(st.Unreachable(node, peer))
            case Propose():
                self._records += 1
                self.take(st.Propose(node, f"r{self._records}", event.count))
            case Resign():
                self.take(st.Resign(node))
            case TransferLeadership(successor):
                self.take(st.Transfer(node, successor))
            case ReadIndex():
                self.take(st.Read(node))
            case ChangeVoters():
                self.take(self._change(node, event))
            case SnapshotTaken(snapshot):
                self.take(st.Snapshot(node))
                taken = self.world.nodes[node].snapshot
                if taken is None or taken.end_offset != snapshot.end_offset:
                    raise CannotRetell(f"the snapshot of node {node} ends at {snapshot.end_offset}")
            case LogStartMoved():
                self.take(st.Trim(node))
            case SnapshotChecked():
                self.take(st.Check(node))
            case SnapshotDamaged():
                self.take(st.Check(node, damaged=True))
            case Received() | CommitHeard():
                raise CannotRetell(f"no step for {event}")

    def _sync(self, node: PlayNode, event: Durable) -> None:
        """A late completion of what was cut off since says nothing, and is left out."""
        core = node.core
        if core is not None and core.durable_end_offset < event.end_offset <= len(node.records):
            whole = event.end_offset == len(node.records)
            self.take(st.Sync(node.id, None if whole else event.end_offset))

    def _change(self, node: NodeId, event: ChangeVoters) -> Step:
        match event.change:
            case AddVoter(voter):
                return st.AddVoter(node, voter.key.id)
            case RemoveVoter(ReplicaKey(id=voter, directory_id=directory)):
                present = directory == self._directory_of(voter)
                return st.RemoveVoter(node, voter, "" if present else directory or "")
            case UpdateVoter(voter):
                return st.UpdateVoter(node, voter.key.id, voter.endpoint.host)
            case AdoptVoters():
                return st.AdoptVoters(node)

    def must_agree(self, node: NodeId, *, role: str, election: ElectionState, end_offset: int) -> None:
        """Raises `CannotRetell` if the played node is another."""
        played = self.world.nodes[node]
        wanted = _told(role, election, end_offset)
        found = _told(
            "down" if played.core is None else played.core.role.value, played.election, len(played.records)
        )
        if found != wanted:
            raise CannotRetell(f"step {len(self._steps)}: node {node} should be {wanted}, and is {found}")


def _told(role: str, election: ElectionState, end_offset: int) -> str:
    voted = "nobody" if election.voted is None else election.voted.id
    return f"{role} in epoch {election.epoch} of {election.leader}, voted for {voted}, log to {end_offset}"


def _alike(one: Message, other: Message) -> bool:
    """Return whether two messages say the same, whatever their numbers and sizes are."""
    return type(one) is type(other) and _said(one) == _said(other)


def _said(message: Message) -> tuple[object, ...]:
    names = {each.name for each in dataclasses.fields(message)}
    said = [getattr(message, name) for name in (*_LIKE, *_LIKE_TOO) if name in names]
    match message:
        case FetchRequest():
            said.append(message.max_bytes == 0)
        case FetchResponse():
            said.append(message.batches[-1].end_offset if message.batches else None)
        case FetchSnapshotRequest():
            said += [message.position > 0, message.max_bytes == 0]
        case FetchSnapshotResponse():
            said += [message.position > 0, message.length > 0]
        case _:
            pass
    return tuple(said)
