"""What the user replicates."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from quorate.raft.core.types import Epoch, Offset

Result = TypeVar("Result", covariant=True)
Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedBatch:
    """Committed records in log order: `records[i]` is at `base_offset + i`."""

    base_offset: Offset
    epoch: Epoch
    """Of the leader that appended them."""
    timestamp_ms: int
    """That leader's wall clock when it appended them."""
    records: Sequence[bytes]


class StateMachine(Protocol[Result]):
    """Replicated state. All methods are called on the quorum's task, one at a time.

    `apply` must be deterministic: no clocks, no randomness, no I/O. If it raises, the node stops at that
    batch and says so.
    """

    def apply(self, batch: CommittedBatch) -> Sequence[Result]:
        """Apply committed records, each exactly once per life of this object and in order. Returns one
        result per record, for the caller of `append`."""
        ...

    def take_snapshot(self) -> Iterator[bytes]:
        """The state after the last applied batch, in chunks. Not called in this version: snapshots
        (KIP-630) come later."""
        ...

    def load_snapshot(self, chunks: Iterator[bytes]) -> None:
        """Replace the state. Not called in this version."""
        ...


@dataclass(frozen=True, slots=True)
class Appended(Generic[Outcome]):
    """A committed and locally applied append."""

    base_offset: Offset
    epoch: Epoch
    results: tuple[Outcome, ...]
    """What `apply` returned for each record, on this node."""
