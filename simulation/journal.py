"""The state machine of simulated quorums: it keeps everything."""

from collections.abc import Callable, Iterator, Sequence

from quorate.raft.state_machine import CommittedBatch


class Journal:
    """`StateMachine` that keeps each record with its offset. A record's result is its offset."""

    __slots__ = ("_applied", "entries")

    def __init__(self, applied: Callable[[CommittedBatch], None]) -> None:
        self._applied = applied
        self.entries: list[tuple[int, bytes]] = []

    def apply(self, batch: CommittedBatch) -> Sequence[int]:
        self._applied(batch)
        offsets = range(batch.base_offset, batch.base_offset + len(batch.records))
        self.entries.extend(zip(offsets, batch.records, strict=True))
        return offsets

    def take_snapshot(self) -> Iterator[bytes]:
        for offset, record in self.entries:
            yield offset.to_bytes(8, "big") + record

    def load_snapshot(self, chunks: Iterator[bytes]) -> None:
        self.entries = [(int.from_bytes(chunk[:8], "big"), chunk[8:]) for chunk in chunks]
