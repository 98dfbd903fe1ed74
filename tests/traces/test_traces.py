"""Stories of the core: commands in, the whole trace out, prose between.

A line that starts with `> ` is a command, the indented lines below it are everything that happened, and the
rest is for the reader. `pytest tests/traces --rewrite` writes what happens now; read the diff.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.raft.core.effects import (
    AppendFetched,
    AppendLeaderChange,
    AppendProposal,
    ArmTimer,
    CancelTimer,
    Effect,
    HighWatermarkAdvanced,
    Persist,
    RejectProposal,
    RoleChanged,
    Send,
    SendRecords,
    Truncate,
)
from quorate.raft.core.events import Durable, RequestFailed, Resign, Timer, TimerKind, Unreachable
from quorate.raft.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    ErrorCode,
    FetchRequest,
    FetchResponse,
    Message,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from quorate.raft.core.types import ElectionState, Epoch, Generation, NodeId, Offset
from quorate.simulation.core_cluster import CoreWorld, Entry

STORIES = sorted(Path(__file__).parent.glob("*.txt"))


def shown_id(node: NodeId | None) -> str:
    return "nobody" if node is None else str(node)


def shown_hw(high_watermark: Offset | None) -> str:
    return "hw ?" if high_watermark is None else f"hw {high_watermark}"


def shown_timer(timer: Timer) -> str:
    return timer.kind.value if timer.node is None else f"{timer.kind.value} {timer.node}"


def shown_message(message: Message) -> str:
    way = f"{message.source}->{message.destination}"
    if isinstance(message, Response):
        known = f"epoch {message.epoch} leader {shown_id(message.leader)}"
        if message.error is not ErrorCode.NONE:
            known = f"{message.error.name} {known}"
    match message:
        case VoteRequest():
            kind = "PreVote" if message.pre_vote else "Vote"
            return f"{way} {kind}? epoch {message.epoch}, log {message.end_offset}@{message.last_epoch}"
        case VoteResponse():
            kind = "PreVote" if message.pre_vote else "Vote"
            return f"{way} {kind} {'granted' if message.granted else 'refused'}, {known}"
        case BeginQuorumEpochRequest():
            return f"{way} Begin? epoch {message.epoch}"
        case BeginQuorumEpochResponse():
            return f"{way} Begin, {known}"
        case EndQuorumEpochRequest():
            successors = " ".join(map(str, message.preferred_successors))
            return f"{way} End? epoch {message.epoch}, successors {successors}"
        case EndQuorumEpochResponse():
            return f"{way} End, {known}"
        case FetchRequest():
            where = f"{message.offset}@{message.last_fetched_epoch}"
            discover = ", only who leads" if message.max_bytes == 0 else ""
            hw = shown_hw(message.high_watermark)
            return f"{way} Fetch? epoch {message.epoch}, from {where}, {hw}{discover}"
        case FetchResponse():
            parts = [known, shown_hw(message.high_watermark)]
            if message.diverging is not None:
                parts.append(f"diverging {message.diverging.end_offset}@{message.diverging.epoch}")
            parts += [f"[{batch.base_offset},{batch.end_offset})@{batch.epoch}" for batch in message.batches]
            return f"{way} Fetch, {', '.join(parts)}"


def shown_effect(effect: Effect) -> str:
    match effect:
        case Persist(state=state):
            voted = shown_id(state.voted.id if state.voted is not None else None)
            return f"persist epoch {state.epoch} leader {shown_id(state.leader)} voted {voted}"
        case AppendLeaderChange():
            granting = " ".join(map(str, effect.granting_voters))
            return f"append {effect.base_offset}: LeaderChange epoch {effect.epoch}, votes of {granting}"
        case AppendProposal():
            return f"append [{effect.base_offset},{effect.end_offset})@{effect.epoch}"
        case AppendFetched():
            return "append fetched " + " ".join(
                f"[{batch.base_offset},{batch.end_offset})@{batch.epoch}" for batch in effect.batches
            )
        case RejectProposal():
            return f"reject: leader {shown_id(effect.leader)}, epoch {effect.epoch}"
        case Truncate():
            return f"truncate to {effect.end_offset}, generation {effect.generation}"
        case Send():
            return f"send {shown_message(effect.message)}"
        case SendRecords():
            return f"send {shown_message(effect.response)}, records from {effect.start_offset}"
        case ArmTimer():
            span = (
                str(effect.min_ms) if effect.min_ms == effect.max_ms else f"{effect.min_ms}-{effect.max_ms}"
            )
            return f"timer {shown_timer(effect.timer)} in {span} ms"
        case CancelTimer():
            return f"timer {shown_timer(effect.timer)} cancelled"
        case HighWatermarkAdvanced():
            return f"high watermark {effect.high_watermark}"
        case RoleChanged():
            voted = shown_id(effect.voted)
            return f"{effect.role.value}, epoch {effect.epoch} leader {shown_id(effect.leader)} voted {voted}"


class Interpreter:
    """Carries out one story's commands on a world where nothing happens by itself."""

    def __init__(self) -> None:
        self.world = CoreWorld(voters=3)
        self.cut: set[NodeId] = set()
        self.lines: list[str] = []
        self._quiet = False

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
        self._say(f"{node}   {shown_effect(effect)}")

    # --- commands ---

    def do_cluster(self, voters: str, observers: str = "0") -> None:
        """cluster VOTERS [OBSERVERS]: nodes 1, 2, ... with empty disks, all down."""
        self.world = CoreWorld(voters=int(voters), observers=int(observers))
        self.world.on_effect = self._happened

    def do_log(self, node: str, *epochs: str) -> None:
        """log NODE EPOCH...: what is in its log, one record each, while it is down."""
        disk = self.world.nodes[NodeId(int(node))].disk
        disk.entries = [
            Entry(Epoch(int(epoch)), 1000 * int(epoch) + index) for index, epoch in enumerate(epochs)
        ]

    def do_stored(self, node: str, epoch: str) -> None:
        """stored NODE EPOCH: its quorum-state file, without vote or leader."""
        self.world.nodes[NodeId(int(node))].disk.election = ElectionState(Epoch(int(epoch)))

    def do_start(self, *nodes: str) -> None:
        for node in nodes:
            self.world.start(NodeId(int(node)))

    def do_fire(self, node: str, kind: str, of: str | None = None) -> None:
        """fire NODE TIMER [OF]: its timer ends."""
        timer = Timer(TimerKind(kind), None if of is None else NodeId(int(of)))
        self.world.fire(NodeId(int(node)), timer)

    def do_deliver(self, way: str | None = None) -> None:
        """deliver [A->B]: what has been sent so far arrives, in order."""
        for message in self._taken(way):
            self._deliver(message)

    def do_drop(self, way: str | None = None) -> None:
        """drop [A->B]: it is lost instead."""
        for message in self._taken(way):
            self._say(f"lost: {shown_message(message)}")

    def do_sync(self, *nodes: str) -> None:
        for node in nodes:
            self.world.sync(NodeId(int(node)))

    def do_settle(self) -> None:
        """settle: messages arrive and syncs end, until nothing is left to happen but timers."""
        for _ in range(200):
            syncing = [node for node, machine in self.world.nodes.items() if machine.core and machine.syncs]
            if not self.world.mailbox and not syncing:
                return
            for message in self._taken(None):
                self._deliver(message)
            for node in syncing:
                if self.world.nodes[node].syncs:
                    self._say(f"({node} synced)")
                    self.world.sync(node)
        raise AssertionError("the story does not settle")

    def do_cut(self, *nodes: str) -> None:
        """cut NODE...: what they send and what is sent to them is lost."""
        self.cut |= {NodeId(int(node)) for node in nodes}

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
                self.world.step(message.source, RequestFailed(message.destination, message.correlation))

    def do_durable(self, node: str, generation: str, end_offset: str) -> None:
        """durable NODE GENERATION END: an old completion comes late."""
        event = Durable(Generation(int(generation)), Offset(int(end_offset)))
        self.world.step(NodeId(int(node)), event)

    def do_state(self, *nodes: str) -> None:
        for node, machine in self.world.nodes.items():
            if nodes and str(node) not in nodes:
                continue
            if machine.core is None:
                self.lines.append(f"{node} down")
                continue
            core = machine.core
            log = " ".join(str(entry.epoch) for entry in machine.disk.entries)
            self.lines.append(
                f"{node} {core.role.value}, epoch {core.epoch} leader {shown_id(core.leader)}, "
                f"log of epochs [{log}], durable {core.durable_end_offset}, {shown_hw(core.high_watermark)}"
            )

    # --- messages ---

    def _taken(self, way: str | None) -> list[Message]:
        mailbox = self.world.mailbox
        taken = [
            message for message in mailbox if way is None or way == f"{message.source}->{message.destination}"
        ]
        self.world.mailbox = [message for message in mailbox if message not in taken]
        return taken

    def _deliver(self, message: Message) -> None:
        unreachable = {message.source, message.destination} & self.cut
        if unreachable or self.world.nodes[message.destination].core is None:
            self._say(f"lost: {shown_message(message)}")
            return
        self._say(f"{shown_message(message)}")
        self.world.deliver(message)


def replay(text: str) -> Iterator[str]:
    """The story's lines, with what happens now below each command."""
    interpreter = Interpreter()
    for line in text.splitlines():
        if line.startswith("    "):
            continue
        yield line
        if line.startswith("> "):
            for shown in interpreter.run(line[2:]):
                yield f"    {shown}"


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.stem)
def test_a_story_goes_as_it_was_told(story: Path, request: pytest.FixtureRequest) -> None:
    told = story.read_text()
    now = "\n".join(replay(told)) + "\n"
    if request.config.getoption("--rewrite", default=False):
        story.write_text(now)
    else:
        assert now == told


def test_there_are_stories_and_each_shows_something() -> None:
    assert len(STORIES) >= 10
    assert all(re.search(r"^    ", story.read_text(), re.MULTILINE) for story in STORIES)
