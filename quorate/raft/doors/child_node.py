"""The parent's side of a node in a child process: its calls, its errors, its end."""

import pickle
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from typing import ClassVar, Final

import trio

from quorate.raft.doors.child_messages import (
    Answer,
    Call,
    Cancel,
    Ended,
    Messages,
    Opened,
    Start,
    Stop,
    load_error,
    main_module,
)
from quorate.raft.doors.own_thread import OwnThread
from quorate.raft.knowledge import forked_error
from quorate.raft.quorum_config import QuorumConfig
from quorate.raft.quorum_errors import (
    InvalidArgumentError,
    OutcomeUnknownError,
    QuorumConfigError,
    QuorumForkedError,
    QuorumStoppedError,
)
from quorate.runtime.real import ChildProcess

_PROGRAM: Final = "quorate.raft.doors.child_main"
_EXIT_S: Final = 15.0
"""The maximum time to wait for the thread, beside the time limits of the quorum itself."""
_QUESTIONS: Final = ("wait_", "ask_", "read", "describe", "endpoint_of", "snapshots", "serve_reads")
"""The beginnings of the names of calls that change nothing in the quorum."""

_is_child = False


def note_child() -> None:
    """Note that this process is the one of a node. Its program's `__main__` must not open a node again."""
    global _is_child
    _is_child = True


class _Waiting:
    """A call that has no answer yet."""

    __slots__ = ("answered", "error", "name", "value")

    def __init__(self, name: str) -> None:
        self.name = name
        self.answered = trio.Event()
        self.value: bytes | None = None
        self.error: BaseException | None = None


class ChildNode:
    """A node in a child process, once it is open."""

    def __init__(self, process: ChildProcess) -> None:
        self._process = process
        self._messages = Messages(process.stream)
        self._numbers = count()
        self._waiting: dict[int, _Waiting] = {}
        self._opened = trio.Event()
        self._ended = trio.Event()
        self._is_stopping = False
        self._error: BaseException | None = None
        """The error that kept the node from opening, or stopped it."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls, config: QuorumConfig, factory: Callable[[], object]
    ) -> AsyncGenerator["ChildNode", None]:
        """Open the node in a child process, and stop it in order at the end of the block. A cancelled block
        kills the process. Raises as `Quorum.open`. If the process ends, or the node stops, the block is
        cancelled, and raises `QuorumStoppedError`."""
        if _is_child:
            raise QuorumConfigError(
                "the program opens a node when its main module is imported, which the process of the node "
                'does; open it below: if __name__ == "__main__"'
            )
        start = Start(main_module(), config, _pickled("the state machine's factory", factory))
        process = await ChildProcess.start(_PROGRAM)
        node = cls(process)
        node._messages.send(start)
        raised: Exception | None = None
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(node._messages.run_sender)
                nursery.start_soon(node._receive, nursery.cancel_scope)
                try:
                    await node._opened.wait()
                    yield node
                    node._is_stopping = True
                    node._messages.send(Stop())
                    await node._ended.wait()
                except Exception as error:
                    # Kept out of the nursery, which would wrap it.
                    raised = error
                nursery.cancel_scope.cancel()
        finally:
            await process.kill()
        if node._error is not None:
            raise node._error
        if raised is not None:
            raise raised

    async def call(self, name: str, arguments: tuple[object, ...], named: Mapping[str, object]) -> object:
        """Call a method of the quorum in the child. Raises its errors, and `InvalidArgumentError` for an
        argument that can't be pickled."""
        waiting = _Waiting(name)
        call = Call(next(self._numbers), name, _pickled(f"an argument of {name}", (arguments, dict(named))))
        self._waiting[call.number] = waiting
        self._messages.send(call)
        try:
            await waiting.answered.wait()
        except trio.Cancelled:
            self._messages.send(Cancel(call.number))
            raise
        finally:
            del self._waiting[call.number]
        if waiting.error is not None:
            raise waiting.error
        try:
            return None if waiting.value is None else pickle.loads(waiting.value)
        except Exception as error:
            raise OutcomeUnknownError(
                f"{name} is done, but its result can't be unpickled here ({error}); return plain values, or "
                "objects of classes that this process can import"
            ) from error

    async def _receive(self, block: trio.CancelScope) -> None:
        while True:
            match await self._messages.receive():
                case Opened():
                    self._opened.set()
                case Answer(number, value, error):
                    waiting = self._waiting.get(number)
                    if waiting is not None:
                        waiting.value = value
                        waiting.error = None if error is None else load_error(error)
                        waiting.answered.set()
                case Ended(error):
                    self._error = None if error is None else load_error(error)
                    break
                case _:
                    how = await self._process.end()
                    self._error = QuorumStoppedError(f"the process {self._process.pid} of the node {how}")
                    break
        for waiting in self._waiting.values():
            if not waiting.answered.is_set():
                waiting.error = self._unanswered(waiting.name)
                waiting.answered.set()
        self._ended.set()
        if not self._is_stopping or self._error is not None:
            block.cancel()

    def _unanswered(self, name: str) -> Exception:
        message = str(self._error or "the quorum on this node has stopped")
        if name.startswith(_QUESTIONS):
            return QuorumStoppedError(message)
        return OutcomeUnknownError(f"{message} during {name}, which may have happened")


def _pickled(what: str, value: object) -> bytes:
    try:
        return pickle.dumps(value)
    except Exception as error:
        raise InvalidArgumentError(
            f"{what} can't be pickled for the node's process ({error}); pass functions and classes of the "
            "top of a module, or functools.partial and operator.methodcaller of them"
        ) from error


class ChildThread(OwnThread[ChildNode]):
    """The thread that talks to a node in a child process."""

    stopped_message: ClassVar[str] = "the quorum on this node has stopped"
    lost_message: ClassVar[str] = "the quorum on this node stopped during the call"
    own_call_message: ClassVar[str] = (
        "this call was made on the thread that talks to the node, and would wait for itself; make it on "
        "another thread"
    )

    def __init__(self, config: QuorumConfig, factory: Callable[[], object]) -> None:
        super().__init__()
        self._config = config
        self._factory = factory

    def _open(self) -> AbstractAsyncContextManager[ChildNode]:
        return ChildNode.open(self._config, self._factory)

    @property
    def _exit_s(self) -> float:
        return _EXIT_S + (self._config.drain_timeout_ms + self._config.core.election_timeout_ms) / 1000

    def _stopped(self) -> QuorumStoppedError:
        if isinstance(self.error, QuorumStoppedError):
            error = QuorumStoppedError(str(self.error))
            error.__cause__ = self.error.__cause__
            return error
        return super()._stopped()

    def _forked_error(self) -> QuorumForkedError:
        return forked_error()
