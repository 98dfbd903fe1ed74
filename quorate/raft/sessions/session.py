"""The client's side of a session: numbers its appends, and repeats each until its outcome is known."""

import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final, Generic, Protocol, TypeVar

import trio

from quorate.raft.arguments import check_duration, check_records
from quorate.raft.quorum_errors import (
    InvalidArgumentError,
    OutcomeUnknownError,
    QuorumBusyError,
    QuorumConfigError,
    QuorumError,
    SessionLostError,
    SessionWindowError,
)
from quorate.raft.sessions.session_records import (
    CloseSession,
    OpenSession,
    SessionAppend,
    SessionId,
    SessionLimits,
    encode_command,
)
from quorate.raft.sessions.session_table import SessionAnswer, SessionOpened, Verdict, decode_results
from quorate.raft.state_machine.interface import Appended

Outcome = TypeVar("Outcome")
T = TypeVar("T")

_RETRY_S: Final = 0.02
_CLOSE_S: Final = 1.0


class Appender(Protocol):
    """The way of a session's records into the log, such as a `Quorum` whose state machine is a
    `Sessions`."""

    async def append(self, records: Sequence[bytes], *, timeout_ms: int = 10_000) -> Appended[object]:
        """Do the same as `Quorum.append`, with the same errors."""
        ...


class Session(Generic[Outcome]):
    """A client's session, whose appends are applied once although it repeats them. Open it with
    `Session.open`. Its methods belong to the trio run that opened it."""

    __slots__ = ("_appender", "_limits", "_next_sequence", "_open", "_room", "id")

    def __init__(self, session: SessionId, appender: Appender, limits: SessionLimits) -> None:
        self._appender = appender
        self._limits = limits
        self._next_sequence = 0
        self._open: dict[int, None] = {}
        """The sequence numbers of the appends under way, in ascending order."""
        self._room = trio.Event()
        self.id = session
        """The offset of the record that opened the session."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls, appender: Appender, *, limits: SessionLimits | None = None, timeout_ms: int = 10_000
    ) -> AsyncGenerator["Session[Outcome]", None]:
        """Open a session, and close it at the end of the block if the quorum answers within 1 s. Otherwise it
        ends when it has been idle for `idle_ms`. `limits` hold for all sessions from now on. None: they stay
        as they are, `SessionLimits()` at first.

        Raises as `Quorum.append`. A session that was opened without an answer has no effect, and ends the
        same way. Raises `QuorumConfigError` if the quorum's state machine is not a `Sessions`.
        """
        session: Session[Outcome] = await cls.begin(appender, limits=limits, timeout_ms=timeout_ms)
        try:
            yield session
        finally:
            await session.close()

    @classmethod
    async def begin(
        cls, appender: Appender, *, limits: SessionLimits | None = None, timeout_ms: int = 10_000
    ) -> "Session[Outcome]":
        """Open a session as `open`, to `close` it later."""
        check_duration("timeout_ms", timeout_ms)
        deadline = trio.current_time() + timeout_ms / 1000
        opened, _ = await _repeat(appender, [encode_command(OpenSession(limits))], deadline=deadline)
        limits = _result_of(opened, SessionOpened).limits
        return cls(SessionId(opened.base_offset), appender, limits)

    async def close(self) -> None:
        """Close the session if the quorum answers within 1 s. It may be lost already."""
        with trio.move_on_after(_CLOSE_S):
            try:
                await self._appender.append([encode_command(CloseSession(self.id))])
            except QuorumError:
                return

    async def append(self, records: Sequence[bytes], *, timeout_ms: int = 10_000) -> Appended[Outcome]:
        """Append records as `Quorum.append`, and repeat it while its outcome is unknown. They are applied at
        most once. The answer to a repetition is that of the append that was applied. Its results are plain
        values (None, bool, int of 64 bits, float, str, bytes, list, dict), together of at most 16 KiB.

        At most `limits.window` appends are under way at once, and further ones wait. Raises as
        `Quorum.append`. `OutcomeUnknownError`: the timeout ended, or the session was lost, after an attempt
        whose outcome is unknown; or the append was applied but its results were not kept. `SessionLostError`:
        nothing happened, open another session. The outcome of a cancelled call is unknown, and it is not
        repeated later.
        """
        check_duration("timeout_ms", timeout_ms)
        check_records(records)
        if timeout_ms > self._limits.idle_ms:
            raise InvalidArgumentError(
                f"timeout_ms is {timeout_ms}, above the session's idle_ms of {self._limits.idle_ms}: the "
                "session could be forgotten while the append is repeated"
            )
        deadline = trio.current_time() + timeout_ms / 1000
        with trio.CancelScope(deadline=deadline) as waiting:
            while self._next_sequence - self._first_open >= self._limits.window:
                await self._room.wait()
        if waiting.cancelled_caught:
            raise QuorumBusyError(
                f"{len(self._open)} appends of this session, as many as its window, waited for their answers "
                f"for {timeout_ms} ms; append less at once, or raise window in its limits"
            )
        sequence = self._next_sequence
        self._next_sequence += 1
        self._open[sequence] = None
        try:
            return await self._append(sequence, records, deadline)
        finally:
            # Even if it may still be applied: no answer to it is waited for.
            del self._open[sequence]
            room, self._room = self._room, trio.Event()
            room.set()

    @property
    def _first_open(self) -> int:
        return next(iter(self._open), self._next_sequence)

    async def _append(self, sequence: int, records: Sequence[bytes], deadline: float) -> Appended[Outcome]:
        command = SessionAppend(
            session=self.id, sequence=sequence, first_open=self._first_open, count=len(records)
        )
        appended, is_repeated = await _repeat(
            self._appender, [encode_command(command), *records], deadline=deadline
        )
        answer = _result_of(appended, SessionAnswer)
        kept = answer.kept
        if kept is not None:
            is_first = kept.base_offset == appended.base_offset + 1
            results = appended.results[1:] if kept.results is None else decode_results(kept.results)
            if kept.results is None and not (is_first and results):
                raise OutcomeUnknownError(
                    f"the append was applied at offset {kept.base_offset}, but its results are not plain "
                    "values or too large, so they were not kept"
                )
            return Appended(kept.base_offset, kept.epoch, results)  # type: ignore[arg-type]
        problem = _PROBLEMS[answer.verdict].format(session=self.id, sequence=sequence)
        if is_repeated:
            raise OutcomeUnknownError(f"{problem}; an earlier attempt of this append may have been applied")
        if answer.verdict is Verdict.LOST:
            raise SessionLostError(problem)
        raise SessionWindowError(problem)


_PROBLEMS: Final = {
    Verdict.LOST: "the quorum does not know session {session}: it was closed, or idle for too long, or there "
    "were too many; open another",
    Verdict.FORGOTTEN: "append {sequence} of session {session} is below its window, and its answer is "
    "forgotten; no two clients may use one session",
    Verdict.AHEAD: "append {sequence} of session {session} is above its window; no two clients may use one "
    "session",
}


async def _repeat(
    appender: Appender, records: Sequence[bytes], *, deadline: float
) -> tuple[Appended[object], bool]:
    """Append, again while the outcome is unknown. Return the outcome, and whether it was repeated. Raises
    `OutcomeUnknownError` once an attempt may have happened."""
    in_doubt: OutcomeUnknownError | None = None
    while True:
        left_ms = max(0, math.ceil(1000 * (deadline - trio.current_time())))
        try:
            return await appender.append(records, timeout_ms=left_ms), in_doubt is not None
        except OutcomeUnknownError as error:
            in_doubt = error
            if trio.current_time() >= deadline:
                raise
        except QuorumError as error:
            if in_doubt is None:
                raise
            raise OutcomeUnknownError(f"{in_doubt}; the repetition failed: {error}") from error
        await trio.sleep(_RETRY_S)


def _result_of(appended: Appended[object], kind: type[T]) -> T:
    result = appended.results[0]
    if not isinstance(result, kind):
        raise QuorumConfigError(
            "the quorum did not answer as one with sessions; open it on every node with "
            "Sessions(state_machine) in place of the state machine"
        )
    return result
