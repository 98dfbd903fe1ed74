"""A quorum or a client on a thread of its own, with its own trio loop, for `quorate.aio` and
`quorate.blocking`."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import ClassVar, Generic, TypeVar

import trio

from quorate.raft.quorum_errors import (
    OutcomeUnknownError,
    QuorumConfigError,
    QuorumForkedError,
    QuorumStoppedError,
    QuorumThreadError,
)
from quorate.runtime import tell_forked
from quorate.runtime.real import LoopThread, PatchedThreadsError, ShortCall, TaskCall

Opened = TypeVar("Opened")
T = TypeVar("T")


class OwnThread(ABC, Generic[Opened]):
    """One such object from its opening to its stop. `start`, then `stop`, once each. Any thread may call
    it."""

    stopped_message: ClassVar[str]
    """The message of a call after the end."""
    lost_message: ClassVar[str]
    """The message of a call that the end has cut off."""
    own_call_message: ClassVar[str]
    """The message of a call that was made on the thread itself."""

    def __init__(self) -> None:
        self._loop = LoopThread(self._run, ended=self._stopped)
        self._stop = trio.Event()
        self._is_forked = False
        self._on_opened: Callable[[], None]
        self.opened: Opened | None = None
        """The object, once it is open."""
        self.error: Exception | None = None
        """The error that kept the object from opening, or stopped it."""

    @abstractmethod
    def _open(self) -> AbstractAsyncContextManager[Opened]:
        """Open the object, in the loop of the thread."""

    @property
    @abstractmethod
    def _exit_s(self) -> float:
        """The maximum time to wait for an orderly end."""

    @abstractmethod
    def _forked_error(self) -> QuorumForkedError: ...

    def start(self, *, opened: Callable[[], None], ended: Callable[[], None]) -> None:
        """Open the object. `opened` is called on its thread when it is open, or when that has failed with
        `error`. `ended` is called last. Raises `QuorumConfigError` where threads are patched."""
        self._on_opened = opened
        tell_forked(self)
        try:
            self._loop.start(on_end=ended, at_exit=self._exit)
        except PatchedThreadsError as error:
            raise QuorumConfigError(str(error)) from error

    def stop(self, *, in_order: bool) -> bool:
        """Stop, and return True if the caller has to wait for `ended`. False: it has stopped, this process is
        a fork, with nothing to stop, or the caller is the thread itself, where the garbage collector may
        close a forgotten block. `in_order`: end as at the end of a block. Otherwise it stops as after a
        crash."""
        if self._is_forked or self._loop.is_over:
            return False
        if in_order:
            self._loop.soon(self._stop.set)
        else:
            self._loop.cancel()
        return not self._loop.is_current

    def join(self) -> None:
        """Wait for the thread itself, which has nothing left to do after `ended`."""
        self._loop.join(timeout_s=self._exit_s)

    def run_soon(self, function: Callable[[Opened], T], done: Callable[[], None]) -> ShortCall[T]:
        """Begin a call that does not wait. `done` is called on the thread when its result is there."""
        call = ShortCall(lambda: function(self._checked()), done)
        self._loop.post(call)
        return call

    def await_soon(self, function: Callable[[Opened], Awaitable[T]], done: Callable[[], None]) -> TaskCall[T]:
        """Begin a call in a task of its own, as `run_soon`. `cancel` ends it."""
        call = TaskCall(lambda: function(self._checked()), done, lost=self._lost)
        self._loop.post(call)
        return call

    def cancel(self, call: TaskCall[T]) -> None:
        """Cancel a call whose caller waits no more."""
        self._loop.soon(call.cancel)

    def check_caller(self) -> None:
        """Raise the error of a call that would wait for ever: `QuorumForkedError`, and `QuorumThreadError` on
        the thread itself."""
        if self._is_forked:
            raise self._forked_error()
        if self._loop.is_current:
            raise QuorumThreadError(self.own_call_message)

    def forked(self) -> None:
        """Mark this object as a copy in a forked process."""
        self._is_forked = True

    async def _run(self) -> None:
        try:
            async with self._open() as self.opened:
                self._on_opened()
                await self._stop.wait()
        except Exception as error:
            self.error = error
        finally:
            if self.opened is None:
                self._on_opened()

    def _exit(self) -> None:
        if self.stop(in_order=True):
            self.join()

    def _checked(self) -> Opened:
        if self.opened is None:
            raise self._stopped()
        return self.opened

    def _stopped(self) -> QuorumStoppedError:
        error = QuorumStoppedError(self.stopped_message)
        error.__cause__ = self.error.__cause__ if self.error is not None else None
        return error

    def _lost(self) -> OutcomeUnknownError:
        return OutcomeUnknownError(self.lost_message)
