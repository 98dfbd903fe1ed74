"""The messages between a program and its node in a child process: pickled, on a socket of these two.

Pickle runs what its sender names. Here both ends are the same program, as with `multiprocessing`.
"""

import multiprocessing.spawn
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Final

import trio

from quorate.raft.quorum_config import QuorumConfig
from quorate.raft.quorum_errors import QuorumError

_LENGTH_BYTES: Final = 8
_MAIN: Final = ("init_main_from_name", "init_main_from_path", "sys_argv")
"""What `multiprocessing` needs to know for that."""
_RECEIVE_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Start:
    """The first message: open the node. `main`: where the parent's `__main__` can be imported from."""

    main: Mapping[str, object]
    config: QuorumConfig
    factory: bytes
    """The pickled function that makes the state machine."""


@dataclass(frozen=True, slots=True)
class Call:
    """Call a method of the quorum. Each call has an answer."""

    number: int
    name: str
    arguments: bytes
    """The pickled positional and keyword arguments."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Nobody waits for the call any more."""

    number: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop in order."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The node is open."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a call, or its error by `dump_error`."""

    number: int
    value: bytes | None
    error: bytes | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """The last message: the node has stopped, or was not opened."""

    error: bytes | None


class Messages:
    """Messages both ways on one stream. `run_sender` must run."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._queued: list[bytes] = []
        """As many as there are calls whose callers wait for the answers."""
        self._woken = trio.Event()
        self._is_last = False
        self._received = bytearray()

    def send(self, message: object) -> None:
        """Queue a message. It goes to the other end whole, whoever is cancelled."""
        content = pickle.dumps(message)
        self._queued += (len(content).to_bytes(_LENGTH_BYTES, "big"), content)
        self._woken.set()

    def send_last(self, message: object) -> None:
        """Queue the message behind which `run_sender` returns."""
        self._is_last = True
        self.send(message)

    async def run_sender(self) -> None:
        """Send what is queued, what is there at once together. Return behind the last message, or when nobody
        receives any more."""
        while True:
            await self._woken.wait()
            self._woken = trio.Event()
            queued, self._queued = self._queued, []
            try:
                await self._stream.send_all(b"".join(queued))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return
            if self._is_last and not self._queued:
                return

    async def receive(self) -> object:
        """Return the next message. None: the other end is gone. A cancelled call loses nothing."""
        while (message := self._take()) is None:
            try:
                received = await self._stream.receive_some(_RECEIVE_BYTES)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return None
            if not received:
                return None
            self._received += received
        return message

    def _take(self) -> object:
        received = self._received
        if len(received) < _LENGTH_BYTES:
            return None
        end = _LENGTH_BYTES + int.from_bytes(received[:_LENGTH_BYTES], "big")
        if len(received) < end:
            return None
        content = bytes(received[_LENGTH_BYTES:end])
        del received[:end]
        return pickle.loads(content)


def main_module() -> dict[str, object]:
    """Return where another process can import this one's `__main__` from, and its arguments."""
    found = multiprocessing.spawn.get_preparation_data("quorate")
    return {key: found[key] for key in _MAIN if key in found}


class Loader:
    """Unpickles what the parent's program has made. Its `__main__` is imported when something of it is
    needed, as `multiprocessing` does it: under another name."""

    def __init__(self, main: Mapping[str, object]) -> None:
        self._main: Mapping[str, object] | None = main

    def load(self, pickled: bytes) -> object:
        return _Unpickler(BytesIO(pickled), self._import_main).load()

    def _import_main(self) -> None:
        if self._main is not None:
            multiprocessing.spawn.prepare(dict(self._main))
            self._main = None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: BytesIO, import_main: Callable[[], None]) -> None:
        super().__init__(file)
        self._import_main = import_main

    def find_class(self, module_name: str, global_name: str, /) -> object:
        if module_name == "__main__":
            self._import_main()
        return super().find_class(module_name, global_name)


def dump_error(error: BaseException) -> bytes:
    """Pickle an error with its fields and causes. One that can't be pickled becomes a `QuorumError`."""
    cause = None if error.__cause__ is None else dump_error(error.__cause__)
    try:
        return pickle.dumps((type(error), error.args, error.__dict__, cause))
    except Exception:
        return pickle.dumps((QuorumError, (f"{type(error).__name__}: {error}",), {}, cause))


def load_error(pickled: bytes) -> BaseException:
    """Return the error of `dump_error`, or a `QuorumError` if it can't be made in this process. Its
    `__init__`, which may want other arguments, is not called."""
    try:
        kind, arguments, fields, cause = pickle.loads(pickled)
        error: BaseException = kind.__new__(kind, *arguments)
    except Exception as unmade:
        return QuorumError(f"the error of the node's process can't be unpickled here ({unmade})")
    error.args = arguments
    error.__dict__.update(fields)
    error.__cause__ = None if cause is None else load_error(cause)
    return error
