"""Snapshots of a state machine that is a dataclass: its fields, in JSON or CBOR."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import FrozenInstanceError, dataclass
from struct import Struct
from typing import Final, Generic, TypeVar, cast

from quorate import __version__
from quorate.cbor import SchemaError, dump, load
from quorate.log.snapshots.snapshot_file import MAX_CHUNK_BYTES
from quorate.raft.quorum_errors import QuorumConfigError
from quorate.raft.state_machine.code_versions import code_version_of
from quorate.raft.state_machine.interface import (
    CommittedBatch,
    PlainStateMachine,
    SnapshotCodec,
    StateMachine,
)
from quorate.raft.state_machine.record_check import Check
from quorate.raft.state_machine.shape import check_shape, is_plain
from quorate.raft.state_machine.state_kinds import Struct as StructKind
from quorate.raft.state_machine.state_kinds import Token, kind_of
from quorate.runtime import Steps, at_once
from quorate.types import SnapshotId

Outcome = TypeVar("Outcome")

_CHUNK_BYTES: Final = 64 * 1024
_LENGTH: Final = Struct("<I")
"""A token is preceded by its length. A chunk may end within one."""
_MAX_DEPTH: Final = 100
"""Of the types of a state within each other."""


@dataclass(frozen=True, slots=True)
class _Form:
    """A codec, and the first byte of the snapshots in it."""

    scalars: frozenset[type[object]]
    encode: Callable[[object], bytes]
    decode: Callable[[bytes], object]
    first_byte: bytes


def _encode_json(value: object) -> bytes:
    return _JSON.encode(value).encode()


def _decode_json(data: bytes) -> object:
    try:
        return cast("object", json.loads(data))
    except ValueError as error:
        raise SchemaError(f"not JSON: {error}") from error


def _decode_cbor(data: bytes) -> object:
    return load(data, max_bytes=len(data), max_depth=_MAX_DEPTH, big_integers=True)


_SCALARS: Final = frozenset((type(None), bool, int, float, str))
_JSON: Final = json.JSONEncoder(separators=(",", ":"))
_FORMS: Final = {
    SnapshotCodec.JSON: _Form(_SCALARS, _encode_json, _decode_json, b"j"),
    SnapshotCodec.CBOR: _Form(_SCALARS | {bytes}, dump, _decode_cbor, b"c"),
}
_BY_FIRST_BYTE: Final = {form.first_byte: form for form in _FORMS.values()}


def with_snapshots(
    state_machine: StateMachine[Outcome] | PlainStateMachine[Outcome],
) -> StateMachine[Outcome]:
    """Return the state machine, with the snapshots of its fields if it has none of its own. Raises
    `QuorumConfigError` for one that the quorum could not apply to, or not take snapshots of."""
    check_shape(state_machine)
    if is_plain(state_machine):
        return PlainMachine(cast("PlainStateMachine[Outcome]", state_machine))
    return cast("StateMachine[Outcome]", state_machine)


def form_of(state_machine: StateMachine[object]) -> str:
    """Return the form of a state machine's snapshots: digests of two forms can't be compared."""
    if isinstance(state_machine, Freezing):
        own = state_machine.form
    else:
        own = f"own {code_version_of(state_machine)}"
    return f"{__version__} {own}"


class Freezing(ABC):
    """A state machine whose state must stand still while it is copied, because its values may change in
    place."""

    __slots__ = ()

    @property
    @abstractmethod
    def form(self) -> str:
        """The form of the snapshots. Two machines of one form write equal states as equal bytes."""

    @abstractmethod
    def freeze(self) -> Steps[Iterator[bytes]]:
        """Take a snapshot as `StateMachine.take_snapshot`, in steps, between which nothing may be applied."""


class PlainMachine(Freezing, Generic[Outcome]):
    """A plain state machine, with the snapshots of its fields."""

    def __init__(self, machine: PlainStateMachine[Outcome]) -> None:
        """Raises `QuorumConfigError` if its state, or any that its fields may have, can't be in a
        snapshot."""
        self._machine = machine
        self._name = type(machine).__name__
        self.check: Check | None = getattr(machine, "check", None)
        self.code_version = code_version_of(machine)
        self.needed_version: Callable[[bytes], int] | None = getattr(machine, "needed_version", None)
        codec = getattr(machine, "snapshot_codec", SnapshotCodec.JSON)
        if not isinstance(codec, SnapshotCodec):
            raise QuorumConfigError(
                f"{self._name}.snapshot_codec is {codec!r}; use SnapshotCodec.JSON or SnapshotCodec.CBOR"
            )
        self._form = _FORMS[codec]
        try:
            self._kind = kind_of(type(machine), self._form.scalars)
            loader = self._loader()
            for chunk in self.take_snapshot():
                loader.add(chunk)
            for name in loader.end():
                setattr(machine, name, getattr(machine, name))
        except FrozenInstanceError as error:
            raise QuorumConfigError(
                f"{self._name} is frozen, and no snapshot could replace its fields"
            ) from error
        except (SchemaError, RecursionError) as error:
            raise QuorumConfigError(f"no snapshot can be taken of the state machine: {error}") from error

    def apply(self, batch: CommittedBatch) -> Sequence[Outcome]:
        return self._machine.apply(batch)

    @property
    def form(self) -> str:
        # Code with another field writes other bytes for the same state.
        shape = hashlib.blake2b(self._kind.shape([]).encode(), digest_size=4).hexdigest()
        return f"plain {self._form.first_byte.decode()} {shape}"

    def take_snapshot(self) -> Iterator[bytes]:
        return at_once(self.freeze())

    def freeze(self) -> Steps[Iterator[bytes]]:
        self._check_attributes()
        tokens: deque[Token] = deque()
        for token in self._kind.write_fields(self._machine):
            tokens.append(token)
            yield
        return self._encode(tokens)

    def _encode(self, tokens: deque[Token]) -> Iterator[bytes]:
        buffer = bytearray(self._form.first_byte)
        while tokens:
            try:
                data = self._form.encode(tokens.popleft())
            except ValueError as error:
                raise SchemaError(f"a value of {self._name} can't be written: {error}") from error
            buffer += _LENGTH.pack(len(data)) + data
            if len(buffer) >= _CHUNK_BYTES:
                yield from _cut(buffer)
                buffer.clear()
        yield from _cut(buffer)

    def load_snapshot(self, snapshot: SnapshotId) -> "_Loader":
        return self._loader()

    def _loader(self) -> "_Loader":
        return _Loader(self._machine, self._kind)

    def _check_attributes(self) -> None:
        for name in getattr(self._machine, "__dict__", {}):
            if name not in self._kind.fields:
                raise SchemaError(
                    f"{self._name}.{name} is not a field, so a snapshot would lose it; make it one, or a "
                    "ClassVar"
                )


def _cut(data: bytes | bytearray) -> Iterator[bytes]:
    """Yield data of any length as chunks."""
    for start in range(0, len(data), MAX_CHUNK_BYTES):
        yield bytes(data[start : start + MAX_CHUNK_BYTES])


class _Loader:
    """`SnapshotLoader` of a plain state machine."""

    def __init__(self, machine: object, kind: StructKind) -> None:
        self._machine = machine
        self._form: _Form | None = None
        self._buffer = bytearray()
        self._fields: dict[str, object] | None = None
        self._reading = kind.read_fields()
        next(self._reading)

    def add(self, chunk: bytes) -> None:
        self._buffer += chunk
        if self._form is None:
            self._form = _BY_FIRST_BYTE.get(chunk[:1])
            if self._form is None:
                raise SchemaError(
                    f"the snapshot begins with {chunk[:20]!r}, so a loader of the state machine's own has to "
                    "read it"
                )
            del self._buffer[:1]
        start = 0
        while len(self._buffer) >= start + _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._buffer, start)
            end = start + _LENGTH.size + size
            if len(self._buffer) < end:
                break
            self._read(self._form.decode(bytes(self._buffer[start + _LENGTH.size : end])))
            start = end
        del self._buffer[:start]

    def _read(self, token: object) -> None:
        if self._fields is not None:
            raise SchemaError("the snapshot goes on behind its end")
        if not isinstance(token, list) or len(token) != 2 or type(token[0]) is not int:
            raise SchemaError(f"expected a token, not {token!r:.50}")
        try:
            self._reading.send((token[0], token[1]))
        except StopIteration as end:
            self._fields = end.value

    def end(self) -> dict[str, object]:
        """Return the values of the fields, after the last chunk."""
        if self._fields is None or self._buffer:
            raise SchemaError("the snapshot ends within the state")
        return self._fields

    def install(self) -> None:
        for name, value in self.end().items():
            setattr(self._machine, name, value)
