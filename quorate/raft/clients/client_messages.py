"""The requests of clients: payloads of Application requests on the client listener, and their answers.

A request is a CBOR array: its kind, the time that its sender waits, and what it asks for.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from quorate.cbor import SchemaError, dump, load
from quorate.error_code import ErrorCode
from quorate.raft.quorum_errors import OffsetGoneError, PeerProtocolError, RequestRefusedError
from quorate.raft.sessions.session_records import SessionLimits
from quorate.raft.sessions.session_table import (
    KeptAnswer,
    SessionAnswer,
    SessionOpened,
    Verdict,
    decode_results,
    encode_results,
)
from quorate.raft.state_machine.interface import Appended
from quorate.types import Epoch, Offset

_KIND_APPEND: Final = 0
_KIND_READ: Final = 1
_KIND_WATCH: Final = 2
_DEPTH: Final = 3
_RUNS_DEPTH: Final = 5
_OPENED: Final = "opened"


@dataclass(frozen=True, slots=True)
class ClientAppend:
    """Append the records. The answer is that of `encode_appended`."""

    timeout_ms: int
    records: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class ClientRead:
    """Answer the query with bytes, linearizably."""

    timeout_ms: int
    query: bytes


@dataclass(frozen=True, slots=True)
class ClientWatch:
    """Send the records that are applied from `from_offset` on, as soon as there are any. None: send the
    offset from which on the next ones will be applied. The answer is by `encode_runs` or `encode_gone`."""

    timeout_ms: int
    from_offset: Offset | None


ClientRequest = ClientAppend | ClientRead | ClientWatch


class Watched(NamedTuple):
    """A record that the state machine has applied."""

    offset: Offset
    epoch: Epoch
    """The epoch of the leader that appended it."""
    timestamp_ms: int
    """The time of that leader's wall clock when it appended it."""
    record: bytes


class WatchedRun(NamedTuple):
    """Applied records of one batch, with their offsets, ascending."""

    epoch: Epoch
    timestamp_ms: int
    records: list[tuple[Offset, bytes]]


def encode_client_request(request: ClientRequest) -> bytes:
    match request:
        case ClientAppend():
            return dump([_KIND_APPEND, request.timeout_ms, list(request.records)])
        case ClientRead():
            return dump([_KIND_READ, request.timeout_ms, request.query])
        case ClientWatch():
            return dump([_KIND_WATCH, request.timeout_ms, request.from_offset])


def decode_client_request(payload: bytes) -> ClientRequest:
    """Raises `RequestRefusedError`."""
    try:
        match load(payload, max_bytes=len(payload), max_depth=_DEPTH):
            case [0, int(timeout_ms), list(values)] if timeout_ms >= 0:
                records = tuple(each for each in values if isinstance(each, bytes))
                if len(records) == len(values):
                    return ClientAppend(timeout_ms, records)
            case [1, int(timeout_ms), bytes(query)] if timeout_ms >= 0:
                return ClientRead(timeout_ms, query)
            case [2, int(timeout_ms), None] if timeout_ms >= 0:
                return ClientWatch(timeout_ms, None)
            case [2, int(timeout_ms), int(from_offset)] if timeout_ms >= 0 and from_offset >= 0:
                return ClientWatch(timeout_ms, Offset(from_offset))
            case _:
                pass
    except SchemaError:
        pass
    raise RequestRefusedError(
        ErrorCode.INVALID_REQUEST, "this is no request of a client in this version of quorate"
    )


def encode_appended(appended: Appended[object]) -> bytes:
    """Encode base offset, epoch, the result of a session's command if it is the first result, and the results
    behind it if they are plain values."""
    results: Sequence[object] = appended.results
    command: list[object] | None = None
    match results[0]:
        case SessionAnswer(verdict, kept):
            command, results = [verdict.value, None if kept is None else list(kept)], ()
        case SessionOpened(limits):
            command, results = [_OPENED, list(astuple(limits))], ()
        case _:
            pass
    return dump([appended.base_offset, appended.epoch, command, encode_results(results)])


def decode_appended(answer: bytes) -> Appended[object]:
    """Decode what `encode_appended` made. The results are empty if they are no plain values, and none stand
    behind the result of a session's command. Raises `PeerProtocolError`."""
    try:
        match load(answer, max_bytes=len(answer), max_depth=_DEPTH):
            case [int(base_offset), int(epoch), command, bytes() | None as encoded]:
                results = () if encoded is None else decode_results(encoded)
                if command is not None:
                    results = (_decode_command_result(command),)
                return Appended(Offset(base_offset), Epoch(epoch), results)
            case _:
                pass
    except (SchemaError, ValueError) as error:
        raise PeerProtocolError(f"the answer to an append can't be read: {error}") from error
    raise PeerProtocolError("the answer to an append can't be read")


def _decode_command_result(command: object) -> SessionAnswer | SessionOpened:
    match command:
        case ["opened", [int(count), int(size), int(window), int(idle_ms)]]:
            return SessionOpened(
                SessionLimits(sessions_max=count, kept_max_bytes=size, window=window, idle_ms=idle_ms)
            )
        case [str(verdict), None]:
            return SessionAnswer(Verdict(verdict))
        case [str(verdict), [int(base_offset), int(epoch), bytes() | None as results]]:
            return SessionAnswer(Verdict(verdict), KeptAnswer(Offset(base_offset), Epoch(epoch), results))
        case _:
            raise PeerProtocolError(f"{command!r:.80} is no result of a session's command")


def encode_runs(next_offset: Offset, runs: Sequence[WatchedRun]) -> bytes:
    """Encode the answer to a watch: the offset to ask for next, and the records up to there."""
    return dump([next_offset, list(runs)])


def encode_gone(earliest: Offset) -> bytes:
    """Encode the answer to a watch of records that are gone."""
    return dump([earliest])


def decode_runs(answer: bytes, *, from_offset: Offset | None) -> tuple[Offset, list[Watched]]:
    """Decode the answer to a watch from `from_offset` on. Raises `OffsetGoneError`, `PeerProtocolError`."""
    try:
        match load(answer, max_bytes=len(answer), max_depth=_RUNS_DEPTH):
            case [int(earliest)] if from_offset is not None:
                raise OffsetGoneError(from_offset, earliest=Offset(earliest))
            case [int(next_offset), list(runs)]:
                records = [watched for run in runs for watched in _decode_run(run)]
                ends = [each.offset for each in records] + [Offset(next_offset)]
                ascends = all(before < after for before, after in pairwise(ends))
                if ascends and (from_offset is None or ends[0] >= from_offset):
                    return Offset(next_offset), records
            case _:
                pass
    except SchemaError as error:
        raise PeerProtocolError(f"the answer to a watch can't be read: {error}") from error
    raise PeerProtocolError("the answer to a watch can't be read")


def _decode_run(run: object) -> list[Watched]:
    records: list[Watched] = []
    match run:
        case [int(epoch), int(timestamp_ms), list(pairs)]:
            for pair in pairs:
                match pair:
                    case [int(offset), bytes(record)]:
                        records.append(Watched(Offset(offset), Epoch(epoch), timestamp_ms, record))
                    case _:
                        raise PeerProtocolError("the answer to a watch can't be read")
            return records
        case _:
            raise PeerProtocolError("the answer to a watch can't be read")
