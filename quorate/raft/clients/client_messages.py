"""The requests of clients: payloads of Application requests on the client listener, and their answers.

A request is a CBOR array: its kind, the time that its sender waits, and what it asks for.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Final

from quorate.cbor import SchemaError, dump, load
from quorate.error_code import ErrorCode
from quorate.raft.quorum_errors import PeerProtocolError, RequestRefusedError
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
_DEPTH: Final = 3
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


ClientRequest = ClientAppend | ClientRead


def encode_client_request(request: ClientRequest) -> bytes:
    match request:
        case ClientAppend():
            return dump([_KIND_APPEND, request.timeout_ms, list(request.records)])
        case ClientRead():
            return dump([_KIND_READ, request.timeout_ms, request.query])


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
