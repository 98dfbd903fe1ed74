"""The waiters for an operation of the leader, each told exactly once."""

from collections.abc import Sequence
from typing import Protocol

from quorate.raft.quorum_errors import QuorumError
from quorate.types import Epoch, Offset


class AppendWaiter(Protocol):
    """Hears how an append ended: exactly one of these is called, once."""

    def applied(
        self, base_offset: Offset, epoch: Epoch, results: Sequence[object], batch_end_offset: Offset
    ) -> None:
        """`batch_end_offset`: everything below is committed; the batch that the append shares ends there."""
        ...

    def failed(self, error: QuorumError) -> None: ...


class IndexWaiter(Protocol):
    """Hears how a read index was found: exactly one of these is called, once."""

    def passed(self, read_index: Offset) -> None: ...

    def failed(self, error: QuorumError) -> None: ...
