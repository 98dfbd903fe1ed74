"""The state machine of simulated quorums: it keeps everything."""

from collections.abc import Callable, Iterator, Sequence

from quorate.raft.state_machine import CommittedBatch
from quorate.types import SnapshotId


class Journal:
    """`StateMachine` that keeps each record with its offset. A record's result is its offset."""

    __slots__ = ("_applied", "_loaded", "entries")

    def __init__(
        self,
        applied: Callable[[CommittedBatch], None],
        loaded: Callable[[Sequence[tuple[int, bytes]]], None] = lambda _: None,
    ) -> None:
        """`applied` hears of each batch, `loaded` of what a snapshot held that became the state."""
        self._applied = applied
        self._loaded = loaded
        self.entries: list[tuple[int, bytes]] = []

    def apply(self, batch: CommittedBatch) -> Sequence[int]:
        self._applied(batch)
        offsets = range(batch.base_offset, batch.base_offset + len(batch.records))
        self.entries.extend(zip(offsets, batch.records, strict=True))
        return offsets

    def take_snapshot(self) -> Iterator[bytes]:
        return (offset.to_bytes(8, "big") + record for offset, record in self.entries.copy())

    def load_snapshot(self, snapshot: SnapshotId) -> "JournalLoader":
        return JournalLoader(self)

    def replace(self, entries: list[tuple[int, bytes]]) -> None:
        self.entries = entries
        self._loaded(entries)


class JournalLoader:
    """`SnapshotLoader` of a journal: a chunk per record."""

    __slots__ = ("_entries", "_journal")

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._entries: list[tuple[int, bytes]] = []

    def add(self, chunk: bytes) -> None:
        self._entries.append((int.from_bytes(chunk[:8], "big"), chunk[8:]))

    def install(self) -> None:
        self._journal.replace(self._entries)
