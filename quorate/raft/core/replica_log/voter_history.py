"""The voter sets in the log, each with its offset (KIP-853)."""

from collections.abc import Iterable

from quorate.invariant import invariant
from quorate.raft.core.cloning import Cloneable
from quorate.types import NodeId, Offset, ReplicaKey, VotersAt, VoterSet


class VoterHistory(Cloneable):
    """The last set in the log counts, committed or not; a truncation takes it back.

    Without a set in the log the static configuration counts (kraft.version 0). Once there is one, the
    configuration has no effect.
    """

    __slots__ = ("_entries", "_static")

    def __init__(self, static: VoterSet, entries: Iterable[VotersAt] = ()) -> None:
        self._static = static
        self._entries: list[VotersAt] = []
        for entry in entries:
            self.append(entry)

    @property
    def latest(self) -> VoterSet:
        return self._entries[-1].voters if self._entries else self._static

    @property
    def latest_offset(self) -> Offset | None:
        """The offset of the latest voter set: -1 in the bootstrap snapshot, None for the configured set."""
        return self._entries[-1].offset if self._entries else None

    @property
    def is_dynamic(self) -> bool:
        """True if kraft.version is 1."""
        return bool(self._entries)

    def at(self, end_offset: Offset) -> VoterSet | None:
        """The last set below `end_offset` (exclusive), for a snapshot that ends there; None if static."""
        return next((entry.voters for entry in reversed(self._entries) if entry.offset < end_offset), None)

    def has_named(self, node: NodeId) -> bool:
        """True if any voter set that is known here has a voter of this id."""
        return node in self._static or any(node in entry.voters for entry in self._entries)

    def removed_by_latest(self, key: ReplicaKey) -> bool:
        """True if `key` was a voter until the latest set."""
        return (
            len(self._entries) > 1
            and self._entries[-2].voters.has(key)
            and not self._entries[-1].voters.has(key)
        )

    def append(self, entry: VotersAt) -> None:
        invariant(
            not self._entries or entry.offset > self._entries[-1].offset,
            "voter sets follow each other in the log",
            entry=entry,
            last=self.latest_offset,
        )
        invariant(len(entry.voters) > 0, "a voter set in the log names somebody", entry=entry)
        self._entries.append(entry)

    def truncate(self, end_offset: Offset) -> None:
        """Forget the sets at or above `end_offset`."""
        while self._entries and self._entries[-1].offset >= end_offset:
            self._entries.pop()

    def trim(self, start_offset: Offset) -> None:
        """Forget the sets that were replaced below `start_offset`, the new log start."""
        below = sum(entry.offset < start_offset for entry in self._entries)
        del self._entries[: max(below - 1, 0)]

    def reset(self, entry: VotersAt | None) -> None:
        """The log begins anew with a snapshot that holds this set, or none."""
        self._entries.clear()
        if entry is not None:
            self.append(entry)
