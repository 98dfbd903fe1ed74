"""The interpreter of a step's effects, and the invariants of one node."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from quorate.error_code import ErrorCode
from quorate.raft.core import (
    AppendFetched,
    AppendLeaderChange,
    AppendProposal,
    AppendVoters,
    ArmTimer,
    BeginQuorumEpochRequest,
    CancelTimer,
    CheckSnapshot,
    Core,
    Durable,
    Effect,
    EndQuorumEpochRequest,
    FetchRequest,
    Generation,
    HighWatermarkAdvanced,
    InstallSnapshot,
    Persist,
    ReadIndexConfirmed,
    ReadIndexFailed,
    RejectProposal,
    Response,
    Role,
    RoleChanged,
    Send,
    SendRecords,
    SendSnapshotChunk,
    StoreSnapshotChunk,
    Timer,
    TransferEnded,
    Truncate,
    VoteRequest,
    VoteResponse,
    VotersChanged,
    validate,
)
from quorate.simulation.explorer.node.machine import CrashPoint, Machine, Packet
from quorate.simulation.explorer.node.node_disk import Batch, Disk, History, Snapshot, end_of, up_to
from quorate.simulation.explorer.node.observations import (
    Commits,
    Cuts,
    Leads,
    Observation,
    ReadFailed,
    ReadPassed,
)
from quorate.simulation.violations import SafetyViolation
from quorate.types import Epoch, Offset, SnapshotId, VotersAt, VoterSet

SNAPSHOT_BYTES: Final = 2
"""Of every snapshot, fetched one by one, so that each takes a chunk and a resume."""

TRANSITIONS: Final[Mapping[Role, tuple[Role, ...]]] = {
    Role.UNATTACHED: (Role.FOLLOWER, Role.PROSPECTIVE),
    Role.FOLLOWER: (Role.UNATTACHED, Role.PROSPECTIVE),
    Role.PROSPECTIVE: (Role.CANDIDATE, Role.FOLLOWER, Role.UNATTACHED),
    Role.CANDIDATE: (Role.LEADER, Role.PROSPECTIVE, Role.FOLLOWER, Role.UNATTACHED),
    Role.LEADER: (Role.RESIGNED, Role.FOLLOWER, Role.UNATTACHED),
    Role.RESIGNED: (Role.UNATTACHED, Role.FOLLOWER),
}
"""The table of docs/reference/kraft-rules.md#roles, independent of the core's own. Every role may also begin
anew."""


@dataclass(slots=True)
class Interpreter:
    """Carries out the effects of one step, and checks each against what one node must keep by itself."""

    machine: Machine
    core: Core
    packet: Packet | None
    role: Role | None
    """That of the last RoleChanged."""
    fetch_batches: int
    disk: Disk = field(init=False)
    timers: set[Timer] = field(init=False)
    syncs: list[Durable] = field(init=False)
    partial: Snapshot | None = field(init=False)
    position: int = field(init=False)
    checking: SnapshotId | None = field(init=False)
    sent: list[Packet] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    crash_points: list[CrashPoint] = field(default_factory=list)

    def __post_init__(self) -> None:
        machine = self.machine
        self.disk = machine.disk
        self.timers = set(machine.timers)
        self.syncs = list(machine.syncs)
        self.partial = machine.partial
        self.position = machine.position
        self.checking = machine.checking

    def require(self, condition: bool, invariant: str) -> None:
        if not condition:
            raise SafetyViolation(invariant)

    def do(self, effect: Effect) -> None:
        match effect:
            case Persist():
                self._persist(effect)
            case AppendLeaderChange():
                count = 1 if effect.voter_set is None else 3
                voters = (
                    VotersAt(Offset(effect.base_offset + 2), effect.voter_set)
                    if effect.voter_set is not None
                    else None
                )
                end = Offset(effect.base_offset + count)
                batch = Batch(effect.base_offset, end, effect.epoch, leader=effect.leader, voters=voters)
                self._append(effect.generation, (batch,))
            case AppendVoters():
                last = Offset(effect.base_offset + (1 if effect.first else 0))
                voters = VotersAt(last, effect.voters)
                batch = Batch(effect.base_offset, Offset(last + 1), effect.epoch, voters=voters)
                self._append(effect.generation, (batch,))
            case AppendProposal():
                batch = Batch(effect.base_offset, effect.end_offset, effect.epoch, effect.proposal)
                self._append(effect.generation, (batch,))
            case AppendFetched():
                history = self.packet.history if self.packet is not None else ()
                self.require(
                    effect.batches == tuple(batch.span() for batch in history),
                    "what is appended is what was fetched",
                )
                self._append(effect.generation, history)
            case Truncate():
                self._truncate(effect.end_offset)
            case Send():
                self._send(Packet(effect.message))
            case SendRecords():
                self._send_records(effect)
            case SendSnapshotChunk():
                self._send_chunk(effect)
            case StoreSnapshotChunk():
                self._store_chunk(effect)
            case CheckSnapshot():
                self.require(
                    self.partial is not None
                    and (self.partial.id, self.position) == (effect.snapshot, SNAPSHOT_BYTES),
                    "a snapshot is checked when all of it is there",
                )
                self.checking = effect.snapshot
            case InstallSnapshot():
                self._install(effect.snapshot)
            case ArmTimer():
                self.timers.add(effect.timer)
            case CancelTimer():
                self.timers.discard(effect.timer)
            case HighWatermarkAdvanced():
                self._advance(effect.high_watermark)
            case RoleChanged():
                self._role(effect)
            case ReadIndexConfirmed():
                self.observations.append(ReadPassed(effect.read_round, effect.read_index))
            case ReadIndexFailed():
                self.observations.append(ReadFailed(effect.read_round))
            case RejectProposal() | VotersChanged() | TransferEnded():
                pass
            case _:
                assert_never(effect)

    def check(self, before: Core | None) -> None:
        """What must hold whenever the effects of a step are done."""
        core, disk = self.core, self.disk
        validate(core)
        self.require(
            (core.log_start_offset, core.log_end_offset, core.log_end_epoch)
            == (disk.log_start_offset, disk.end_offset, disk.last_epoch),
            "the core knows its log",
        )
        self.require(core.durable_end_offset <= disk.synced, "what the core calls durable is synced")
        self.require(core.election == disk.election, "what the core stands on is stored")
        sets = _sets(disk.history)
        self.require(
            not sets or core.voters == sets[-1], "the latest voters in the log count, committed or not"
        )
        if core.role in (Role.PROSPECTIVE, Role.CANDIDATE):
            # Who was removed by a set that may not be committed may still stand, so that it can be.
            self.require(
                core.is_voter or any(voters.has(self.machine.key) for voters in _sets(disk.history)),
                f"an observer is no {core.role.value}",
            )
        if core.role is Role.LEADER:
            self.require(core.leader == core.node_id, "a leader knows who leads")

    # --- the disk ---

    def _store(self, disk: Disk) -> None:
        """Something reaches the disk. A crash may come first, if anything was done before."""
        crash_point = CrashPoint(self.disk, tuple(self.sent), tuple(self.observations))
        if self.disk is not self.machine.disk or self.sent:
            self.crash_points.append(crash_point)
        self.disk = disk

    def _persist(self, effect: Persist) -> None:
        old, new = self.disk.election, effect.state
        self.require(new.epoch >= old.epoch, f"an epoch never goes back, from {old.epoch} to {new.epoch}")
        if new.epoch == old.epoch:
            self.require(
                old.voted is None or old.voted == new.voted,
                f"one vote in epoch {old.epoch}: it was {old.voted}'s, now {new.voted}'s",
            )
            self.require(
                old.leader is None or old.leader == new.leader,
                f"one leader in epoch {old.epoch}: it was {old.leader}, now {new.leader}",
            )
        self._store(replace(self.disk, election=new))

    def _append(self, generation: Generation, history: History) -> None:
        disk = self.disk
        self.require(
            bool(history) and history[0].base_offset == disk.end_offset,
            f"an append at {history[0].base_offset if history else None} leaves no gap: {disk.end_offset}",
        )
        self.require(history[0].epoch >= disk.last_epoch, "an epoch never goes back in a log")
        sets = _sets(disk.history)
        for voters in _sets(history):
            if sets:
                changed = set(sets[-1].voters) ^ set(voters.voters)
                ids = {voter.key.id for voter in changed}
                self.require(len(ids) <= 1, f"one voter changes at a time, not {sorted(ids)}")
            sets = (*sets, voters)
        self._store(replace(disk, history=disk.history + history))
        self.syncs.append(Durable(generation, end_of(history)))

    def _truncate(self, end_offset: Offset) -> None:
        disk = self.disk
        kept = up_to(disk.history, end_offset)
        self.require(end_of(kept) == end_offset, f"a cut at {end_offset} is between two batches")
        self.require(end_offset >= disk.log_start_offset, "a cut is above the log start")
        self.observations.append(Cuts(disk.history[len(kept) :]))
        self._store(replace(disk, history=kept, synced=end_offset))

    def _install(self, snapshot: SnapshotId) -> None:
        found = self.disk.snapshot(snapshot)
        if found is None:
            raise SafetyViolation(f"{snapshot} is complete before it is installed")
        cut = self.disk.history[len(found.history) :]
        if self.disk.history[: len(found.history)] != found.history:
            cut = self.disk.history
        if cut:
            self.observations.append(Cuts(tuple(batch for batch in cut if batch not in found.history)))
        end = snapshot.end_offset
        self._store(
            replace(
                self.disk,
                history=found.history,
                log_start_offset=end,
                synced=end,
                snapshots=tuple(each for each in self.disk.snapshots if each.id == snapshot),
            )
        )

    def _store_chunk(self, effect: StoreSnapshotChunk) -> None:
        history = self.packet.history if self.packet is not None else ()
        if effect.position == 0:
            self.partial = Snapshot(effect.snapshot, history)
        else:
            self.require(
                self.partial == Snapshot(effect.snapshot, history) and self.position == effect.position,
                f"a chunk at {effect.position} continues what is there",
            )
        self.position = effect.position + 1

    # --- what is said ---

    def _send(self, packet: Packet) -> None:
        """Durable before said."""
        message, disk = packet.message, self.disk
        election = disk.election
        self.require(
            message.source == self.machine.key.id and message.epoch <= election.epoch,
            f"epoch {message.epoch} is stored before it is said; stored is {election.epoch}",
        )
        match message:
            case VoteResponse():
                if message.granted and not message.pre_vote:
                    voted = election.voted
                    self.require(
                        message.epoch == election.epoch
                        and voted is not None
                        and voted.id == message.destination,
                        f"a vote for {message.destination} is stored before it is said; stored is {voted}",
                    )
            case VoteRequest():
                if not message.pre_vote:
                    voted = election.voted
                    self.require(
                        voted is not None and voted.id == self.machine.key.id,
                        "a candidate votes for itself first",
                    )
                # The log one stands with may be the durable part of it, but no more than that.
                self._require_durable(message.end_offset, message.last_epoch, "what a candidate stands with")
            case FetchRequest():
                self._require_durable(message.offset, message.last_fetched_epoch, "what a Fetch acknowledges")
                self.require(message.offset == disk.end_offset, "a Fetch asks for what follows the log")
            case BeginQuorumEpochRequest() | EndQuorumEpochRequest():
                self.require(election.leader == self.machine.key.id, "who leads is stored before it is said")
            case _:
                pass
        if isinstance(message, Response):
            self.require(message.error is not ErrorCode.INVALID_REQUEST, "nodes send what is valid")
        self.sent.append(packet)

    def _require_durable(self, offset: Offset, epoch: Epoch, what: str) -> None:
        disk = self.disk
        self.require(
            offset <= disk.synced and epoch == disk.epoch_before(offset),
            f"{what} is durable: said {offset} of epoch {epoch}, synced {disk.synced} of {disk.last_epoch}",
        )

    def _send_records(self, effect: SendRecords) -> None:
        disk = self.disk
        history = tuple(batch for batch in disk.history if batch.end_offset > effect.start_offset)
        self.require(
            bool(history) and history[0].base_offset == effect.start_offset >= disk.log_start_offset,
            f"there are records to send from {effect.start_offset} on",
        )
        history = history[: self.fetch_batches]
        spans = tuple(batch.span() for batch in history)
        self._send(Packet(replace(effect.response, batches=spans), history))

    def _send_chunk(self, effect: SendSnapshotChunk) -> None:
        response = effect.response
        found = self.disk.snapshot(response.snapshot)
        if found is None:
            self._send(Packet(replace(response, error=ErrorCode.SNAPSHOT_NOT_FOUND)))
        elif not 0 <= response.position < SNAPSHOT_BYTES:
            self._send(Packet(replace(response, error=ErrorCode.POSITION_OUT_OF_RANGE)))
        else:
            length = min(1, effect.max_bytes)
            filled = replace(response, size=SNAPSHOT_BYTES, length=length, chunk=b"."[:length])
            self._send(Packet(filled, found.history if length else ()))

    # --- what others must agree with ---

    def _advance(self, high_watermark: Offset) -> None:
        history = up_to(self.disk.history, high_watermark)
        self.require(
            end_of(history) == high_watermark, f"{high_watermark} is in the log and between two batches"
        )
        counted = self.role is Role.LEADER
        self.observations.append(Commits(history, self.core.epoch if counted else None))

    def _role(self, effect: RoleChanged) -> None:
        self.require(effect.epoch == self.disk.election.epoch, "a role is announced when its epoch is stored")
        allowed = self.role is None or self.role is effect.role or effect.role in TRANSITIONS[self.role]
        self.require(allowed, f"no way leads from {self.role} to {effect.role}")
        self.role = effect.role
        if effect.role is Role.LEADER:
            self.require(
                self.disk.election.leader == self.machine.key.id, "who leads is stored before it is said"
            )
            self.observations.append(Leads(effect.epoch))


def _sets(history: History) -> tuple[VoterSet, ...]:
    return tuple(batch.voters.voters for batch in history if batch.voters is not None)
