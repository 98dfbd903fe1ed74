"""The one place for the effects of a core on a disk and a network in memory, shared by simulation and
explorer."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol, assert_never

from quorate.error_code import ErrorCode
from quorate.raft.core import (
    AppendFetched,
    AppendLeaderChange,
    AppendProposal,
    AppendVoters,
    ArmTimer,
    BatchSpan,
    BeginQuorumEpochRequest,
    CancelTimer,
    CheckSnapshot,
    Effect,
    EndQuorumEpochRequest,
    FetchRequest,
    Generation,
    HighWatermarkAdvanced,
    InstallSnapshot,
    Message,
    Persist,
    ReadIndexConfirmed,
    ReadIndexFailed,
    RejectProposal,
    Response,
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
)
from quorate.simulation.violations import SafetyViolation
from quorate.types import ElectionState, Epoch, NodeId, Offset, SnapshotId, VotersAt


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """A record batch: offsets [base_offset, end_offset)."""

    base_offset: Offset
    end_offset: Offset
    epoch: Epoch
    proposal: int | None = None
    """The number of the proposal."""
    leader: NodeId | None = None
    """The leader that a LeaderChange names."""
    voters: VotersAt | None = None

    def span(self) -> BatchSpan:
        return BatchSpan(self.base_offset, self.end_offset, self.epoch, self.voters)


class StoredState(Protocol):
    """The data on a node's disk."""

    @property
    def election(self) -> ElectionState: ...

    @property
    def end_offset(self) -> Offset: ...

    @property
    def last_epoch(self) -> Epoch: ...

    @property
    def log_start_offset(self) -> Offset: ...

    @property
    def synced(self) -> Offset:
        """Records below it survive a power cut."""
        ...

    def epoch_before(self, offset: int) -> Epoch:
        """Return the epoch of the record below `offset`; 0 at the start."""
        ...


class EffectInterpreter(ABC):
    """Carries out the effects of one node, and checks the invariants that a node keeps by itself."""

    @property
    @abstractmethod
    def node_id(self) -> NodeId: ...

    @property
    @abstractmethod
    def stored(self) -> StoredState: ...

    def violation(self, invariant: str) -> SafetyViolation:
        return SafetyViolation(invariant)

    def require(self, condition: bool, invariant: str) -> None:
        if not condition:
            raise self.violation(invariant)

    def carry_out(self, effect: Effect) -> None:
        match effect:
            case Persist(state):
                self._check_election(state)
                self.persist(state)
            case AppendLeaderChange(generation, base_offset):
                voters = effect.voter_set
                end = Offset(base_offset + (1 if voters is None else 3))
                at = None if voters is None else VotersAt(Offset(base_offset + 2), voters)
                batch = WrittenBatch(base_offset, end, effect.epoch, leader=effect.leader, voters=at)
                self._append(generation, (batch,))
            case AppendVoters(generation, base_offset):
                last = Offset(base_offset + (1 if effect.first else 0))
                at = VotersAt(last, effect.voters)
                self._append(
                    generation, (WrittenBatch(base_offset, Offset(last + 1), effect.epoch, voters=at),)
                )
            case AppendProposal(generation, proposal, base_offset):
                batch = WrittenBatch(base_offset, effect.end_offset, effect.epoch, proposal)
                self._append(generation, (batch,))
            case AppendFetched(generation):
                self._check_append(effect.batches[0].base_offset, effect.batches[0].epoch)
                self.append_fetched(effect)
            case Truncate(_, end_offset):
                stored = self.stored
                if not stored.log_start_offset <= end_offset <= stored.end_offset:
                    raise self.violation(f"a truncation to {end_offset} is within the log")
                self.truncate(end_offset)
            case Send(message):
                self._check_message(message)
                self.send(message)
            case SendRecords(response):
                self._check_message(response)
                self.send_records(effect)
            case SendSnapshotChunk(response):
                self._check_message(response)
                self.send_chunk(effect)
            case StoreSnapshotChunk():
                self.store_chunk(effect)
            case CheckSnapshot():
                self.check_snapshot(effect.snapshot)
            case InstallSnapshot():
                self.install(effect.snapshot)
            case ArmTimer():
                self.arm(effect)
            case CancelTimer(timer):
                self.cancel(timer)
            case HighWatermarkAdvanced(high_watermark):
                self.advance(high_watermark)
            case RoleChanged():
                self.change_role(effect)
            case ReadIndexConfirmed() | ReadIndexFailed():
                self.end_read(effect)
            case RejectProposal() | VotersChanged() | TransferEnded():
                pass
            case _:
                assert_never(effect)

    # --- the disk, the network, and what is observed ---

    @abstractmethod
    def persist(self, state: ElectionState) -> None: ...

    @abstractmethod
    def append(self, generation: Generation, batches: tuple[WrittenBatch, ...]) -> None: ...

    @abstractmethod
    def append_fetched(self, effect: AppendFetched) -> None: ...

    @abstractmethod
    def truncate(self, end_offset: Offset) -> None: ...

    @abstractmethod
    def send(self, message: Message) -> None: ...

    @abstractmethod
    def send_records(self, effect: SendRecords) -> None: ...

    @abstractmethod
    def send_chunk(self, effect: SendSnapshotChunk) -> None: ...

    @abstractmethod
    def store_chunk(self, effect: StoreSnapshotChunk) -> None: ...

    @abstractmethod
    def check_snapshot(self, snapshot: SnapshotId) -> None: ...

    @abstractmethod
    def install(self, snapshot: SnapshotId) -> None: ...

    @abstractmethod
    def arm(self, effect: ArmTimer) -> None: ...

    @abstractmethod
    def cancel(self, timer: Timer) -> None: ...

    @abstractmethod
    def advance(self, high_watermark: Offset) -> None: ...

    @abstractmethod
    def change_role(self, effect: RoleChanged) -> None: ...

    @abstractmethod
    def end_read(self, effect: ReadIndexConfirmed | ReadIndexFailed) -> None: ...

    # --- checks ---

    def _append(self, generation: Generation, batches: tuple[WrittenBatch, ...]) -> None:
        self._check_append(batches[0].base_offset, batches[0].epoch)
        self.append(generation, batches)

    def _check_append(self, base_offset: Offset, epoch: Epoch) -> None:
        stored = self.stored
        if base_offset != stored.end_offset:
            raise self.violation(f"an append at {base_offset} leaves no gap: {stored.end_offset}")
        if epoch < stored.last_epoch:
            raise self.violation("an epoch never goes back in a log")

    def _check_election(self, new: ElectionState) -> None:
        old = self.stored.election
        if new.epoch < old.epoch:
            raise self.violation(f"an epoch never goes back, from {old.epoch} to {new.epoch}")
        if new.epoch == old.epoch:
            if old.voted not in (None, new.voted):
                raise self.violation(f"one vote in epoch {old.epoch}: {old.voted}'s, now {new.voted}'s")
            if old.leader not in (None, new.leader):
                raise self.violation(f"one leader in epoch {old.epoch}: {old.leader}, now {new.leader}")

    def _check_message(self, message: Message) -> None:
        """Check that the data on which a message depends is durable before it is sent."""
        stored, node = self.stored, self.node_id
        election = stored.election
        if message.epoch > election.epoch:
            raise self.violation(f"an epoch is stored before it is said: {message.epoch}, not {election}")
        match message:
            case Response() if message.error is ErrorCode.INVALID_REQUEST:
                raise self.violation("nodes send what is valid")
            case VoteResponse() if message.granted and not message.pre_vote:
                voted = election.voted
                if message.epoch != election.epoch or voted is None or voted.id != message.destination:
                    raise self.violation(f"a vote is stored before it is said: stored is {election}")
            case VoteRequest():
                if not message.pre_vote and (election.voted is None or election.voted.id != node):
                    raise self.violation("a candidate votes for itself first")
                # It may stand with the durable part of its log, but with no more.
                self._check_durable(message.end_offset, message.last_epoch, "what a candidate stands with")
            case FetchRequest():
                self._check_durable(message.offset, message.last_fetched_epoch, "what a Fetch acknowledges")
                if message.offset != stored.end_offset:
                    raise self.violation("a Fetch asks for what follows the log")
            case BeginQuorumEpochRequest() | EndQuorumEpochRequest():
                if election.leader != node:
                    raise self.violation("who leads is stored before it is said")
            case _:
                pass

    def _check_durable(self, offset: Offset, epoch: Epoch, what: str) -> None:
        stored = self.stored
        if offset > stored.synced or epoch != stored.epoch_before(offset):
            raise self.violation(
                f"{what} is durable: said {offset} of epoch {epoch}, synced {stored.synced} of "
                f"{stored.last_epoch}"
            )
