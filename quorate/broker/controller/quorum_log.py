"""The metadata log over a `Quorum` on this node."""

from collections.abc import Sequence
from typing import Generic, TypeVar

from quorate.raft import PendingLocalAppend, Quorum
from quorate.types import Epoch

T = TypeVar("T")


class _QuorumPending(Generic[T]):
    __slots__ = ("_append",)

    def __init__(self, append: PendingLocalAppend[T]) -> None:
        self._append = append

    async def wait(self) -> int:
        return (await self._append.wait()).base_offset


class QuorumMetadataLog(Generic[T]):
    """`MetadataLog` of a quorum to which nobody but this node's controller appends."""

    def __init__(self, quorum: Quorum[T]) -> None:
        self._quorum = quorum

    @property
    def next_offset(self) -> int:
        return self._quorum.next_offset

    def append_nowait(self, records: Sequence[bytes], *, epoch: int) -> _QuorumPending[T]:
        return _QuorumPending(self._quorum.append_nowait(records, epoch=Epoch(epoch)))

    def resign(self) -> None:
        self._quorum.resign()
