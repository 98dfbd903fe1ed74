"""The waiters for an operation of the leader, each told exactly once."""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import trio

from quorate.raft.quorum_errors import QuorumError
from quorate.types import Epoch, Offset

T = TypeVar("T")


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

    def passed(self, read_index: Offset, /) -> None: ...

    def failed(self, error: QuorumError) -> None: ...


class TaskWaiter(Generic[T]):
    """A task of this node that waits for the answer to its request. As `IndexWaiter`, for a read index."""

    __slots__ = ("_answer", "_done", "_error")

    def __init__(self) -> None:
        self._done = trio.Event()
        self._error: QuorumError | None = None
        self._answer: T

    def passed(self, answer: T, /) -> None:
        self._answer = answer
        self._done.set()

    def failed(self, error: QuorumError) -> None:
        self._error = error
        self._done.set()

    async def wait(self) -> T:
        """Return the answer, or raise the error."""
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._answer
