"""The interface of the user's state machine."""

from collections.abc import Iterator, Sequence
from dataclasses import Field, dataclass
from enum import Enum
from typing import ClassVar, Generic, Protocol, TypeVar

from quorate.types import Epoch, Offset, SnapshotId

Result = TypeVar("Result", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedBatch:
    """Committed records in log order. `records[i]` has the offset `base_offset + i`."""

    base_offset: Offset
    epoch: Epoch
    """The epoch of the leader that appended them."""
    timestamp_ms: int
    """The time of that leader's wall clock when it appended them."""
    records: Sequence[bytes]
    state_version: int = 0
    """The version that the quorum's records may need here (`Quorum.raise_state_version`). It is the same on
    every node, so code may go by it."""


class SnapshotLoader(Protocol):
    """A new state, built from the chunks of a snapshot beside the running one.

    It must not touch the running state before `install`. The quorum drops it without a call if the snapshot
    is damaged or no longer needed.
    """

    def add(self, chunk: bytes) -> None:
        """Add the next chunk, as `take_snapshot` returned it on the node that took the snapshot."""
        ...

    def install(self) -> None:
        """Replace the running state by this one, in one step. The quorum calls it after the last chunk,
        between two calls of `apply`. The next records that it applies start at the snapshot's end."""
        ...


class SnapshotCodec(Enum):
    """The encoding of a plain state machine's snapshots."""

    JSON = "json"
    """The default. It has no `bytes`."""
    CBOR = "cbor"
    """It has `bytes`, but no strings with lone surrogates."""


class PlainStateMachine(Protocol[Result]):
    """The replicated state of an application: a dataclass with `apply`.

    For a dictionary::

        @dataclass
        class Dictionary:
            items: dict[str, str] = field(default_factory=dict)

            def apply(self, batch: CommittedBatch) -> list[str | None]:
                return [self.put(*json.loads(record)) for record in batch.records]

            def put(self, key: str, value: str) -> str | None:
                before, self.items[key] = self.items.get(key), value
                return before

    The quorum calls `apply` on its own task. It must be deterministic: no clock, no randomness, no I/O. If it
    raises an error, every node stops at that batch. So refuse unacceptable records with a `check` (see
    `CheckingStateMachine`), before they are appended. Without one, `apply` must accept any bytes.

    The fields are the state. Snapshots have them in the codec that the class declares (`snapshot_codec:
    ClassVar = SnapshotCodec.CBOR`; JSON if none). Their types must say what they hold: None, `bool`, `int`,
    `float`, `str`, `bytes` (CBOR only), `Decimal`, `UUID`, enums, dataclasses, `list[...]`, `dict[...]`,
    `tuple[...]`, and `... | None` of them. `Quorum.open` refuses a field with any other type, and a value
    that differs from its type. Two fields must not hold the same object: after a restart they would hold
    two.

    A field with a default may be added later. The fields of an old snapshot must remain.

    A class may have a `code_version: ClassVar[int]`, 0 by default, and a method `needed_version(record)` that
    returns the `code_version` that a record needs. The quorum refuses an append of records that need more
    than all voters have agreed on (`Quorum.raise_state_version`).
    """

    __dataclass_fields__: ClassVar[dict[str, Field[object]]]

    def apply(self, batch: CommittedBatch) -> Sequence[Result]:
        """Apply committed records. The quorum passes every record exactly once, in log order. Return one
        result per record; the caller of `append` gets them."""
        ...


class StateMachine(Protocol[Result]):
    """A state machine that makes its own snapshots. Most don't need to: see `PlainStateMachine`. The quorum
    calls one method at a time, on its own task.

    A snapshot (KIP-630) replaces the records below its end: the log before it is removed, and a node that
    starts, or is far behind, loads it. For a dictionary::

        class Dictionary:
            def __init__(self):
                self.items = {}

            def apply(self, batch):
                return [self.items.update([json.loads(record)]) for record in batch.records]

            def take_snapshot(self):
                items = list(self.items.items())  # now: what follows goes on while apply does
                return (json.dumps(items[i : i + 1000]).encode() for i in range(0, len(items), 1000))

            def load_snapshot(self, snapshot):
                return DictionaryLoader(self)

        class DictionaryLoader:
            def __init__(self, dictionary):
                self.dictionary, self.items = dictionary, {}

            def add(self, chunk):
                self.items.update(json.loads(chunk))

            def install(self):
                self.dictionary.items = self.items
    """

    def apply(self, batch: CommittedBatch) -> Sequence[Result]:
        """Apply committed records, as `PlainStateMachine.apply`."""
        ...

    def take_snapshot(self) -> Iterator[bytes]:
        """Return the state after the last applied batch, as chunks of at most 8 MiB.

        The quorum pulls chunks while it continues to call `apply`. The iterator must give the state as it was
        at this call, so copy mutable parts *before* returning it. A generator function does not do that by
        itself: its body starts at the first pull, which is too late. A shallow copy of a container is enough
        if its values are replaced and never changed.

        One pull makes one chunk, and the event loop waits for it. Chunks of 64 KiB to 1 MiB are a good size.
        If this method or the iterator raises, the node continues without this snapshot and tries again later.
        The quorum may drop the iterator before its end. It then calls `close`, if there is one.
        """
        ...

    def load_snapshot(self, snapshot: SnapshotId) -> SnapshotLoader:
        """Return a loader for the snapshot of all records below `snapshot.end_offset`. The running state
        continues to be applied to until the loader's `install`. If this method or the loader raises, the node
        stops with `StateMachineError`."""
        ...


class CheckingStateMachine(StateMachine[Result], Protocol[Result]):
    """A state machine that may refuse records before they are appended. A committed record can't be
    removed. A plain state machine may have a `check` too."""

    def check(self, records: Sequence[bytes]) -> None:
        """Return if `apply` accepts these records. Raise if not: the append ends in `InvalidAppendError`,
        with the raised error as its cause, and nothing happens.

        The quorum calls it on the leader only, once per append, with the records of one atomic unit. Other
        records may be applied between this call and the commit. So it may depend only on the records
        themselves and on the part of the state that never changes. It must not change the state.
        """
        ...


@dataclass(frozen=True, slots=True)
class Appended(Generic[Result]):
    """The outcome of an append: its records are committed, and applied on this node."""

    base_offset: Offset
    epoch: Epoch
    results: tuple[Result, ...]
    """The results of `apply` on this node, one for each record."""
