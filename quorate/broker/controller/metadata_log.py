"""The controller's interface to the quorum: a place in the log at once, and a call at the commit.

A `Quorum` to which only the controller of its node appends is a `MetadataLog`.
"""

from collections.abc import Sequence
from typing import Protocol

from quorate.types import Epoch, Offset


class Committed(Protocol):
    @property
    def base_offset(self) -> Offset: ...


class Pending(Protocol):
    """An append that has its place in the log. Any number of tasks may wait for it, at any time."""

    async def wait(self) -> Committed:
        """Return when it is committed and applied here. Raises `NotLeaderError` (nothing happened),
        `OutcomeUnknownError` or `QuorumStoppedError`, each of which means that leadership is lost."""
        ...


class MetadataLog(Protocol):
    """The metadata log as its leader sees it. The quorum puts control records of its own (voter sets) between
    the controller's."""

    @property
    def next_offset(self) -> Offset:
        """The offset of the next record. The record gets it, or leadership is lost before it is in the
        log."""
        ...

    def append_nowait(self, records: Sequence[bytes], *, epoch: Epoch) -> Pending:
        """Append records, on the leader of `epoch`, as one atomic batch after all earlier ones. Raises
        `NotLeaderError`, `InvalidAppendError` or `QuorumStoppedError` when nothing happened."""
        ...

    def resign(self) -> None:
        """Stop leading, so that another node's controller takes over. No effect where it doesn't lead."""
        ...
