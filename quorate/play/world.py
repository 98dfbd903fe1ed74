"""Cores wired to each other, in which nothing happens by itself: messages, disks and timers wait for a step.

A world is a function of its start and its steps: it has no clock and no entropy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, assert_never

from quorate.play import steps as st
from quorate.play.play_node import Packet, PlayNode, PlayRecord, describe, voters_in
from quorate.play.start import Start
from quorate.play.steps import StepError
from quorate.play.watch import Violation, Watch
from quorate.raft.core import (
    AddVoter,
    AdoptVoters,
    ChangeVoters,
    Core,
    CoreConfig,
    Durable,
    Effect,
    Event,
    InvariantError,
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
    Timer,
    TimerFired,
    TimerKind,
    TransferLeadership,
    Unreachable,
    UpdateVoter,
    VoterChange,
)
from quorate.raft.core import effects as fx
from quorate.types import (
    ElectionState,
    Endpoint,
    Epoch,
    EpochEnd,
    NodeId,
    Offset,
    ReplicaKey,
    SnapshotId,
    Voter,
    VoterSet,
)

_PORT: Final = 9093
_CORRELATIONS: Final = 1_000_000
"""Each process of a node has as many, so that no answer to an earlier one fits."""
_VERSION: Final = "kraft.version 1"
_LONG_TIMERS: Final = (TimerKind.ELECTION, TimerKind.FETCH, TimerKind.CHECK_QUORUM, TimerKind.TRANSFER)
_STORES: Final = (
    fx.Persist,
    fx.AppendLeaderChange,
    fx.AppendVoters,
    fx.AppendProposal,
    fx.AppendFetched,
    fx.Truncate,
    fx.InstallSnapshot,
)
REQUEST: Final = "request"
"""The name of a request's timeout, among those of timers."""


@dataclass(frozen=True, slots=True)
class Happening:
    """A thing that a step made happen."""

    node: NodeId | None
    kind: str
    """What it is of: `disk`, `role`, `commit`, `message`, `timer`, `client`, `fault` or `violation`."""
    text: str


class World:
    """Nodes, their disks, and the messages between them."""

    __slots__ = (
        "_arriving",
        "_core",
        "_happened",
        "_names",
        "_next",
        "_start_of",
        "cuts",
        "in_flight",
        "nodes",
        "voters",
        "watch",
    )

    def __init__(self, start: Start, core: type[Core] = Core) -> None:
        """`core`: the production core, or one with a wrong rule."""
        self._core = core
        self._start_of = start
        ids = [NodeId(number) for number in range(1, start.nodes + 1)]
        self.nodes = {
            node: PlayNode(node, ElectionState(Epoch(epoch)), directory=f"disk-{node}")
            for node, epoch in zip(ids, start.epochs_of_nodes, strict=True)
        }
        self.voters = VoterSet(
            tuple(
                Voter(self.nodes[node].key if start.dynamic else ReplicaKey(node), _endpoint(node))
                for node in ids[: start.voters or start.nodes]
            )
        )
        """Those of the configuration, or of the log's beginning."""
        for node, epochs in zip(self.nodes.values(), start.logs, strict=False):
            node.records = [PlayRecord(Epoch(epoch), f"e{epoch}") for epoch in epochs]
        self.in_flight: list[Packet] = []
        """The oldest first."""
        self.cuts: set[tuple[NodeId, NodeId]] = set()
        """Links that are cut, the lower id first."""
        self.watch = Watch(self.voters, strict=self._core is Core)
        self._next = 0
        self._happened: list[Happening] = []
        self._arriving: Packet | None = None
        self._names: dict[tuple[NodeId, int], NodeId] = {}
        """The bootstrap server as which a node was asked, by the asking node and the correlation."""
        for node in self.nodes.values():
            if start.dynamic and node.id in self.voters:
                node.formatted = self.voters
            if start.down:
                node.synced = Offset(len(node.records))
            else:
                self._start(node)
        self.watch.look(self.nodes)
        self._happened.clear()

    def copy(self) -> "World":
        """Return an independent copy, from which the same steps lead to the same states."""
        twin = object.__new__(World)
        twin._core, twin.voters, twin._next = self._core, self.voters, self._next
        twin._start_of, twin._names, twin._arriving = self._start_of, dict(self._names), None
        twin.nodes = {node: each.copy() for node, each in self.nodes.items()}
        twin.in_flight = list(self.in_flight)
        twin.cuts = set(self.cuts)
        twin.watch = self.watch.copy()
        twin._happened = []
        return twin

    @property
    def violations(self) -> Sequence[Violation]:
        return self.watch.violations

    @property
    def has_dynamic_voters(self) -> bool:
        """Return whether the voters of any node are in its log."""
        return any(each.core is not None and each.core.has_dynamic_voters for each in self.nodes.values())

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
            case st.Deliver() | st.Drop() | st.Repeat():
                packet = self._find(step.source, step.destination, step.kind, step.nth)
                if isinstance(step, st.Drop):
                    self._drop(packet)
                    return
                blocked = self._blocked_by(packet)
                if blocked is not None:
                    raise StepError(blocked)
                self._deliver(packet, stays=isinstance(step, st.Repeat))
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
                self._propose(self._awake(step.node), step.text, step.count)
            case st.Read():
                self._read(self._awake(step.node))
            case st.Sync():
                node = self._awake(step.node)
                if node.synced == len(node.records):
                    raise StepError(f"all that node {node.id} has is durable; propose or deliver something")
                self._sync(node, step.end)
            case st.Resign():
                node = self._awake(step.node)
                self._tell(node.id, "client", "is asked to resign")
                self._step(node, Resign())
            case st.Transfer():
                node = self._awake(step.node)
                self._tell(node.id, "client", f"is asked to hand over to node {step.successor}")
                self._step(node, TransferLeadership(step.successor))
            case st.AddVoter() | st.RemoveVoter() | st.UpdateVoter() | st.AdoptVoters():
                self._change_voters(self._awake(step.node), step)
            case st.Snapshot():
                self._take_snapshot(self._awake(step.node))
            case st.Trim():
                self._trim(self._awake(step.node))
            case st.Check():
                node = self._awake(step.node)
                if node.checking is None:
                    raise StepError(f"node {node.id} has no fetched snapshot to check")
                self._check_snapshot(node, damaged=step.damaged)
            case st.Unreachable():
                node = self._awake(step.node)
                self._tell(node.id, "fault", f"has lost its connection to node {step.peer}")
                self._step(node, Unreachable(step.peer))
            case st.GiveUp():
                node = self._awake(step.node)
                if step.peer not in node.awaited:
                    asked = ", ".join(map(str, node.awaited)) or "nobody"
                    raise StepError(
                        f"peer: node {node.id} waits for no answer of {step.peer}, only of: {asked}"
                    )
                self._give_up(node, step.peer)
            case st.Crash():
                node = self._up(step.node)
                self._crash(node, power=step.power, keep=step.keep)
            case st.Doom():
                self._up(step.node).stores_left = step.stores
                self._tell(
                    step.node, "fault", f"will crash just before it stores for the {step.stores}. time"
                )
            case st.Wipe():
                node = self._node(step.node)
                if node.core is not None:
                    raise StepError(f"node {node.id} is up; crash it first")
                node.wipe()
                self.watch.lost.add(node.id)
                self._tell(node.id, "fault", "gets a new, empty disk")
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
                if node.id in among and node.checking is not None and not node.paused:
                    self._check_snapshot(node)
                    moved = True
            for packet in list(self.in_flight):
                inside = {packet.source, packet.destination} <= set(among)
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
            self._give_up(node, peer)
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

    def _propose(self, node: PlayNode, text: str, count: int) -> None:
        self._next += 1
        node.proposals[self._next] = text
        what = "the record" if count == 1 else f"{count} records"
        self._tell(node.id, "client", f"gets {what} {text!r} from a client")
        self._step(node, Propose(self._next, count))

    def _read(self, node: PlayNode) -> None:
        self._next += 1
        self.watch.reads[node.id, self._next] = len(self.watch.committed)
        self._tell(node.id, "client", "is asked for a linearizable read")
        self._step(node, ReadIndex(self._next))

    def _change_voters(
        self, node: PlayNode, step: st.AddVoter | st.RemoveVoter | st.UpdateVoter | st.AdoptVoters
    ) -> None:
        self._next += 1
        change: VoterChange
        match step:
            case st.AddVoter():
                told = f"is asked to make node {step.voter} a voter"
                change = AddVoter(Voter(self._node(step.voter).key, _endpoint(step.voter)))
            case st.RemoveVoter():
                told = f"is asked to remove voter {step.voter}"
                key = self._node(step.voter).key
                change = RemoveVoter(ReplicaKey(key.id, step.directory or key.directory_id))
            case st.UpdateVoter():
                told = f"is asked to note that voter {step.voter} listens on {step.host}"
                change = UpdateVoter(Voter(self._node(step.voter).key, Endpoint(step.host, _PORT)))
            case _:
                told, change = "is asked to write the voters into the log", AdoptVoters()
        self._tell(node.id, "client", told)
        self._step(node, ChangeVoters(self._next, change))

    def _take_snapshot(self, node: PlayNode) -> None:
        core, latest = node.core, node.snapshot
        end = min(node.high_watermark, 0 if core is None else core.durable_end_offset)
        if end <= (0 if latest is None else latest.end_offset):
            raise StepError(f"node {node.id} knows nothing committed that is in no snapshot of its")
        snapshot = SnapshotId(Offset(end), node.records[end - 1].epoch)
        node.snapshots[snapshot] = tuple(node.records[:end])
        self._tell(node.id, "disk", f"has a snapshot of all below offset {end}")
        self._step(node, SnapshotTaken(snapshot))

    def _trim(self, node: PlayNode) -> None:
        latest = node.snapshot
        if latest is None or latest.end_offset <= node.log_start:
            raise StepError(f"node {node.id} has no snapshot above the start of its log; take one first")
        node.trim(latest)
        self._tell(node.id, "disk", f"removes what is below offset {latest.end_offset} from its log")
        self._step(node, LogStartMoved(EpochEnd(latest.epoch, latest.end_offset)))

    def _check_snapshot(self, node: PlayNode, *, damaged: bool = False) -> None:
        snapshot, records = node.checking, node.partial
        assert snapshot is not None and records is not None  # noqa: S101 (all of it was fetched)
        node.checking = node.partial = None
        if damaged:
            self._tell(node.id, "disk", "finds the fetched snapshot damaged, and removes it")
            self._step(node, SnapshotDamaged(snapshot))
            return
        node.snapshots[snapshot] = records
        self._tell(node.id, "disk", f"has checked the snapshot of all below offset {snapshot.end_offset}")
        first = self.voters if self._start_of.dynamic else None
        self._step(node, SnapshotChecked(snapshot, voters_in(records) or first))

    def _sync(self, node: PlayNode, end: int | None = None) -> None:
        node.synced = Offset(
            max(node.synced, min(len(node.records), len(node.records) if end is None else end))
        )
        self._tell(node.id, "disk", f"has everything below offset {node.synced} durable")
        core = node.core
        if core is not None and core.durable_end_offset < node.synced:
            self._step(node, Durable(core.generation, node.synced))

    def _crash(self, node: PlayNode, *, power: bool, keep: int | None = None) -> None:
        end = max(node.synced, keep or 0)
        lost = max(0, len(node.records) - end) if power else 0
        if lost:
            del node.records[end:]
        told = f"loses power, and {lost} records that were not durable" if lost else "loses power"
        self._tell(node.id, "fault", told if power else "crashes")
        self._stop(node)

    def _stop(self, node: PlayNode) -> None:
        """Its connections break, so that nobody waits for an answer of it that is not under way."""
        node.stop()
        for other in self.nodes.values():
            for name, correlation in other.awaited.items():
                if self._known_as(name) == node.id and not self._is_in_flight(other.id, node.id, correlation):
                    other.hopeless.add(name)

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
            if (packet.source, packet.destination, packet.kind) == (source, destination, kind)
        ]
        if len(found) < nth:
            there = ", ".join(
                f"{packet.kind} from {packet.source} to {packet.destination}" for packet in self.in_flight
            )
            raise StepError(
                f"kind: no {kind} number {nth} from {source} to {destination} is in flight, only: "
                f"{there or 'nothing'}"
            )
        return found[nth - 1]

    def _blocked_by(self, packet: Packet) -> str | None:
        low, high = sorted((packet.source, packet.destination))
        if (low, high) in self.cuts:
            return f"the link of nodes {low} and {high} is cut; heal it first"
        if self.nodes[packet.destination].paused:
            return f"node {packet.destination} is paused; resume it first"
        return None

    def _deliver(self, packet: Packet, *, stays: bool = False) -> None:
        message = packet.message
        if not stays:
            self.in_flight.remove(packet)
        node, source = self.nodes[packet.destination], self.nodes[packet.source]
        if node.core is None:
            self._tell(node.id, "message", f"is down: {packet.kind} from node {source.id} is lost")
            name = message.destination
            if isinstance(message, Request) and source.awaited.get(name) == message.correlation:
                if source.core is not None and not source.paused:
                    self._fail_request(source, name)
                else:
                    source.hopeless.add(name)
            return
        self._tell(
            node.id, "message", f"gets {packet.kind} from node {source.id}: {describe(message)}".rstrip(": ")
        )
        if not isinstance(message, Request) and node.awaited.get(message.source) == message.correlation:
            del node.awaited[message.source]
            node.hopeless.discard(message.source)
        self._arriving = packet
        self._step(node, Received(message))
        self._arriving = None

    def _drop(self, packet: Packet) -> None:
        message = packet.message
        self.in_flight.remove(packet)
        asker, name = packet.source, message.destination
        if not isinstance(message, Request):
            asker, name = packet.destination, message.source
        self._tell(None, "fault", f"{packet.kind} from node {packet.source} to {packet.destination} is lost")
        if self.nodes[asker].awaited.get(name) == message.correlation:
            self.nodes[asker].hopeless.add(name)

    def _is_in_flight(self, one: NodeId, other: NodeId, correlation: int) -> bool:
        return any(
            {packet.source, packet.destination} == {one, other} and packet.message.correlation == correlation
            for packet in self.in_flight
        )

    def _give_up(self, node: PlayNode, peer: NodeId) -> None:
        self._tell(node.id, "client", f"gives up its request to node {peer}")
        self._fail_request(node, peer)

    def _fail_request(self, node: PlayNode, peer: NodeId) -> None:
        node.hopeless.discard(peer)
        self._step(node, RequestFailed(peer, node.awaited.pop(peer)))

    def _known_as(self, name: NodeId) -> NodeId:
        """Return the node of that id, or that is the bootstrap server of that number."""
        return name if name >= 0 else tuple(self.nodes)[-2 - name]

    def _send(self, node: PlayNode, message: Message, records: tuple[PlayRecord, ...] = ()) -> None:
        self._next += 1
        if isinstance(message, Request):
            node.awaited[message.destination] = message.correlation
            node.hopeless.discard(message.destination)
            if message.destination < 0:
                self._names[node.id, message.correlation] = message.destination
        else:
            # An answer comes from the node that was asked, by the name by which it was.
            name = self._names.get((message.destination, message.correlation))
            message = message if name is None else replace(message, source=name)
        packet = Packet(self._next, message, node.id, self._known_as(message.destination), records)
        self.in_flight.append(packet)
        self.watch.note_message(node, message)
        self._tell(
            node.id,
            "message",
            f"sends {packet.kind} to node {packet.destination}: {describe(message)}".rstrip(": "),
        )

    # --- a node ---

    def _start(self, node: PlayNode) -> None:
        node.synced = Offset(len(node.records))
        node.high_watermark = Offset(0)
        node.stopped_by = ""
        node.processes += 1
        # A node with a new disk is given all nodes: perhaps none of the first voters is one now.
        known = self.nodes if node.id in self.watch.lost else self.voters.ids
        core = self._core(
            config=CoreConfig(),
            cluster_id="play",
            key=node.key,
            endpoint=_endpoint(node.id),
            voters=VoterSet(()) if self._start_of.dynamic else self.voters,
            election=node.election,
            log=node.recovered(),
            bootstrap=tuple(map(_endpoint, known)) if self._start_of.dynamic else (),
            last_correlation=node.processes * _CORRELATIONS,
        )
        node.core = core
        self._guard(node, core.start)

    def _step(self, node: PlayNode, event: Event) -> None:
        core = node.core
        if core is not None:
            self._guard(node, lambda: core.step(event))

    def _guard(self, node: PlayNode, act: Callable[[], tuple[Effect, ...]]) -> None:
        """Carry out the effects. A node whose core finds a rule broken, or fails, ends itself, as a real one
        does."""
        try:
            effects = act()
        except Exception as error:
            found = str(error) if isinstance(error, InvariantError) else f"{type(error).__name__}: {error}"
            self._stop(node)
            node.stopped_by = found
            self._tell(node.id, "fault", f"ends itself: {found}")
            self.watch.report("NoIllegalState", f"the core of node {node.id} found: {found}")
            return
        for effect in effects:
            if node.stores_left is not None and isinstance(effect, _STORES):
                node.stores_left -= 1
                if node.stores_left == 0:
                    self._crash(node, power=False)
                    return
            self._carry_out(node, effect)

    def _carry_out(self, node: PlayNode, effect: Effect) -> None:
        match effect:
            case fx.Persist(state):
                self.watch.note_election(node, state)
                node.election = state
                voted = "nobody" if state.voted is None else f"node {state.voted.id}"
                self._tell(node.id, "disk", f"stores epoch {state.epoch}, voted for {voted}")
            case fx.AppendLeaderChange():
                self._append(node, PlayRecord(effect.epoch, ""))
                if effect.voter_set is not None:
                    self._append(node, PlayRecord(effect.epoch, _VERSION))
                    self._append(node, PlayRecord(effect.epoch, "", effect.voter_set))
            case fx.AppendVoters():
                if effect.first:
                    self._append(node, PlayRecord(effect.epoch, _VERSION))
                self._append(node, PlayRecord(effect.epoch, "", effect.voters))
            case fx.AppendProposal():
                text = node.proposals.pop(effect.proposal)
                for _ in range(effect.base_offset, effect.end_offset):
                    self._append(node, PlayRecord(effect.epoch, text))
            case fx.AppendFetched():
                end = len(node.records)
                for offset, record in enumerate(node.append_fetched(effect), start=end):
                    self._tell_append(node, offset, record)
            case fx.RejectProposal():
                del node.proposals[effect.proposal]
                leader = "it knows none" if effect.leader is None else f"ask node {effect.leader}"
                self._tell(node.id, "client", f"refuses the record: it does not lead, {leader}")
            case fx.Truncate():
                self.watch.note_cut(node, effect.end_offset)
                cut = len(node.records) - effect.end_offset
                del node.records[effect.end_offset :]
                node.synced = Offset(min(node.synced, effect.end_offset))
                self._tell(node.id, "disk", f"cuts {cut} records from its log, from {effect.end_offset} on")
            case fx.Send(message):
                self._send(node, message)
            case fx.SendRecords():
                self._send(node, node.with_records(effect, self._start_of.fetch))
            case fx.SendSnapshotChunk():
                self._send(node, *node.with_chunk(effect))
            case fx.StoreSnapshotChunk():
                if self._arriving is not None:
                    node.partial = self._arriving.records
                self._tell(node.id, "disk", f"stores byte {effect.position} of the snapshot")
            case fx.CheckSnapshot():
                node.checking = effect.snapshot
                self._tell(node.id, "disk", "has the whole snapshot, not yet checked")
            case fx.InstallSnapshot(_, snapshot):
                node.install(snapshot)
                self._tell(node.id, "disk", f"begins its log with the snapshot, at {snapshot.end_offset}")
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
                self.watch.note_role(node, effect.role, effect.epoch)
            case fx.ReadIndexConfirmed():
                end = effect.read_index
                self._tell(node.id, "client", f"answers the read with everything below offset {end}")
                self.watch.note_read(node.id, effect.read_round, end)
            case fx.ReadIndexFailed():
                self._tell(node.id, "client", "does not answer the read: it does not lead")
            case fx.VotersChanged():
                if effect.unknown:
                    how = "can't say whether the voters changed"
                elif effect.error:
                    how = f"does not change the voters: {effect.message or effect.error.name}"
                else:
                    how = "says that the voters have changed"
                self._tell(node.id, "client", how)
            case fx.TransferEnded():
                self._tell(
                    node.id, "client", f"does not hand over to node {effect.successor}: {effect.error.name}"
                )
            case _:
                assert_never(effect)

    def _append(self, node: PlayNode, record: PlayRecord) -> None:
        node.records.append(record)
        self._tell_append(node, len(node.records) - 1, record)

    def _tell_append(self, node: PlayNode, offset: int, record: PlayRecord) -> None:
        self._tell(
            node.id,
            "disk",
            f"appends {record.told} of epoch {record.epoch} at offset {offset}, not durable",
        )

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


def _endpoint(node: NodeId) -> Endpoint:
    return Endpoint(f"node-{node}", _PORT)
