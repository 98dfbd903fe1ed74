"""An append through a door. While its node leads, it needs no task on the quorum's thread."""

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import TypeVar

import trio

from quorate.raft.quorum import Quorum, unanswered_error
from quorate.raft.quorum_errors import NotLeaderError, QuorumError
from quorate.raft.state_machine.interface import Appended
from quorate.runtime.real import TaskCall
from quorate.types import Epoch, Offset

Outcome = TypeVar("Outcome")
Function = TypeVar("Function", bound=Callable[..., object])


def declared_as_append(function: Function) -> Function:
    """Give a door's method the signature and the docstring of `Quorum.append`."""
    update_wrapper(function, Quorum.append)
    return function


class AppendCall(TaskCall[Appended[Outcome]]):
    """A call of `Quorum.append`. It waits in the queue of the leader, as an `AppendWaiter`. A task does the
    whole call only if the node does not lead, has no room, or loses the leadership."""

    __slots__ = ("_deadline", "_is_queued", "_nursery", "_opened", "_records", "_timeout_ms")

    def __init__(
        self,
        opened: Callable[[], Quorum[Outcome]],
        records: Sequence[bytes],
        done: Callable[[], None],
        *,
        timeout_ms: int,
        lost: Callable[[], Exception],
    ) -> None:
        """`opened`: returns the quorum, or raises. `done`, `lost`: as of `TaskCall`."""
        super().__init__(self._append_in_task, done, lost=lost)
        self._opened = opened
        self._records = records
        self._timeout_ms = timeout_ms
        self._deadline: float
        self._is_queued = False
        """True while it waits in the queue, and nobody was told how it ended."""
        self._nursery: trio.Nursery

    def begin(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._deadline = trio.current_time() + self._timeout_ms / 1000
        self._is_queued = True
        try:
            if self._opened()._append_at_once(self._records, self):
                return
        except BaseException as error:
            self._end(error)
        else:
            self._begin_task()

    def applied(
        self, base_offset: Offset, epoch: Epoch, results: Sequence[object], batch_end_offset: Offset
    ) -> None:
        if self._is_queued:
            self._value = Appended(base_offset, epoch, tuple(results))  # type: ignore[arg-type]
            self._end(None)

    def failed(self, error: QuorumError) -> None:
        if not self._is_queued:
            return
        if isinstance(error, NotLeaderError):
            self._begin_task()  # nothing happened, and another node may lead
        else:
            self._end(error)

    def expire(self) -> None:
        """End a call whose time is up. Call this as `cancel`. A task does that by itself."""
        if self._is_queued:
            self._end(unanswered_error(self._timeout_ms))

    def cancel(self) -> None:
        self._is_queued = False
        super().cancel()

    def _end(self, error: BaseException | None) -> None:
        self._is_queued = False
        self._error = error
        self._done()

    def _begin_task(self) -> None:
        self._is_queued = False
        super().begin(self._nursery)

    async def _append_in_task(self) -> Appended[Outcome]:
        return await self._opened()._append_until(self._deadline, self._records, self._timeout_ms)
