"""Cores wired to each other, in which nothing happens by itself: messages, disks and timers wait for a step.

A world is a function of its start and its steps: it has no clock and no entropy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from quorate.play import steps as st
from quorate.play.play_node import Packet, PlayNode, PlayRecord, describe, kind_of
from quorate.play.steps import StepError
from quorate.play.watch import Violation, Watch
from quorate.raft.core import (
    Core,
    CoreConfig,
    Durable,
    Effect,
    Event,
    InvariantError,
    Message,
    Propose,
    ReadIndex,
    Received,
    Request,
    RequestFailed,
    Role,
    Timer,
    TimerFired,
    TimerKind,
    VoteResponse,
)
from quorate.raft.core import effects as fx
from quorate.types import ElectionState, Endpoint, Epoch, NodeId, Offset, ReplicaKey, Voter, VoterSet

NODES_MIN: Final = 1
NODES_MAX: Final = 5
_PORT: Final = 9093
_CORRELATIONS: Final = 1_000_000
"""Each process of a node has as many, so that no answer to an earlier one fits."""
_LONG_TIMERS: Final = (TimerKind.ELECTION, TimerKind.FETCH, TimerKind.CHECK_QUORUM)
REQUEST: Final = "request"
"""The name of a request's timeout, among those of timers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The beginning of a world."""

    nodes: int = 3
    logs: tuple[tuple[int, ...], ...] = ()
    """The epochs of the records that each node has on its disk. Empty: none."""
    epoch: int = 0
    """The epoch that all have on their disks."""


@dataclass(frozen=True, slots=True)
class Happening:
    """A thing that a step made happen."""

    node: NodeId | None
    kind: str
    """What it is of: `disk`, `role`, `commit`, `message`, `timer`, `client`, `fault` or `violation`."""
    text: str


class World:
    """Nodes, their disks, and the messages between them."""

    __slots__ = ("_core", "_happened", "_next", "cuts", "in_flight", "nodes", "voters", "watch")

    def __init__(self, start: Start, core: type[Core] = Core) -> None:
        """`core`: the production core, or one with a wrong rule. Raises `ValueError`."""
        if not NODES_MIN <= start.nodes <= NODES_MAX:
            raise ValueError(f"nodes: must be {NODES_MIN} to {NODES_MAX}, not {start.nodes}")
        if start.logs and len(start.logs) != start.nodes:
            raise ValueError(f"logs: must have one list for each of the {start.nodes} nodes")
        newest = max((epoch for log in start.logs for epoch in log), default=0)
        if newest > start.epoch:
            raise ValueError(f"epoch: must be at least {newest}, the highest in the logs")
        if any(list(log) != sorted(log) or min(log, default=1) < 1 for log in start.logs):
            raise ValueError("logs: epochs begin at 1 and never go back in a log")
        self._core = core
        ids = [NodeId(number) for number in range(1, start.nodes + 1)]
        self.voters = VoterSet(
            tuple(Voter(ReplicaKey(node), Endpoint(f"node-{node}", _PORT)) for node in ids)
        )
        self.nodes = {node: PlayNode(node, ElectionState(Epoch(start.epoch))) for node in ids}
        for node, epochs in zip(self.nodes.values(), start.logs, strict=False):
            node.records = [PlayRecord(Epoch(epoch), f"e{epoch}") for epoch in epochs]
        self.in_flight: list[Packet] = []
        """The oldest first."""
        self.cuts: set[tuple[NodeId, NodeId]] = set()
        """Links that are cut, the lower id first."""
        self.watch = Watch(self.voters.majority)
        self._next = 0
        self._happened: list[Happening] = []
        for node in self.nodes.values():
            self._start(node)
        self.watch.look(self.nodes)
        self._happened.clear()

    def copy(self) -> "World":
        """Return an independent copy, from which the same steps lead to the same states."""
        twin = object.__new__(World)
        twin._core, twin.voters, twin._next = self._core, self.voters, self._next
        twin.nodes = {node: each.copy() for node, each in self.nodes.items()}
        twin.in_flight = list(self.in_flight)
        twin.cuts = set(self.cuts)
        twin.watch = self.watch.copy()
        twin._happened = []
        return twin

    @property
    def violations(self) -> Sequence[Violation]:
        return self.watch.violations

    def take(self, step: st.Step) -> tuple[Happening, ...]:
        """Take a step, and return what happened. Raises `StepError`, and nothing has changed then."""
        known = len(self.watch.violations)
        self._happened = []
        self._take(step)
        self.watch.look(self.nodes)
        for violation in self.watch.violations[known:]:
            self._tell(None, "violation", f"{violation.invariant}: {violation.text}")
        return tuple(self._happened)

    def may_arrive(self, packet: Packet) -> bool:
        """Return whether the message can be delivered now."""
        return self._blocked_by(packet) is None

    def due(self, node: PlayNode) -> list[tuple[str, NodeId | None]]:
        """Return the timers of a node that a step may fire, by name and peer."""
        if node.core is None or node.paused:
            return []
        armed = [(timer.kind.value, timer.node) for timer in node.timers]
        return armed + [(REQUEST, peer) for peer in sorted(node.hopeless)]

    # --- steps ---

    def _take(self, step: st.Step) -> None:
        match step:
            case st.Deliver() | st.Drop():
                packet = self._find(step.source, step.destination, step.kind, step.nth)
                if isinstance(step, st.Drop):
                    self._drop(packet)
                    return
                blocked = self._blocked_by(packet)
                if blocked is not None:
                    raise StepError(blocked)
                self._deliver(packet)
            case st.Lose():
                if not self.in_flight:
                    raise StepError("no message is in flight")
                for packet in list(self.in_flight):
                    self._drop(packet)
            case st.Exchange():
                self._exchange([self._node(each).id for each in step.nodes] or list(self.nodes), step)
            case st.Fire():
                self._fire(self._awake(step.node), step.timer, step.peer)
            case st.Tick():
                self._tick()
            case st.Propose():
                self._propose(self._awake(step.node), step.text)
            case st.Read():
                self._read(self._awake(step.node))
            case st.Sync():
                node = self._awake(step.node)
                if node.synced == len(node.records):
                    raise StepError(f"all that node {node.id} has is durable; propose or deliver something")
                self._sync(node)
            case st.Crash():
                node = self._up(step.node)
                self._crash(node, power=step.power)
            case st.Restart():
                node = self._node(step.node)
                if node.core is not None:
                    raise StepError(f"node {node.id} is up; crash it first")
                self._tell(node.id, "fault", "starts from its disk")
                self._start(node)
            case st.Pause():
                node = self._awake(step.node)
                node.paused = True
                self._tell(node.id, "fault", "stands still")
            case st.Resume():
                node = self._up(step.node)
                if not node.paused:
                    raise StepError(f"node {node.id} is not paused")
                node.paused = False
                self._tell(node.id, "fault", "goes on")
            case st.Cut() | st.Heal():
                self._change_link(step)
            case _:
                assert_never(step)

    def _exchange(self, among: Sequence[NodeId], step: st.Exchange) -> None:
        for _ in range(step.rounds):
            moved = False
            for node in self.nodes.values() if step.sync else ():
                can_sync = node.core is not None and not node.paused and node.synced < len(node.records)
                if node.id in among and can_sync:
                    self._sync(node)
                    moved = True
            for packet in list(self.in_flight):
                inside = {packet.message.source, packet.message.destination} <= set(among)
                if inside and self.may_arrive(packet) and packet in self.in_flight:
                    self._deliver(packet)
                    moved = True
            if not moved:
                return

    def _fire(self, node: PlayNode, name: str, peer: NodeId | None) -> None:
        due = self.due(node)
        if (name, peer) not in due:
            listed = ", ".join(each if of is None else f"{each} of {of}" for each, of in due) or "none"
            wanted = name if peer is None else f"{name} of {peer}"
            raise StepError(f"timer: node {node.id} has no {wanted} to fire, only: {listed}")
        if name == REQUEST and peer is not None:
            self._tell(node.id, "client", f"gives up its request to node {peer}")
            self._fail_request(node, peer)
            return
        timer = Timer(TimerKind(name), peer)
        of = "" if peer is None else f" for node {peer}"
        self._tell(node.id, "timer", f"fires its {name} timer{of}")
        del node.timers[timer]
        self._step(node, TimerFired(timer))

    def _tick(self) -> None:
        due = [
            (node, name, peer)
            for node in self.nodes.values()
            for name, peer in self.due(node)
            if name == REQUEST or TimerKind(name) not in _LONG_TIMERS
        ]
        if not due:
            raise StepError("no short timer is armed; fire one of the others, or deliver messages")
        for node, name, peer in due:
            if (name, peer) in self.due(node):
                self._fire(node, name, peer)

    def _propose(self, node: PlayNode, text: str) -> None:
        self._next += 1
        node.proposals[self._next] = text
        self._tell(node.id, "client", f"gets the record {text!r} from a client")
        self._step(node, Propose(self._next, 1))

    def _read(self, node: PlayNode) -> None:
        self._next += 1
        self.watch.reads[node.id, self._next] = len(self.watch.committed)
        self._tell(node.id, "client", "is asked for a linearizable read")
        self._step(node, ReadIndex(self._next))

    def _sync(self, node: PlayNode) -> None:
        node.synced = Offset(len(node.records))
        self._tell(node.id, "disk", f"has everything below offset {node.synced} durable")
        core = node.core
        if core is not None and core.durable_end_offset < node.synced:
            self._step(node, Durable(core.generation, node.synced))

    def _crash(self, node: PlayNode, *, power: bool) -> None:
        lost = len(node.records) - node.synced if power else 0
        if lost:
            del node.records[node.synced :]
        told = f"loses power, and {lost} records that were not durable" if lost else "loses power"
        self._tell(node.id, "fault", told if power else "crashes")
        self._stop(node)

    def _stop(self, node: PlayNode) -> None:
        """Its connections break, so that nobody waits for an answer of it that is not under way."""
        node.stop()
        for other in self.nodes.values():
            correlation = other.awaited.get(node.id)
            if correlation is not None and not self._is_in_flight(other.id, node.id, correlation):
                other.hopeless.add(node.id)

    def _change_link(self, step: st.Cut | st.Heal) -> None:
        one, other = sorted((self._node(step.one).id, self._node(step.other).id))
        if one == other:
            raise StepError("other: a link is between two nodes")
        is_cut = (one, other) in self.cuts
        if is_cut is isinstance(step, st.Cut):
            raise StepError(f"the link of nodes {one} and {other} is {'cut' if is_cut else 'whole'} already")
        if is_cut:
            self.cuts.remove((one, other))
        else:
            self.cuts.add((one, other))
        self._tell(None, "fault", f"the link of nodes {one} and {other} is {'healed' if is_cut else 'cut'}")

    # --- the network ---

    def _find(self, source: NodeId, destination: NodeId, kind: str, nth: int) -> Packet:
        found = [
            packet
            for packet in self.in_flight
            if (packet.message.source, packet.message.destination, packet.kind) == (source, destination, kind)
        ]
        if len(found) < nth:
            there = ", ".join(
                f"{packet.kind} from {packet.message.source} to {packet.message.destination}"
                for packet in self.in_flight
            )
            raise StepError(
                f"kind: no {kind} number {nth} from {source} to {destination} is in flight, only: "
                f"{there or 'nothing'}"
            )
        return found[nth - 1]

    def _blocked_by(self, packet: Packet) -> str | None:
        source, destination = packet.message.source, packet.message.destination
        low, high = sorted((source, destination))
        if (low, high) in self.cuts:
            return f"the link of nodes {low} and {high} is cut; heal it first"
        if self.nodes[destination].paused:
            return f"node {destination} is paused; resume it first"
        return None

    def _deliver(self, packet: Packet) -> None:
        message = packet.message
        self.in_flight.remove(packet)
        node, source = self.nodes[message.destination], self.nodes[message.source]
        if node.core is None:
            self._tell(node.id, "message", f"is down: {packet.kind} from node {source.id} is lost")
            if isinstance(message, Request) and source.awaited.get(node.id) == message.correlation:
                if source.core is not None and not source.paused:
                    self._fail_request(source, node.id)
                else:
                    source.hopeless.add(node.id)
            return
        self._tell(
            node.id, "message", f"gets {packet.kind} from node {source.id}: {describe(message)}".rstrip(": ")
        )
        if not isinstance(message, Request) and node.awaited.get(source.id) == message.correlation:
            del node.awaited[source.id]
            node.hopeless.discard(source.id)
        self._step(node, Received(message))

    def _drop(self, packet: Packet) -> None:
        message = packet.message
        self.in_flight.remove(packet)
        asker, peer = message.source, message.destination
        if not isinstance(message, Request):
            asker, peer = peer, asker
        self._tell(
            None, "fault", f"{packet.kind} from node {message.source} to {message.destination} is lost"
        )
        if self.nodes[asker].awaited.get(peer) == message.correlation:
            self.nodes[asker].hopeless.add(peer)

    def _is_in_flight(self, one: NodeId, other: NodeId, correlation: int) -> bool:
        return any(
            {packet.message.source, packet.message.destination} == {one, other}
            and packet.message.correlation == correlation
            for packet in self.in_flight
        )

    def _fail_request(self, node: PlayNode, peer: NodeId) -> None:
        node.hopeless.discard(peer)
        self._step(node, RequestFailed(peer, node.awaited.pop(peer)))

    def _send(self, node: PlayNode, message: Message) -> None:
        self._next += 1
        self.in_flight.append(Packet(self._next, message))
        if isinstance(message, Request):
            node.awaited[message.destination] = message.correlation
            node.hopeless.discard(message.destination)
        elif isinstance(message, VoteResponse) and message.granted and not message.pre_vote:
            self.watch.note_vote(node.id, message.epoch, message.destination)
        self._tell(
            node.id,
            "message",
            f"sends {kind_of(message)} to node {message.destination}: {describe(message)}".rstrip(": "),
        )

    # --- a node ---

    def _start(self, node: PlayNode) -> None:
        node.synced = Offset(len(node.records))
        node.high_watermark = Offset(0)
        node.stopped_by = ""
        node.processes += 1
        core = self._core(
            config=CoreConfig(),
            cluster_id="play",
            key=ReplicaKey(node.id),
            endpoint=None,
            voters=self.voters,
            election=node.election,
            log=node.recovered(),
            last_correlation=node.processes * _CORRELATIONS,
        )
        node.core = core
        self._guard(node, core.start)

    def _step(self, node: PlayNode, event: Event) -> None:
        core = node.core
        if core is not None:
            self._guard(node, lambda: core.step(event))

    def _guard(self, node: PlayNode, act: Callable[[], tuple[Effect, ...]]) -> None:
        """Carry out the effects. A node whose core finds a rule broken ends itself, as a real one does."""
        try:
            for effect in act():
                self._carry_out(node, effect)
        except InvariantError as error:
            self._stop(node)
            node.stopped_by = str(error)
            self._tell(node.id, "fault", f"ends itself: {error}")
            self.watch.report("NoIllegalState", f"the core of node {node.id} found: {error}")

    def _carry_out(self, node: PlayNode, effect: Effect) -> None:
        match effect:
            case fx.Persist(state):
                node.election = state
                voted = "nobody" if state.voted is None else f"node {state.voted.id}"
                self._tell(node.id, "disk", f"stores epoch {state.epoch}, voted for {voted}")
            case fx.AppendLeaderChange():
                self._append(node, PlayRecord(effect.epoch, ""))
            case fx.AppendProposal():
                self._append(node, PlayRecord(effect.epoch, node.proposals.pop(effect.proposal)))
            case fx.AppendFetched():
                node.append_fetched(effect)
                self._tell_append(node)
            case fx.RejectProposal():
                del node.proposals[effect.proposal]
                leader = "it knows none" if effect.leader is None else f"ask node {effect.leader}"
                self._tell(node.id, "client", f"refuses the record: it does not lead, {leader}")
            case fx.Truncate():
                cut = len(node.records) - effect.end_offset
                del node.records[effect.end_offset :]
                node.synced = Offset(min(node.synced, effect.end_offset))
                self._tell(node.id, "disk", f"cuts {cut} records from its log, from {effect.end_offset} on")
            case fx.Send(message):
                self._send(node, message)
            case fx.SendRecords():
                self._send(node, node.with_record(effect))
            case fx.ArmTimer(timer):
                node.timers.pop(timer, None)
                node.timers[timer] = None
            case fx.CancelTimer(timer):
                node.timers.pop(timer, None)
            case fx.HighWatermarkAdvanced(high_watermark):
                node.high_watermark = high_watermark
                self._tell(node.id, "commit", f"knows that all below offset {high_watermark} is committed")
                self.watch.note_commit(node, node.election.epoch, high_watermark)
            case fx.RoleChanged():
                self._tell(node.id, "role", f"is {effect.role.value} in epoch {effect.epoch}")
                if effect.role is Role.CANDIDATE:
                    self.watch.note_vote(node.id, effect.epoch, node.id)
                if effect.role is Role.LEADER:
                    self.watch.note_leader(node, effect.epoch)
            case fx.ReadIndexConfirmed():
                end = effect.read_index
                self._tell(node.id, "client", f"answers the read with everything below offset {end}")
                self.watch.note_read(node.id, effect.read_round, end)
            case fx.ReadIndexFailed():
                self._tell(node.id, "client", "does not answer the read: it does not lead")
            case _:
                raise NotImplementedError(f"teaching mode has no snapshots and no voter changes: {effect}")

    def _append(self, node: PlayNode, record: PlayRecord) -> None:
        node.records.append(record)
        self._tell_append(node)

    def _tell_append(self, node: PlayNode) -> None:
        record = node.records[-1]
        what = repr(record.text) if record.text else "its LeaderChange record"
        offset = len(node.records) - 1
        self._tell(node.id, "disk", f"appends {what} of epoch {record.epoch} at offset {offset}, not durable")

    def _tell(self, node: NodeId | None, kind: str, text: str) -> None:
        self._happened.append(Happening(node, kind, text))

    def _node(self, node: NodeId) -> PlayNode:
        found = self.nodes.get(node)
        if found is None:
            raise StepError(f"node: there is no node {node}, only {', '.join(map(str, self.nodes))}")
        return found

    def _up(self, node: NodeId) -> PlayNode:
        found = self._node(node)
        if found.core is None:
            raise StepError(f"node {node} is down; restart it first")
        return found

    def _awake(self, node: NodeId) -> PlayNode:
        found = self._up(node)
        if found.paused:
            raise StepError(f"node {node} is paused; resume it first")
        return found
