"""Cores wired to each other over simulated disks, with the invariants of Raft checked after every step.

`CoreWorld` does only what it is told: messages, syncs and timers wait until somebody lets them happen. Traces
and hand-made schedules use it.
"""

from collections.abc import Callable, Iterable

from quorate.raft.core.core import Core
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
    Role,
    RoleChanged,
    Send,
    SendRecords,
    Truncate,
)
from quorate.raft.core.events import (
    Durable,
    Event,
    Propose,
    Received,
    Timer,
    TimerFired,
)
from quorate.raft.core.messages import ErrorCode, Message, Response, VoteResponse
from quorate.raft.core.types import (
    BatchSpan,
    CoreConfig,
    Endpoint,
    Epoch,
    NodeId,
    Offset,
    ReplicaKey,
    Voter,
    VoterSet,
)
from quorate.simulation.core_node import (
    CoreDisk,
    CoreFactory,
    CoreNode,
    Entry,
    replace_records,
    unpack_entries,
)
from quorate.simulation.violations import SafetyViolation

CLUSTER_ID = "simulated"


class CoreWorld:
    """Nodes, their disks, and what is under way between them. Nothing happens by itself.

    Raises SafetyViolation from any call that breaks a promise.
    """

    def __init__(
        self,
        *,
        voters: int,
        observers: int = 0,
        config: CoreConfig | None = None,
        core: CoreFactory = Core,
    ) -> None:
        self.config = config if config is not None else CoreConfig()
        self._factory = core
        self.voters = VoterSet(
            tuple(
                Voter(ReplicaKey(NodeId(node)), Endpoint(f"node-{node}", 9093))
                for node in range(1, voters + 1)
            )
        )
        self.nodes = {
            NodeId(node): CoreNode(NodeId(node), CoreDisk()) for node in range(1, voters + observers + 1)
        }
        self.mailbox: list[Message] = []
        """Sent, and not yet delivered."""
        self.committed: list[Entry] = []
        """The longest prefix that any node ever called committed."""
        self.on_effect: Callable[[NodeId, Effect], None] | None = None
        """Sees each effect before it is carried out."""
        self._leaders: dict[Epoch, NodeId] = {}
        self._votes: dict[tuple[NodeId, Epoch], ReplicaKey] = {}
        self._next_value = 0
        self._last_event = "the start"

    # --- what can be made to happen ---

    def start(self, node: NodeId) -> tuple[Effect, ...]:
        """Start it, or restart it from its disk. What recovery read is durable before the first step."""
        machine = self.nodes[node]
        machine.disk.synced = len(machine.disk.entries)
        machine.incarnation += 1
        machine.high_watermark = None
        machine.core = self._factory(
            config=self.config,
            cluster_id=CLUSTER_ID,
            key=ReplicaKey(node),
            endpoint=None,
            voters=self.voters,
            election=machine.disk.election,
            log=machine.disk.recovered(),
        )
        self._last_event = f"the start of node {node}"
        effects = machine.core.start()
        self._carry_out(machine, effects)
        return effects

    def step(self, node: NodeId, event: Event, *, effects_done: int | None = None) -> tuple[Effect, ...]:
        """Give `node` an event and carry out what it asks for; only the first `effects_done`, if given, as
        if it crashed then."""
        machine = self.nodes[node]
        self._last_event = f"node {node}: {event}"
        effects = machine.up.step(event)
        if effects_done is None:
            self._carry_out(machine, effects)
        else:
            for effect in effects[:effects_done]:
                self._do(machine, effect)
        return effects

    def crash(self, node: NodeId, *, keep: int | None = None) -> None:
        """Stop it. `keep` entries remain, not less than were synced; None keeps all, as a process crash
        does."""
        machine = self.nodes[node]
        machine.core = None
        machine.timers.clear()
        machine.syncs.clear()
        if keep is not None:
            if keep < machine.disk.synced:
                raise ValueError(
                    f"{machine.disk.synced} entries of node {node} are synced, {keep} is too few"
                )
            del machine.disk.entries[keep:]

    def propose(self, node: NodeId, count: int = 1) -> tuple[Effect, ...]:
        self._next_value += count
        return self.step(node, Propose(self._next_value - count, count))

    def deliver(self, message: Message, *, effects_done: int | None = None) -> tuple[Effect, ...]:
        return self.step(message.destination, Received(message), effects_done=effects_done)

    def sync(self, node: NodeId) -> tuple[Effect, ...]:
        """Finish every sync that was asked for, and say so."""
        machine = self.nodes[node]
        done = machine.syncs[-1]
        machine.syncs.clear()
        self.sync_disk(node, done)
        return self.step(node, done)

    def sync_disk(self, node: NodeId, durable: Durable) -> None:
        """The disk has it; the core does not know yet."""
        machine = self.nodes[node]
        if durable.generation == machine.up.generation:
            machine.disk.synced = max(machine.disk.synced, durable.end_offset)

    def fire(self, node: NodeId, timer: Timer) -> tuple[Effect, ...]:
        machine = self.nodes[node]
        if timer not in machine.timers:
            raise ValueError(f"node {node} has no {timer} armed, only {list(machine.timers)}")
        del machine.timers[timer]
        return self.step(node, TimerFired(timer))

    def leader(self) -> NodeId | None:
        """The leader of the highest epoch among the nodes that are up."""
        leading = [
            (core.epoch, node)
            for node, machine in self.nodes.items()
            if (core := machine.core) is not None and core.role is Role.LEADER
        ]
        return max(leading)[1] if leading else None

    # --- effects ---

    def _carry_out(self, machine: CoreNode, effects: Iterable[Effect]) -> None:
        for effect in effects:
            self._do(machine, effect)
        self._check(machine)

    def _do(self, machine: CoreNode, effect: Effect) -> None:
        if self.on_effect is not None:
            self.on_effect(machine.id, effect)
        disk = machine.disk
        match effect:
            case Persist():
                disk.election = effect.state
            case AppendLeaderChange():
                self._append(machine, effect.base_offset, [Entry(effect.epoch, -effect.epoch)])
            case AppendProposal():
                count = effect.end_offset - effect.base_offset
                entries = [Entry(effect.epoch, effect.proposal + index) for index in range(count)]
                self._append(machine, effect.base_offset, entries)
            case AppendFetched():
                self._append(machine, effect.batches[0].base_offset, unpack_entries(effect))
            case Truncate():
                cut = zip(
                    disk.entries[effect.end_offset :], self.committed[effect.end_offset :], strict=False
                )
                self._require(
                    all(entry != committed for entry, committed in cut), "no committed record is cut", machine
                )
                del disk.entries[effect.end_offset :]
                disk.synced = effect.end_offset
            case Send():
                self._check_said(machine, effect.message)
                self._send(effect.message)
            case SendRecords():
                self._check_said(machine, effect.response)
                self._send(self._with_records(machine, effect))
            case ArmTimer():
                machine.timers.pop(effect.timer, None)
                machine.timers[effect.timer] = effect
                self._armed(machine, effect)
            case CancelTimer():
                machine.timers.pop(effect.timer, None)
            case HighWatermarkAdvanced():
                self._check_high_watermark(machine, effect.high_watermark)
            case RoleChanged():
                self._check_role(machine, effect)
            case RejectProposal():
                pass

    def _send(self, message: Message) -> None:
        self.mailbox.append(message)

    def _armed(self, machine: CoreNode, effect: ArmTimer) -> None:
        """A timer runs."""

    def _sync_asked(self, machine: CoreNode, durable: Durable) -> None:
        machine.syncs.append(durable)

    def _append(self, machine: CoreNode, base_offset: Offset, entries: list[Entry]) -> None:
        disk = machine.disk
        self._require(base_offset == len(disk.entries), f"append at {base_offset} leaves a gap", machine)
        disk.entries.extend(entries)
        self._sync_asked(machine, Durable(machine.up.generation, Offset(len(disk.entries))))

    def _with_records(self, machine: CoreNode, effect: SendRecords) -> Message:
        entries = machine.disk.entries[effect.start_offset : effect.start_offset + self._records_max()]
        batches: list[BatchSpan] = []
        for offset, entry in enumerate(entries, start=effect.start_offset):
            if batches and batches[-1].epoch == entry.epoch:
                batches[-1] = BatchSpan(batches[-1].base_offset, Offset(offset + 1), entry.epoch)
            else:
                batches.append(BatchSpan(Offset(offset), Offset(offset + 1), entry.epoch))
        return replace_records(effect, tuple(batches), entries)

    def _records_max(self) -> int:
        return 1000

    # --- promises ---

    def _require(self, condition: bool, promise: str, machine: CoreNode) -> None:
        if not condition:
            raise SafetyViolation(f"{promise}: node {machine.id}, after {self._last_event}; {machine}")

    def _check(self, machine: CoreNode) -> None:
        """What must hold whenever the effects of a step are done."""
        core, disk = machine.up, machine.disk
        self._require(core.log_end_offset == len(disk.entries), "the core knows where its log ends", machine)
        last_epoch = disk.entries[-1].epoch if disk.entries else 0
        self._require(core.log_end_epoch == last_epoch, "the core knows its last epoch", machine)
        self._require(core.durable_end_offset <= disk.synced, "what the core calls durable is", machine)
        self._require(core.election == disk.election, "the vote is stored", machine)
        self._require(
            core.high_watermark is None or core.high_watermark <= core.log_end_offset,
            "high watermark <= log end",
            machine,
        )

    def _check_said(self, machine: CoreNode, message: Message) -> None:
        """Durable before said."""
        self._require(
            message.epoch <= machine.disk.election.epoch, "an epoch is stored before it is said", machine
        )
        if isinstance(message, Response):
            self._require(message.error is not ErrorCode.INVALID_REQUEST, "nodes send what is valid", machine)
        if isinstance(message, VoteResponse) and message.granted and not message.pre_vote:
            candidate = ReplicaKey(message.destination)
            self._require(
                machine.disk.election.voted == candidate, "a vote is stored before it is said", machine
            )
            self._check_vote(machine, message.epoch, candidate)

    def _check_vote(self, machine: CoreNode, epoch: Epoch, candidate: ReplicaKey) -> None:
        given = self._votes.setdefault((machine.id, epoch), candidate)
        self._require(given == candidate, f"one vote in epoch {epoch}, but {given} had it before", machine)

    def _check_role(self, machine: CoreNode, changed: RoleChanged) -> None:
        if changed.role is Role.CANDIDATE:
            self._check_vote(machine, changed.epoch, ReplicaKey(machine.id))
        if changed.role is not Role.LEADER:
            return
        leader = self._leaders.setdefault(changed.epoch, machine.id)
        self._require(leader == machine.id, f"one leader in epoch {changed.epoch}, not {leader} too", machine)
        self._require(
            machine.disk.entries[: len(self.committed)] == self.committed,
            "a leader has every committed record",
            machine,
        )

    def _check_high_watermark(self, machine: CoreNode, high_watermark: Offset) -> None:
        before = machine.high_watermark
        self._require(
            before is None or high_watermark > before, "the high watermark never goes back", machine
        )
        machine.high_watermark = high_watermark
        entries = machine.disk.entries
        self._require(high_watermark <= len(entries), "high watermark <= log end", machine)
        start = before if before is not None else 0
        shared = min(high_watermark, len(self.committed))
        self._require(
            entries[start:shared] == self.committed[start:shared], "a committed record never changes", machine
        )
        if high_watermark > len(self.committed):
            last = Offset(high_watermark - 1)
            holders = [
                voter
                for voter in self.voters.ids
                if (disk := self.nodes[voter].disk).synced > last and disk.entries[last] == entries[last]
            ]
            self._require(
                len(holders) >= self.voters.majority,
                f"a majority has stored what is committed, not only {holders} offset {last}",
                machine,
            )
            self.committed.extend(entries[len(self.committed) : high_watermark])

    def check_logs(self) -> None:
        """Log matching (Raft section 5.3): equal epochs at an offset mean equal logs up to it. Compares
        all pairs."""
        machines = list(self.nodes.values())
        for index, one in enumerate(machines):
            for other in machines[index + 1 :]:
                shared = min(len(one.disk.entries), len(other.disk.entries))
                for offset in range(shared - 1, -1, -1):
                    if one.disk.entries[offset].epoch == other.disk.entries[offset].epoch:
                        same = one.disk.entries[: offset + 1] == other.disk.entries[: offset + 1]
                        self._require(same, f"logs match up to {offset}, as in node {other.id}", one)
                        break
