"""Carries out the commands of a trace."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from quorate.invariant import InvariantError
from quorate.raft.core.core import Core
from quorate.raft.core.core_config import Generation
from quorate.raft.core.effects import Effect
from quorate.raft.core.events import (
    AddVoter,
    AdoptVoters,
    ChangeVoters,
    Durable,
    RemoveVoter,
    RequestFailed,
    Resign,
    Timer,
    TimerKind,
    TransferLeadership,
    Unreachable,
    UpdateVoter,
    VoterChange,
)
from quorate.raft.core.messages import FetchRequest, FetchResponse, Message, Request
from quorate.types import ElectionState, Endpoint, Epoch, EpochEnd, NodeId, Offset, Voter
from tests.simulator.core.core_node import CoreDisk, CoreRecord
from tests.simulator.core.core_world import CoreWorld

TellEffect = Callable[[Effect], str]
TellMessage = Callable[[Message], str]


class Interpreter:
    """Carries out one trace's commands on a world where nothing happens by itself."""

    def __init__(self, tell_effect: TellEffect, tell_message: TellMessage) -> None:
        self._tell_effect = tell_effect
        self._tell_message = tell_message
        self.world = CoreWorld(voters=3)
        self.cut: set[NodeId] = set()
        self.lines: list[str] = []
        self._quiet = False
        self._changes = 0

    def run(self, command: str) -> list[str]:
        self.lines = []
        name, *words = command.split()
        self._quiet = words[-1:] == ["quietly"]
        if self._quiet:
            words.pop()
        getattr(self, f"do_{name}")(*words)
        return self.lines

    def _say(self, line: str) -> None:
        if not self._quiet:
            self.lines.append(line)

    def _happened(self, node: NodeId, effect: Effect) -> None:
        self._say(f"{node}   {self._tell_effect(effect)}")

    def new_world(self, *, voters: int, observers: int, dynamic: bool) -> CoreWorld:
        return CoreWorld(voters=voters, observers=observers, dynamic=dynamic)

    # --- commands ---

    def do_cluster(self, voters: str, observers: str = "0", dynamic: str = "") -> None:
        """cluster VOTERS [OBSERVERS [dynamic]]: nodes 1, 2, ... with empty disks, all down. `dynamic`: the
        voters are those of the bootstrap snapshot, and observers know only where those are."""
        self.world = self.new_world(voters=int(voters), observers=int(observers), dynamic=bool(dynamic))
        self.world.on_effect = self._happened

    def do_lease(self, milliseconds: str) -> None:
        """lease MS: nodes that start from now on have read leases of this length; 0 for none. The time is
        that of all clocks, and begins at 1000."""
        self.world.config = replace(self.world.config, read_lease_ms=int(milliseconds))
        self.world.now_ms = max(self.world.now_ms, 1000)

    def do_wait(self, milliseconds: str) -> None:
        """wait MS: time passes. Timers are fired by `fire`."""
        self.world.now_ms += int(milliseconds)

    def do_log(self, node: str, *epochs: str) -> None:
        """log NODE EPOCH...: what is in its log, one record each, while it is down."""
        disk = self.world.nodes[NodeId(int(node))].disk
        disk.entries = [
            CoreRecord(Epoch(int(epoch)), 1000 * int(epoch) + index) for index, epoch in enumerate(epochs)
        ]

    def do_stored(self, node: str, epoch: str) -> None:
        """stored NODE EPOCH: its quorum-state file, without vote or leader."""
        self.world.nodes[NodeId(int(node))].disk.election = ElectionState(Epoch(int(epoch)))

    def do_start(self, *nodes: str) -> None:
        for node in nodes:
            self.world.start(NodeId(int(node)))

    def do_fire(self, node: str, kind: str, of: str | None = None) -> None:
        """fire NODE TIMER [OF]: its timer ends. b1 is the first bootstrap server."""
        peer = None if of is None else int(of) if of[0] != "b" else -1 - int(of[1:])
        timer = Timer(TimerKind(kind), None if peer is None else NodeId(peer))
        self.world.fire(NodeId(int(node)), timer)

    def do_deliver(self, way: str | None = None) -> None:
        """deliver [A->B]: what has been sent so far arrives, in order."""
        for message in self._taken(way):
            self._deliver(message)

    def do_drop(self, way: str | None = None) -> None:
        """drop [A->B]: it is lost instead."""
        for message in self._taken(way):
            self.lose(message)

    def do_sync(self, *nodes: str) -> None:
        for node in nodes:
            self.world.sync(NodeId(int(node)))

    def do_settle(self) -> None:
        """settle: messages arrive and syncs end, until nothing is left to happen but timers."""
        for _ in range(200):
            checking = [node for node, machine in self.world.nodes.items() if machine.core and machine.checks]
            syncing = [node for node, machine in self.world.nodes.items() if machine.core and machine.syncs]
            if not self.world.in_flight and not syncing and not checking:
                return
            for message in self._taken(None):
                self._deliver(message)
            for node in syncing:
                if self.world.nodes[node].syncs:
                    self._say(f"({node} synced)")
                    self.world.sync(node)
            for node in checking:
                if self.world.nodes[node].checks:
                    self._say(f"({node} checked the snapshot)")
                    self.world.check_snapshot(node)
        raise AssertionError("the trace does not settle")

    def do_cut(self, *nodes: str) -> None:
        """cut NODE...: what they send and what is sent to them is lost."""
        self.cut |= {NodeId(int(node)) for node in nodes}

    def do_unchecked(self, node: str) -> None:
        """unchecked NODE: the fetched snapshot is checked and named, and the node does not hear of it."""
        machine = self.world.nodes[NodeId(int(node))]
        snapshot = machine.checks.pop()
        machine.disk.part = None
        machine.disk.snapshots[snapshot] = tuple(self.world.committed[: snapshot.end_offset])

    def do_settle_messages(self) -> None:
        """settle_messages: messages arrive, and no disk does anything."""
        while self.world.in_flight:
            for message in self._taken(None):
                self._deliver(message)

    def do_forge(self, way: str, end: str, epoch: str) -> None:
        """forge A->B END EPOCH: A's answer to the Fetch that B is waiting for, asking it to cut there."""
        source, destination = (NodeId(int(node)) for node in way.split("->"))
        core = self.world.nodes[destination].up
        (asked,) = [
            message
            for message in self._taken(f"{destination}->{source}")
            if isinstance(message, FetchRequest)
        ]
        answer = FetchResponse(
            source=source,
            destination=destination,
            correlation=asked.correlation,
            epoch=core.epoch,
            leader=source,
            diverging=EpochEnd(Epoch(int(epoch)), Offset(int(end))),
        )
        try:
            self._deliver(answer)
        except InvariantError as error:
            self._say(f"{destination} stops: {error}")
            self.world.crash(destination)

    def do_heal(self) -> None:
        self.cut.clear()

    def do_crash(self, node: str, losing: str = "", count: str = "0") -> None:
        """crash NODE [losing COUNT]: with its last COUNT records, if they were not synced."""
        machine = self.world.nodes[NodeId(int(node))]
        keep = len(machine.disk.entries) - int(count) if losing else None
        self.world.crash(machine.id, keep=keep)

    def do_propose(self, node: str, count: str = "1") -> None:
        self.world.propose(NodeId(int(node)), int(count))

    def do_resign(self, node: str) -> None:
        self.world.step(NodeId(int(node)), Resign())

    def do_unreachable(self, node: str, peer: str) -> None:
        self.world.step(NodeId(int(node)), Unreachable(NodeId(int(peer))))

    def do_fail(self, way: str) -> None:
        """fail A->B: A's request to B, not delivered yet, fails."""
        for message in self._taken(way):
            if isinstance(message, Request):
                self.fail(message)
                self.world.step(message.source, RequestFailed(message.destination, message.correlation))

    def do_durable(self, node: str, generation: str, end_offset: str) -> None:
        """durable NODE GENERATION END: an old completion comes late."""
        event = Durable(Generation(int(generation)), Offset(int(end_offset)))
        self.world.step(NodeId(int(node)), event)

    def do_wipe(self, node: str) -> None:
        """wipe NODE: it is down, and comes back with an empty disk."""
        self.world.wipe(NodeId(int(node)))

    def do_snapshot(self, node: str) -> None:
        """snapshot NODE: of all it knows to be committed."""
        snapshot = self.world.take_snapshot(NodeId(int(node)))
        self._say("nothing new" if snapshot is None else f"{node}   {snapshot.end_offset}@{snapshot.epoch}")

    def do_trim(self, node: str) -> None:
        """trim NODE: its log now begins where its latest snapshot ends."""
        self.world.move_start(NodeId(int(node)))

    def do_check(self, node: str, damaged: str = "") -> None:
        """check NODE [damaged]: it has looked at the snapshot that it fetched."""
        self.world.check_snapshot(NodeId(int(node)), damaged=bool(damaged))

    def do_read(self, node: str, read_round: str) -> None:
        self.world.read_index(NodeId(int(node)), int(read_round))

    def do_transfer(self, node: str, successor: str) -> None:
        self.world.step(NodeId(int(node)), TransferLeadership(NodeId(int(successor))))

    def do_add(self, node: str, voter: str) -> None:
        """add NODE VOTER: ask NODE to make VOTER one, as it is now."""
        self._change(node, AddVoter(self._voter(voter)))

    def do_remove(self, node: str, voter: str, directory_id: str = "") -> None:
        """remove NODE VOTER [DIRECTORY]: with the directory it has now, or that one."""
        key = self._voter(voter).key
        self._change(node, RemoveVoter(replace(key, directory_id=directory_id or key.directory_id)))

    def do_update(self, node: str, voter: str, host: str) -> None:
        """update NODE VOTER HOST: ask NODE to write down that VOTER listens on HOST."""
        self._change(node, UpdateVoter(replace(self._voter(voter), endpoint=Endpoint(host, 9093))))

    def do_adopt(self, node: str) -> None:
        """adopt NODE: ask NODE to write the configured voters into the log."""
        self._change(node, AdoptVoters())

    def do_state(self, *nodes: str) -> None:
        for node, machine in self.world.nodes.items():
            if nodes and str(node) not in nodes:
                continue
            if machine.core is None:
                self.lines.append(f"{node} down")
                continue
            core = machine.core
            self.lines.append(f"{node} {self._shown_state(core, machine.disk)}")

    def _shown_state(self, core: Core, disk: CoreDisk) -> str:
        log = " ".join(str(entry.epoch) for entry in disk.entries[disk.log_start_offset :])
        start = f" from {disk.log_start_offset}" if disk.log_start_offset else ""
        leader = "nobody" if core.leader is None else core.leader
        parts = [
            f"{core.role.value}, epoch {core.epoch} leader {leader}",
            f"log{start} of epochs [{log}]",
            f"durable {core.durable_end_offset}",
            "hw ?" if core.high_watermark is None else f"hw {core.high_watermark}",
        ]
        if core.snapshot is not None:
            parts.append(f"snapshot {core.snapshot.end_offset}@{core.snapshot.epoch}")
        if core.has_dynamic_voters or self.world.bootstrap:
            voters = " ".join(str(voter) for voter in core.voters.ids)
            parts.append(f"voters {voters}" if voters else "no voters")
        return ", ".join(parts)

    def _voter(self, node: str) -> Voter:
        return Voter(self.world.nodes[NodeId(int(node))].key, Endpoint(f"node-{node}", 9093))

    def _change(self, node: str, change: VoterChange) -> None:
        self._changes += 1
        self.world.step(NodeId(int(node)), ChangeVoters(self._changes, change))

    # --- messages ---

    def fail(self, message: Message) -> None:
        """It is gone, and who sent it will be told."""

    def lose(self, message: Message) -> None:
        self._say(f"lost: {self._tell_message(message)}")

    def _taken(self, way: str | None) -> list[Message]:
        in_flight = self.world.in_flight
        taken = [message for message in in_flight if way is None or way == self._way(message)]
        self.world.in_flight = [message for message in in_flight if message not in taken]
        return taken

    def _way(self, message: Message) -> str:
        source = message.source
        if source < 0:
            source = self.world.voters.ids[-2 - source]
        return f"{source}->{self.world.reached_by(message)}"

    def _deliver(self, message: Message) -> None:
        destination = self.world.reached_by(message)
        unreachable = {message.source, destination} & self.cut
        if unreachable or self.world.nodes[destination].core is None:
            self.lose(message)
            return
        self._say(f"{self._tell_message(message)}")
        self.world.deliver(message)


def replay(text: str, interpreter: Interpreter) -> Iterator[str]:
    """The trace's lines, with what happens now below each command."""
    for line in text.splitlines():
        if line.startswith("    "):
            continue
        yield line
        if line.startswith("> "):
            for shown in interpreter.run(line[2:]):
                yield f"    {shown}"
