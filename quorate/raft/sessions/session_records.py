"""The commands of sessions, as records of the log.

An append of a session is a command and the client's records behind it, in one batch. The records stay as
they are, for tools that read the log.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NewType

from quorate.raft.quorum_errors import InvalidArgumentError
from quorate.types import Offset

SessionId = NewType("SessionId", int)
"""The offset of the record that opened the session. So no id is used again."""

_MAGIC: Final = b"\x00quorate.session\x01"
_OPEN = struct.Struct(">cqqqq")
_CLOSE = struct.Struct(">cq")
_APPEND = struct.Struct(">cqqqI")
_KIND_OPEN: Final = b"\x00"
_KIND_CLOSE: Final = b"\x01"
_KIND_APPEND: Final = b"\x02"

RESULTS_MAX_BYTES: Final = 16 * 1024
"""The size of an append's results above which they are not kept for a repetition."""
_RANGES: Final = {
    "sessions_max": (1, 1_000_000),
    "kept_max_bytes": (64 * 1024, 4 * 1024**3),
    # The answers of one session fit a chunk of a snapshot.
    "window": (1, 256),
    "idle_ms": (1000, 366 * 24 * 60 * 60 * 1000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """The bounds on sessions. They are replicated: those that the last opening of a session named hold, for
    all sessions and on all nodes."""

    sessions_max: int = 10_000
    """The number of sessions above which the least recently used one is lost."""
    kept_max_bytes: int = 64 * 1024 * 1024
    """The size of all kept answers above which the least recently used sessions are lost."""
    window: int = 64
    """The number of appends of a session that may wait for their answers at once. A session keeps the window
    that it was opened with."""
    idle_ms: int = 60 * 60 * 1000
    """The time without an append after which a session is lost. It passes by the timestamps of the log's
    batches. Two batches are at most a tenth of it apart, so neither a clock that jumps nor a time without a
    leader ends a session."""

    def __post_init__(self) -> None:
        """Raises `InvalidArgumentError`."""
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise InvalidArgumentError(f"{name} is {value}; it must be {low} to {high}")


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Opens a session, whose id is the offset of this record."""

    limits: SessionLimits | None = None
    """The limits of all sessions from now on. None: they stay as they are."""


@dataclass(frozen=True, slots=True)
class CloseSession:
    """Closes a session. Its answers are dropped."""

    session: SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionAppend:
    """An append of the `count` records behind this one."""

    session: SessionId
    sequence: int
    first_open: int
    """The least sequence number whose answer the client still waits for. It repeats no append below."""
    count: int


Command = OpenSession | CloseSession | SessionAppend


def encode_command(command: Command) -> bytes:
    return _MAGIC + _encode_body(command)


def _encode_body(command: Command) -> bytes:
    match command:
        case OpenSession():
            limits = command.limits
            if limits is None:
                return _KIND_OPEN
            return _OPEN.pack(
                _KIND_OPEN, limits.sessions_max, limits.kept_max_bytes, limits.window, limits.idle_ms
            )
        case CloseSession():
            return _CLOSE.pack(_KIND_CLOSE, command.session)
        case SessionAppend():
            return _APPEND.pack(
                _KIND_APPEND, command.session, command.sequence, command.first_open, command.count
            )


def looks_like_command(record: bytes) -> bool:
    """Return whether the record begins as a command does."""
    return record.startswith(_MAGIC)


@dataclass(frozen=True, slots=True)
class Part:
    """A command with its records, or records without one: `records[start:end]` of a batch or an append."""

    command: Command | None
    start: Offset
    """The place of the first of the client's records, behind the command."""
    end: Offset


def split_parts(records: Sequence[bytes]) -> Iterator[Part]:
    """Yield the parts of a batch or of an append, in order. A record that looks like a command and is none
    is a client's record."""
    position, plain_start, count = 0, 0, len(records)
    while position < count:
        command = _command_at(records, position)
        if command is None:
            position += 1
            continue
        if plain_start < position:
            yield Part(None, Offset(plain_start), Offset(position))
        start = position + 1
        position = start + (command.count if isinstance(command, SessionAppend) else 0)
        yield Part(command, Offset(start), Offset(position))
        plain_start = position
    if plain_start < count:
        yield Part(None, Offset(plain_start), Offset(count))


def _command_at(records: Sequence[bytes], position: int) -> Command | None:
    record = records[position]
    if not looks_like_command(record):
        return None
    command = _decode_command(record[len(_MAGIC) :])
    if isinstance(command, SessionAppend) and not 0 < command.count < len(records) - position:
        return None
    return command


def _decode_command(body: bytes) -> Command | None:
    """None: it is no command of this version."""
    kind, size = body[:1], len(body)
    if body == _KIND_OPEN:
        return OpenSession()
    if kind == _KIND_OPEN and size == _OPEN.size:
        _, sessions_max, kept_max_bytes, window, idle_ms = _OPEN.unpack(body)
        try:
            limits = SessionLimits(
                sessions_max=sessions_max, kept_max_bytes=kept_max_bytes, window=window, idle_ms=idle_ms
            )
        except InvalidArgumentError:
            return None
        return OpenSession(limits)
    if kind == _KIND_CLOSE and size == _CLOSE.size:
        return CloseSession(SessionId(_CLOSE.unpack(body)[1]))
    if kind == _KIND_APPEND and size == _APPEND.size:
        _, session, sequence, first_open, count = _APPEND.unpack(body)
        if 0 <= first_open <= sequence:
            return SessionAppend(
                session=SessionId(session), sequence=sequence, first_open=first_open, count=count
            )
    return None
