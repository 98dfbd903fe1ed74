"""The interpreter of a step's effects, and the invariants of one node."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from quorate.error_code import ErrorCode
from quorate.raft.core import (
    AppendFetched,
    ArmTimer,
    Core,
    Durable,
    Generation,
    Message,
    ReadIndexConfirmed,
    ReadIndexFailed,
    Role,
    RoleChanged,
    SendRecords,
    SendSnapshotChunk,
    StoreSnapshotChunk,
    Timer,
    validate,
)
from quorate.simulation.violations import SafetyViolation
from quorate.types import ElectionState, NodeId, Offset, SnapshotId, VoterSet
from tests.simulator.effect_interpreter import EffectInterpreter
from tests.simulator.explorer.core_model.machine import (
    Commits,
    CrashPoint,
    Cuts,
    History,
    Leads,
    Machine,
    NodeDisk,
    Observation,
    Packet,
    ReadFailed,
    ReadPassed,
    Snapshot,
    end_of,
    up_to,
)

SNAPSHOT_BYTES: Final = 2
"""The bytes of every snapshot, fetched one by one, so that each takes a chunk and a resume."""

TRANSITIONS: Final[Mapping[Role, tuple[Role, ...]]] = {
    Role.UNATTACHED: (Role.FOLLOWER, Role.PROSPECTIVE),
    Role.FOLLOWER: (Role.UNATTACHED, Role.PROSPECTIVE),
    Role.PROSPECTIVE: (Role.CANDIDATE, Role.FOLLOWER, Role.UNATTACHED),
    Role.CANDIDATE: (Role.LEADER, Role.PROSPECTIVE, Role.FOLLOWER, Role.UNATTACHED),
    Role.LEADER: (Role.RESIGNED, Role.FOLLOWER, Role.UNATTACHED),
    Role.RESIGNED: (Role.UNATTACHED, Role.FOLLOWER),
}
"""The table of docs/reference/kraft-rules.md#roles, independent of the core's own. Every role may also begin
again."""


@dataclass(slots=True)
class Interpreter(EffectInterpreter):
    """Carries out the effects of one step of one node."""

    machine: Machine
    core: Core
    packet: Packet | None
    role: Role | None
    """The role in the last RoleChanged."""
    fetch_batches: int
    disk: NodeDisk = field(init=False)
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

    @property
    def node_id(self) -> NodeId:
        return self.machine.key.id

    @property
    def stored(self) -> NodeDisk:
        return self.disk

    def check(self, before: Core | None) -> None:
        """Check the invariants that hold whenever the effects of a step are done."""
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

    def _store(self, disk: NodeDisk) -> None:
        """Something reaches the disk. A crash may come first, if anything was done before."""
        crash_point = CrashPoint(self.disk, tuple(self.sent), tuple(self.observations))
        if self.disk is not self.machine.disk or self.sent:
            self.crash_points.append(crash_point)
        self.disk = disk

    def persist(self, state: ElectionState) -> None:
        self._store(replace(self.disk, election=state))

    def append_fetched(self, effect: AppendFetched) -> None:
        history = self.packet.history if self.packet is not None else ()
        self.require(
            effect.batches == tuple(batch.span() for batch in history),
            "what is appended is what was fetched",
        )
        self.append(effect.generation, history)

    def append(self, generation: Generation, batches: History) -> None:
        disk = self.disk
        sets = _sets(disk.history)
        for voters in _sets(batches):
            if sets:
                changed = set(sets[-1].voters) ^ set(voters.voters)
                ids = {voter.key.id for voter in changed}
                self.require(len(ids) <= 1, f"one voter changes at a time, not {sorted(ids)}")
            sets = (*sets, voters)
        self._store(replace(disk, history=disk.history + batches))
        self.syncs.append(Durable(generation, end_of(batches)))

    def truncate(self, end_offset: Offset) -> None:
        disk = self.disk
        kept = up_to(disk.history, end_offset)
        self.require(end_of(kept) == end_offset, f"a cut at {end_offset} is between two batches")
        self.observations.append(Cuts(disk.history[len(kept) :]))
        self._store(replace(disk, history=kept, synced=end_offset))

    def install(self, snapshot: SnapshotId) -> None:
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

    def store_chunk(self, effect: StoreSnapshotChunk) -> None:
        history = self.packet.history if self.packet is not None else ()
        if effect.position == 0:
            self.partial = Snapshot(effect.snapshot, history)
        else:
            self.require(
                self.partial == Snapshot(effect.snapshot, history) and self.position == effect.position,
                f"a chunk at {effect.position} continues what is there",
            )
        self.position = effect.position + 1

    def check_snapshot(self, snapshot: SnapshotId) -> None:
        self.require(
            self.partial is not None and (self.partial.id, self.position) == (snapshot, SNAPSHOT_BYTES),
            "a snapshot is checked when all of it is there",
        )
        self.checking = snapshot

    # --- messages and timers ---

    def arm(self, effect: ArmTimer) -> None:
        self.timers.add(effect.timer)

    def cancel(self, timer: Timer) -> None:
        self.timers.discard(timer)

    def send(self, message: Message) -> None:
        self.sent.append(Packet(message))

    def send_records(self, effect: SendRecords) -> None:
        disk = self.disk
        history = tuple(batch for batch in disk.history if batch.end_offset > effect.start_offset)
        self.require(
            bool(history) and history[0].base_offset == effect.start_offset >= disk.log_start_offset,
            f"there are records to send from {effect.start_offset} on",
        )
        history = history[: self.fetch_batches]
        spans = tuple(batch.span() for batch in history)
        self.sent.append(Packet(replace(effect.response, batches=spans), history))

    def send_chunk(self, effect: SendSnapshotChunk) -> None:
        response = effect.response
        found = self.disk.snapshot(response.snapshot)
        if found is None:
            self.sent.append(Packet(replace(response, error=ErrorCode.SNAPSHOT_NOT_FOUND)))
        elif not 0 <= response.position < SNAPSHOT_BYTES:
            self.sent.append(Packet(replace(response, error=ErrorCode.POSITION_OUT_OF_RANGE)))
        else:
            length = min(1, effect.max_bytes)
            filled = replace(response, size=SNAPSHOT_BYTES, length=length, chunk=b"."[:length])
            self.sent.append(Packet(filled, found.history if length else ()))

    # --- what others must agree with ---

    def advance(self, high_watermark: Offset) -> None:
        history = up_to(self.disk.history, high_watermark)
        self.require(
            end_of(history) == high_watermark, f"{high_watermark} is in the log and between two batches"
        )
        counted = self.role is Role.LEADER
        self.observations.append(Commits(history, self.core.epoch if counted else None))

    def change_role(self, effect: RoleChanged) -> None:
        self.require(effect.epoch == self.disk.election.epoch, "a role is announced when its epoch is stored")
        allowed = self.role is None or self.role is effect.role or effect.role in TRANSITIONS[self.role]
        self.require(allowed, f"no way leads from {self.role} to {effect.role}")
        self.role = effect.role
        if effect.role is Role.LEADER:
            self.require(
                self.disk.election.leader == self.machine.key.id, "who leads is stored before it is said"
            )
            self.observations.append(Leads(effect.epoch))

    def end_read(self, effect: ReadIndexConfirmed | ReadIndexFailed) -> None:
        read_round = effect.read_round
        self.observations.append(
            ReadPassed(read_round, effect.read_index)
            if isinstance(effect, ReadIndexConfirmed)
            else ReadFailed(read_round)
        )


def _sets(history: History) -> tuple[VoterSet, ...]:
    return tuple(batch.voters.voters for batch in history if batch.voters is not None)
