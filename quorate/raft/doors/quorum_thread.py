"""A quorum on a thread of its own, with its own trio loop, for `quorate.aio` and `quorate.blocking`."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import ClassVar, Final, TypeVar

from quorate.raft.arguments import check_duration
from quorate.raft.doors.append_call import AppendCall
from quorate.raft.doors.own_thread import OwnThread
from quorate.raft.knowledge import forked_error
from quorate.raft.quorum import Quorum
from quorate.raft.quorum_config import QuorumConfig
from quorate.raft.quorum_errors import QuorumForkedError
from quorate.raft.state_machine.interface import PlainStateMachine, StateMachine
from quorate.raft.telemetry import Telemetry
from quorate.runtime import Runtime

Outcome = TypeVar("Outcome")

_EXIT_S: Final = 10.0
"""The maximum time to wait for the thread, beside the time limits of the quorum itself."""


class QuorumThread(OwnThread[Quorum[Outcome]]):
    """One quorum from its opening to its stop."""

    stopped_message: ClassVar[str] = "the quorum on this node has stopped"
    lost_message: ClassVar[str] = "the quorum on this node stopped during the call"
    own_call_message: ClassVar[str] = (
        "this call was made on the thread that runs the quorum (in apply, check, a telemetry or a "
        "function given to the quorum), and would wait for itself; make it on another thread"
    )

    def __init__(
        self,
        config: QuorumConfig,
        state_machine: StateMachine[Outcome] | PlainStateMachine[Outcome],
        *,
        runtime: Runtime | None,
        telemetry: Telemetry | None,
    ) -> None:
        super().__init__()
        self._config = config
        self._state_machine = state_machine
        self._runtime = runtime
        self._telemetry = telemetry

    def append_soon(
        self, records: Sequence[bytes], done: Callable[[], None], *, timeout_ms: int
    ) -> AppendCall[Outcome]:
        """Begin an append, as `await_soon`. The caller must `expire` it when the time is up. Raises
        `InvalidArgumentError`."""
        check_duration("timeout_ms", timeout_ms)
        call = AppendCall(self._checked, records, done, timeout_ms=timeout_ms, lost=self._lost)
        self._loop.post(call)
        return call

    def expire(self, call: AppendCall[Outcome]) -> None:
        """End an append whose time is up."""
        self._loop.soon(call.expire)

    def _open(self) -> AbstractAsyncContextManager[Quorum[Outcome]]:
        return Quorum.open(
            self._config, self._state_machine, runtime=self._runtime, telemetry=self._telemetry
        )

    @property
    def _exit_s(self) -> float:
        return _EXIT_S + (self._config.drain_timeout_ms + self._config.core.election_timeout_ms) / 1000

    def _forked_error(self) -> QuorumForkedError:
        return forked_error()
