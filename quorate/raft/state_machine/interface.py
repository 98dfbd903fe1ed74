"""What the user replicates."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from quorate.types import Epoch, Offset, SnapshotId

Result = TypeVar("Result", covariant=True)
Outcome = TypeVar("Outcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedBatch:
    """Committed records in log order: `records[i]` is at `base_offset + i`."""

    base_offset: Offset
    epoch: Epoch
    """Of the leader that appended them."""
    timestamp_ms: int
    """That leader's wall clock when it appended them."""
    records: Sequence[bytes]


class SnapshotLoader(Protocol):
    """A state in the making, from a snapshot's chunks, beside the one that runs.

    It must not touch the running state before `install`. It is dropped halfway, without a word, when the
    snapshot turns out to be damaged or is not wanted any more.
    """

    def add(self, chunk: bytes) -> None:
        """The next chunk, as `take_snapshot` gave it on whichever node took the snapshot."""
        ...

    def install(self) -> None:
        """All chunks are there: this state becomes the state, at once. Called last, between two calls of
        `apply`; records that the snapshot ends before are applied to it next."""
        ...


class StateMachine(Protocol[Result]):
    """Replicated state. All methods are called on the quorum's task, one at a time.

    `apply` must be deterministic: no clocks, no randomness, no I/O. If it raises, the node stops at that
    batch and says so, and so does every other node: let a `check` (see `CheckingStateMachine`) refuse what it
    can't bear, before it is in the log. Without one, `apply` must bear any bytes.

    Snapshots (KIP-630) stand in for the records that made them: the log before them is removed, and a node
    that starts, or is far behind, loads one. For a dictionary::

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
        """Apply committed records, each exactly once per state and in order. Returns one result per record,
        for the caller of `append`."""
        ...

    def take_snapshot(self) -> Iterator[bytes]:
        """The state after the last applied batch, in chunks of at most 8 MiB.

        The iterator is pulled bit by bit while `apply` goes on, and must give the state as it was at this
        call: so copy what is mutable *before* returning it, which a generator function does not do by itself
        (its body runs at the first pull, too late). A shallow copy of a container is enough where its values
        are replaced, not changed. A chunk is made in one go, and nothing else runs meanwhile: 64 KiB to 1 MiB
        each is a good size. If this or the iterator raises, the node goes on without this snapshot, and tries
        again later. The iterator may be dropped halfway; if it has a `close`, that is called.
        """
        ...

    def load_snapshot(self, snapshot: SnapshotId) -> SnapshotLoader:
        """Begin to load one, of what the records below `snapshot.end_offset` made. The running state goes on,
        and is applied to, until the loader's `install`. If this or the loader raises, the node stops with
        `StateMachineError`."""
        ...


class CheckingStateMachine(StateMachine[Result], Protocol[Result]):
    """One that is asked about records before they are in the log, where nothing takes them out again."""

    def check(self, records: Sequence[bytes]) -> None:
        """Return for records that `apply` can bear, raise for others: the append ends in `InvalidAppendError`
        with what was raised, and nothing happens.

        Called on the leader only, for each append of any node (records that are appended as one unit
        together), some time before they are committed; others may be applied in between. So judge the
        records by themselves (do they decode?), or by what of the state never changes, and leave to `apply`
        what depends on the state. It must not change the state.
        """
        ...


@dataclass(frozen=True, slots=True)
class Appended(Generic[Outcome]):
    """A committed and locally applied append."""

    base_offset: Offset
    epoch: Epoch
    results: tuple[Outcome, ...]
    """What `apply` returned for each record, on this node."""
