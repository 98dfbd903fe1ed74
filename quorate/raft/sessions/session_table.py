"""The replicated table of sessions: which appends were applied, and how they were answered.

All of it follows from the log, so it is equal on every replica that applied the same records.
"""

import enum
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field
from typing import Final, NamedTuple

from quorate.cbor import SchemaError, dump, load
from quorate.raft.sessions.session_records import (
    RESULTS_MAX_BYTES,
    SessionAppend,
    SessionId,
    SessionLimits,
)
from quorate.runtime import Steps
from quorate.types import Epoch, Offset

_KEPT_OVERHEAD_BYTES: Final = 100
"""The size of a kept answer beside its results."""
_CHUNK_BYTES: Final = 256 * 1024
_CHUNK_MAX_BYTES: Final = 16 * 1024 * 1024
_CHUNK_MAGIC: Final = b"\x00quorate.sessions\x01"
_LAST, _MORE = b"\x00", b"\x01"
_GAPS_OF_IDLE: Final = 10
REFUSED_MAX: Final = 10_000
"""The number of refused appends that the table remembers. It is a part of the state, so equal everywhere."""


class Verdict(enum.Enum):
    """The decision on an append of a session, the same on every replica."""

    APPLIED = "applied"
    """Either now, or before, when this record repeats an append."""
    FORGOTTEN = "forgotten"
    """Not applied now: the client said before that it needs no answer of this sequence number any more."""
    AHEAD = "ahead"
    """Not applied: more appends than the window has wait for their answers."""
    LOST = "lost"
    """Not applied: the session does not exist, or no longer."""


class KeptAnswer(NamedTuple):
    """The answer to an append that was applied."""

    base_offset: Offset
    """The offset of the first of the client's records, where they were applied."""
    epoch: Epoch
    results: bytes | None
    """The results of `apply`, a CBOR array. None: they are too large, or are not plain values."""


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """The result of a command that opened a session."""

    limits: SessionLimits
    """The limits in effect."""


@dataclass(frozen=True, slots=True)
class SessionAnswer:
    """The result of every other command of a session."""

    verdict: Verdict
    kept: KeptAnswer | None = None
    """The answer of an applied append."""


def encode_results(results: Sequence[object]) -> bytes | None:
    """Return the results as `KeptAnswer.results`."""
    try:
        encoded = dump(list(results))
        load(encoded, max_bytes=RESULTS_MAX_BYTES)
    except Exception:  # whatever an object raises that is asked for its value
        return None
    return encoded


def decode_results(encoded: bytes) -> tuple[object, ...]:
    results = load(encoded, max_bytes=RESULTS_MAX_BYTES)
    if not isinstance(results, list):
        raise SchemaError(f"results must be a list, not {type(results).__name__}")
    return tuple(results)


@dataclass(slots=True)
class _Session:
    window: int
    """That of the limits at its opening, which its client goes by."""
    active_ms: int
    """The table's clock when it was last used."""
    floor: int = 0
    """The client waits for no answer below this sequence number."""
    kept: dict[int, KeptAnswer] = field(default_factory=dict)
    """The answers by sequence number, at or above `floor`."""


class SessionTable:
    """All sessions, the least recently used one first."""

    __slots__ = (
        "_clock_ms",
        "_kept_bytes",
        "_last_timestamp_ms",
        "_limits",
        "_refused",
        "_sessions",
        "refused_since",
    )

    def __init__(self) -> None:
        self._sessions: dict[SessionId, _Session] = {}
        self._limits = SessionLimits()
        self._kept_bytes = 0
        self._clock_ms = 0
        self._last_timestamp_ms: int | None = None
        self._refused: dict[Offset, Offset] = {}
        """The offsets of the commands of refused appends, in ascending order, with the ends of their
        records."""
        self.refused_since = Offset(0)
        """The offset from which `was_refused` knows every refused append."""

    def __len__(self) -> int:
        return len(self._sessions)

    def pass_time(self, timestamp_ms: int) -> None:
        """Advance the clock of the sessions to the timestamp of the next batch, and end those that were idle
        for too long."""
        last, self._last_timestamp_ms = self._last_timestamp_ms, timestamp_ms
        if last is not None and timestamp_ms > last:
            self._clock_ms += min(timestamp_ms - last, self._limits.idle_ms // _GAPS_OF_IDLE)
        while self._sessions:
            oldest = next(iter(self._sessions))
            if self._clock_ms - self._sessions[oldest].active_ms <= self._limits.idle_ms:
                return
            self.close(oldest)

    def open(self, session: SessionId, limits: SessionLimits | None) -> SessionOpened:
        self._limits = limits or self._limits
        self._sessions[session] = _Session(self._limits.window, self._clock_ms)
        self._evict()
        return SessionOpened(self._limits)

    def close(self, session: SessionId) -> None:
        closed = self._sessions.pop(session, None)
        if closed is not None:
            self._kept_bytes -= sum(map(_size_of, closed.kept.values()))

    def judge(self, append: SessionAppend) -> SessionAnswer | None:
        """Return the answer to an append that must not be applied. None: apply it, and `keep` its answer."""
        session = self._sessions.pop(append.session, None)
        if session is None:
            return SessionAnswer(Verdict.LOST)
        self._sessions[append.session] = session  # the most recently used one
        session.active_ms = self._clock_ms
        self._raise_floor(session, append.first_open)
        kept = session.kept.get(append.sequence)
        if kept is not None:
            return SessionAnswer(Verdict.APPLIED, kept)
        if append.sequence < session.floor:
            return SessionAnswer(Verdict.FORGOTTEN)
        if append.sequence >= session.floor + session.window:
            return SessionAnswer(Verdict.AHEAD)
        return None

    def keep(self, append: SessionAppend, kept: KeptAnswer) -> SessionAnswer:
        """Keep the answer to an append that was applied, and return it."""
        self._sessions[append.session].kept[append.sequence] = kept
        self._kept_bytes += _size_of(kept)
        self._evict()
        return SessionAnswer(Verdict.APPLIED, kept)

    def refuse(self, offset: Offset, end_offset: Offset) -> None:
        """Remember that the append from its command at `offset` to `end_offset` was not applied. The oldest
        is forgotten if there are too many."""
        self._refused[offset] = end_offset
        if len(self._refused) > REFUSED_MAX:
            self.refused_since = self._refused.pop(next(iter(self._refused)))

    def was_refused(self, offset: Offset) -> bool:
        """Return whether the append whose command is at this offset was refused. Ask from `refused_since`
        on."""
        return offset in self._refused

    def _raise_floor(self, session: _Session, floor: int) -> None:
        if floor <= session.floor:
            return
        session.floor = floor
        for sequence in [each for each in session.kept if each < floor]:
            self._kept_bytes -= _size_of(session.kept.pop(sequence))

    def _evict(self) -> None:
        """End the least recently used sessions while there is too much, except the one in use."""
        limits = self._limits
        while len(self._sessions) > 1 and (
            len(self._sessions) > limits.sessions_max or self._kept_bytes > limits.kept_max_bytes
        ):
            self.close(next(iter(self._sessions)))

    def freeze(self) -> Steps[Iterator[bytes]]:
        """Return the table as it is now, as chunks of a snapshot. It must stand still until the last step."""
        rows: list[_Row] = []
        for each, session in self._sessions.items():
            rows.append((each, session.window, session.active_ms, session.floor, list(session.kept.items())))
            yield
        head: list[object] = [
            self._clock_ms,
            self._last_timestamp_ms,
            list(astuple(self._limits)),
            self.refused_since,
            list(map(list, self._refused.items())),
        ]
        return _encode_chunks(head, rows)


_Row = tuple[SessionId, int, int, int, list[tuple[int, KeptAnswer]]]


def _encode_chunks(head: list[object], rows: list[_Row]) -> Iterator[bytes]:
    chunk: list[object] = []
    size = 0
    for session, window, active_ms, floor, kept in rows:
        chunk.append([session, window, active_ms, floor, [[sequence, *answer] for sequence, answer in kept]])
        size += sum(_size_of(answer) for _, answer in kept) + _KEPT_OVERHEAD_BYTES
        if size >= _CHUNK_BYTES:
            yield _CHUNK_MAGIC + _MORE + dump(chunk)
            chunk, size = [], 0
    yield _CHUNK_MAGIC + _MORE + dump(chunk)
    yield _CHUNK_MAGIC + _LAST + dump(head)


class SessionTableLoader:
    """A table from a snapshot's chunks. A snapshot of a state machine that had no sessions has none of
    them."""

    def __init__(self) -> None:
        self.table = SessionTable()
        self._is_whole = False
        self._is_begun = False

    def add(self, chunk: bytes) -> bool:
        """Take a chunk, and return True if it was one of the table's. Raises `SchemaError`."""
        if self._is_whole or not chunk.startswith(_CHUNK_MAGIC):
            if self._is_begun and not self._is_whole:
                raise SchemaError("the snapshot's table of sessions has no end")
            self._is_whole = True
            return False
        self._is_begun = True
        start = len(_CHUNK_MAGIC) + 1
        content = load(chunk[start:], max_bytes=_CHUNK_MAX_BYTES)
        if chunk[start - 1 : start] == _MORE:
            self._add_rows(content)
        else:
            self._add_head(content)
            self._is_whole = True
        return True

    def _add_rows(self, content: object) -> None:
        if not isinstance(content, list):
            raise _unreadable(content)
        for row in content:
            match row:
                case [int(session), int(window), int(active_ms), int(floor), list(kept)]:
                    answers = dict(map(_decode_kept, kept))
                    self.table._sessions[SessionId(session)] = _Session(window, active_ms, floor, answers)
                    self.table._kept_bytes += sum(map(_size_of, answers.values()))
                case _:
                    raise _unreadable(row)

    def _add_head(self, content: object) -> None:
        match content:
            case [
                int(clock_ms),
                int() | None as last,
                [int(count), int(size), int(window), int(idle_ms)],
                int(refused_since),
                list(refused),
            ]:
                table = self.table
                table._clock_ms, table._last_timestamp_ms = clock_ms, last
                table._limits = SessionLimits(
                    sessions_max=count, kept_max_bytes=size, window=window, idle_ms=idle_ms
                )
                table.refused_since = Offset(refused_since)
                table._refused = dict(map(_decode_refused, refused))
            case _:
                raise _unreadable(content)


def _decode_kept(row: object) -> tuple[int, KeptAnswer]:
    match row:
        case [int(sequence), int(base_offset), int(epoch), bytes() | None as results]:
            return sequence, KeptAnswer(Offset(base_offset), Epoch(epoch), results)
        case _:
            raise _unreadable(row)


def _decode_refused(row: object) -> tuple[Offset, Offset]:
    match row:
        case [int(offset), int(end_offset)]:
            return Offset(offset), Offset(end_offset)
        case _:
            raise _unreadable(row)


def _unreadable(content: object) -> SchemaError:
    return SchemaError(f"a snapshot's table of sessions does not have {content!r:.80}")


def _size_of(kept: KeptAnswer) -> int:
    return _KEPT_OVERHEAD_BYTES + len(kept.results or b"")
