"""A quorum on a thread of its own, with its own trio loop, for `quorate.aio` and `quorate.blocking`."""

from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

import trio

from quorate.raft.knowledge import forked_error
from quorate.raft.quorum import Quorum
from quorate.raft.quorum_config import QuorumConfig
from quorate.raft.quorum_errors import (
    OutcomeUnknownError,
    QuorumConfigError,
    QuorumStoppedError,
    QuorumThreadError,
)
from quorate.raft.state_machine.interface import PlainStateMachine, StateMachine
from quorate.raft.telemetry import Telemetry
from quorate.runtime import Runtime, tell_forked
from quorate.runtime.real import LoopThread, PatchedThreadsError, ShortCall, TaskCall

Outcome = TypeVar("Outcome")
T = TypeVar("T")

_EXIT_S: Final = 10.0
"""The maximum time to wait for the thread, beside the time limits of the quorum itself."""


class QuorumThread(Generic[Outcome]):
    """One quorum from its opening to its stop. `start`, then `stop`, once each. Any thread may call it."""

    def __init__(
        self,
        config: QuorumConfig,
        state_machine: StateMachine[Outcome] | PlainStateMachine[Outcome],
        *,
        runtime: Runtime | None,
        telemetry: Telemetry | None,
    ) -> None:
        self._config = config
        self._state_machine = state_machine
        self._runtime = runtime
        self._telemetry = telemetry
        self._loop = LoopThread(self._run, ended=self._stopped)
        self._stop = trio.Event()
        self._is_forked = False
        self._opened: Callable[[], None]
        self.quorum: Quorum[Outcome] | None = None
        """The quorum, once it is open."""
        self.error: Exception | None = None
        """The error that kept the quorum from opening, or stopped it."""

    def start(self, *, opened: Callable[[], None], ended: Callable[[], None]) -> None:
        """Open the quorum. `opened` is called on its thread when it is open, or when that has failed with
        `error`. `ended` is called last. Raises `QuorumConfigError` where threads are patched."""
        self._opened = opened
        tell_forked(self)
        try:
            self._loop.start(on_end=ended, at_exit=self._exit)
        except PatchedThreadsError as error:
            raise QuorumConfigError(str(error)) from error

    def stop(self, *, in_order: bool) -> bool:
        """Stop the quorum, and return True if the caller has to wait for `ended`. False: it has stopped, this
        process is a fork, with nothing to stop, or the caller is the quorum's own thread, where the garbage
        collector may close a forgotten block. `in_order`: let appends in progress finish, and resign.
        Otherwise it stops as after a crash."""
        if self._is_forked or self._loop.is_over:
            return False
        if in_order:
            self._loop.soon(self._stop.set)
        else:
            self._loop.cancel()
        return not self._loop.is_current

    def join(self) -> None:
        """Wait for the thread itself, which has nothing left to do after `ended`."""
        self._loop.join(timeout_s=_EXIT_S)

    def run_soon(self, function: Callable[[Quorum[Outcome]], T], done: Callable[[], None]) -> ShortCall[T]:
        """Begin a call that does not wait. `done` is called on the quorum's thread when its result is
        there."""
        call = ShortCall(lambda: function(self._checked()), done)
        self._loop.post(call)
        return call

    def await_soon(
        self, function: Callable[[Quorum[Outcome]], Awaitable[T]], done: Callable[[], None]
    ) -> TaskCall[T]:
        """Begin a call in a task of its own, as `run_soon`. `cancel` ends it."""
        call = TaskCall(lambda: function(self._checked()), done, lost=_lost)
        self._loop.post(call)
        return call

    def cancel(self, call: TaskCall[T]) -> None:
        """Cancel a call whose caller waits no more."""
        self._loop.soon(call.cancel)

    def check_caller(self) -> None:
        """Raise the error of a call that would wait for ever: `QuorumForkedError`, and `QuorumThreadError` on
        the quorum's own thread."""
        if self._is_forked:
            raise forked_error()
        if self._loop.is_current:
            raise QuorumThreadError(
                "this call was made on the thread that runs the quorum (in apply, check, a telemetry or a "
                "function given to the quorum), and would wait for itself; make it on another thread"
            )

    def forked(self) -> None:
        """Mark this object as a copy in a forked process."""
        self._is_forked = True

    async def _run(self) -> None:
        try:
            async with Quorum.open(
                self._config, self._state_machine, runtime=self._runtime, telemetry=self._telemetry
            ) as self.quorum:
                self._opened()
                await self._stop.wait()
        except Exception as error:
            self.error = error
        finally:
            if self.quorum is None:
                self._opened()

    def _exit(self) -> None:
        if self.stop(in_order=True):
            limits_ms = self._config.drain_timeout_ms + self._config.core.election_timeout_ms
            self._loop.join(timeout_s=_EXIT_S + limits_ms / 1000)

    def _checked(self) -> Quorum[Outcome]:
        if self.quorum is None:
            raise self._stopped()
        return self.quorum

    def _stopped(self) -> QuorumStoppedError:
        error = QuorumStoppedError("the quorum on this node has stopped")
        error.__cause__ = self.error.__cause__ if self.error is not None else None
        return error


def _lost() -> OutcomeUnknownError:
    return OutcomeUnknownError("the quorum on this node stopped during the call")
