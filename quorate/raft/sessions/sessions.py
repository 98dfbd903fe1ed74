"""A state machine with sessions around the user's own.

The applier, and who uses no sessions, know nothing of this layer: it is a `StateMachine` over another one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from quorate.raft.quorum_errors import InvalidAppendError
from quorate.raft.sessions.session_records import (
    CloseSession,
    OpenSession,
    Part,
    SessionAppend,
    SessionId,
    looks_like_command,
    split_parts,
)
from quorate.raft.sessions.session_table import (
    KeptAnswer,
    SessionAnswer,
    SessionOpened,
    SessionTable,
    SessionTableLoader,
    Verdict,
    encode_results,
)
from quorate.raft.state_machine.code_versions import code_version_of
from quorate.raft.state_machine.interface import (
    CommittedBatch,
    PlainStateMachine,
    SnapshotLoader,
    StateMachine,
)
from quorate.raft.state_machine.plain import Freezing, form_of, with_snapshots
from quorate.raft.state_machine.record_check import record_check
from quorate.runtime import Steps, at_once
from quorate.types import Offset, SnapshotId

Result = TypeVar("Result")
SessionResult = SessionAnswer | SessionOpened
"""The result of a command of a session."""


class Sessions(Freezing, Generic[Result]):
    """A state machine that applies each append of a `Session` once, however often it is repeated (Raft thesis
    6.3).

    It passes all records to `state_machine`, except repeated ones, and keeps the answers of each session as
    replicated state. Appends outside of sessions pass as they are. A log and snapshots of `state_machine`
    alone can be continued, but every node needs `Sessions` before the first session is opened, and from then
    on.

    Raises `QuorumConfigError` if `state_machine` lacks a method, or has a field that can't be in a snapshot.
    """

    __slots__ = ("_check", "_needed_version", "_state_machine", "_table", "code_version")

    def __init__(self, state_machine: StateMachine[Result] | PlainStateMachine[Result]) -> None:
        self._state_machine = with_snapshots(state_machine)
        self._check = record_check(self._state_machine)
        self.code_version = code_version_of(self._state_machine)
        self._needed_version: Callable[[bytes], int] | None = getattr(
            self._state_machine, "needed_version", None
        )
        self._table = SessionTable()

    @property
    def open_sessions(self) -> int:
        """The number of sessions that are open, as far as this node has applied the log."""
        return len(self._table)

    def check(self, records: Sequence[bytes]) -> None:
        """Refuse an append with a damaged command of a session, and records that the state machine's own
        `check` refuses. Raises `InvalidAppendError`."""
        for part in split_parts(records):
            own = records[part.start : part.end]
            if part.command is None and any(map(looks_like_command, own)):
                raise InvalidAppendError(
                    "a record begins as a command of a session, but is not one of this version, or names "
                    "more records than the append has; append with a Session"
                )
            if self._check is not None and own:
                self._check(own)

    def needed_version(self, record: bytes) -> int:
        """Return what the state machine's own `needed_version` returns. A command of a session needs none."""
        if self._needed_version is None or looks_like_command(record):
            return 0
        return self._needed_version(record)

    def apply(self, batch: CommittedBatch) -> Sequence[Result | SessionResult | None]:
        """Apply the records of a batch, except repeated ones. The result of a session's command is a
        `SessionAnswer` or a `SessionOpened`. Records that were not applied have the result None."""
        self._table.pass_time(batch.timestamp_ms)
        if not any(map(looks_like_command, batch.records)):
            return self._state_machine.apply(batch)
        results: list[Result | SessionResult | None] = []
        for part in split_parts(batch.records):
            results += self._apply_part(batch, part)
        return results

    def _apply_part(self, batch: CommittedBatch, part: Part) -> Sequence[Result | SessionResult | None]:
        table, command = self._table, part.command
        match command:
            case None:
                return self._apply_records(batch, part)
            case OpenSession(limits):
                return [table.open(SessionId(_command_offset(batch, part)), limits)]
            case CloseSession(session):
                table.close(session)
            case SessionAppend():
                return self._apply_once(batch, part, command)
        return [SessionAnswer(Verdict.APPLIED)]

    def _apply_once(
        self, batch: CommittedBatch, part: Part, append: SessionAppend
    ) -> Sequence[Result | SessionResult | None]:
        answer = self._table.judge(append)
        if answer is not None:
            self._table.refuse(_command_offset(batch, part), Offset(batch.base_offset + part.end))
            return [answer, *[None] * append.count]
        results = self._apply_records(batch, part)
        kept = KeptAnswer(Offset(batch.base_offset + part.start), batch.epoch, encode_results(results))
        return [self._table.keep(append, kept), *results]

    def _apply_records(self, batch: CommittedBatch, part: Part) -> Sequence[Result]:
        records = batch.records[part.start : part.end]
        results = self._state_machine.apply(
            replace(batch, base_offset=Offset(batch.base_offset + part.start), records=records)
        )
        # Of several parts, too many of one could make up for too few of another.
        if len(results) != len(records):
            raise ValueError(
                f"{len(results)} results for {len(records)} records; return one result per record"
            )
        return results

    @property
    def form(self) -> str:
        """The form of its snapshots, for digests of states."""
        return f"sessions, {form_of(self._state_machine)}"

    @property
    def applied_since(self) -> Offset:
        """The offset from which `applied_records` knows which records were applied."""
        return self._table.refused_since

    def applied_records(self, batch: CommittedBatch) -> list[tuple[Offset, bytes]]:
        """Return the records of a batch that `state_machine` has applied, with their offsets: without the
        commands of sessions and the appends that were repeated. The batch must be below what this node has
        applied, and above `applied_since`."""
        if not any(map(looks_like_command, batch.records)):
            return list(_offsets_of(batch, 0, len(batch.records)))
        records: list[tuple[Offset, bytes]] = []
        for part in split_parts(batch.records):
            if part.command is None or not self._table.was_refused(_command_offset(batch, part)):
                records += _offsets_of(batch, part.start, part.end)
        return records

    def take_snapshot(self) -> Iterator[bytes]:
        """Return the chunks of the sessions, then those of the state machine."""
        return at_once(self.freeze())

    def freeze(self) -> Steps[Iterator[bytes]]:
        machine = self._state_machine
        own = yield from self._table.freeze()
        theirs = (yield from machine.freeze()) if isinstance(machine, Freezing) else machine.take_snapshot()
        return _ChunksInTurn(own, theirs)

    def load_snapshot(self, snapshot: SnapshotId) -> "SnapshotLoader":
        """Return a loader for a snapshot with sessions or without."""
        return _Loader(self, self._state_machine.load_snapshot(snapshot))

    def _replace_table(self, table: SessionTable) -> None:
        self._table = table


def _offsets_of(batch: CommittedBatch, start: int, end: int) -> Iterator[tuple[Offset, bytes]]:
    """Yield `records[start:end]` of a batch with their offsets."""
    for position in range(start, end):
        yield Offset(batch.base_offset + position), batch.records[position]


def _command_offset(batch: CommittedBatch, part: Part) -> Offset:
    """Return the offset of the command of a part that has one."""
    return Offset(batch.base_offset + part.start - 1)


class _ChunksInTurn(Iterator[bytes]):
    """The chunks of one iterator, then those of another, which is closed with this one."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: Iterator[bytes], second: Iterator[bytes]) -> None:
        self._first = first
        self._second = second

    def __next__(self) -> bytes:
        chunk = next(self._first, None)
        return next(self._second) if chunk is None else chunk

    def close(self) -> None:
        close = getattr(self._second, "close", None)
        if close is not None:
            close()


class _Loader(Generic[Result]):
    __slots__ = ("_sessions", "_table", "_theirs")

    def __init__(self, sessions: Sessions[Result], theirs: SnapshotLoader) -> None:
        self._sessions = sessions
        self._table = SessionTableLoader()
        self._theirs = theirs

    def add(self, chunk: bytes) -> None:
        if not self._table.add(chunk):
            self._theirs.add(chunk)

    def install(self) -> None:
        self._theirs.install()
        self._sessions._replace_table(self._table.table)
