"""The log that nodes, taken together, called committed."""

from dataclasses import dataclass

from quorate.types import Epoch, Offset


@dataclass(frozen=True, slots=True)
class CommittedPiece:
    """A batch of the committed log, byte for byte."""

    base_offset: Offset
    end_offset: Offset
    epoch: Epoch
    data: bytes


class CommittedLog:
    """The records that any node ever reported as committed."""

    def __init__(self) -> None:
        self._pieces: dict[int, CommittedPiece] = {}
        self._last_in: dict[Epoch, CommittedPiece] = {}
        self.end_offset = Offset(0)
        self.last: CommittedPiece | None = None

    def at(self, base_offset: int) -> CommittedPiece | None:
        return self._pieces.get(base_offset)

    def last_before(self, epoch: Epoch) -> CommittedPiece | None:
        """The newest batch that was committed in an epoch older than `epoch`. A batch of an older epoch may
        be committed in a newer one, and a leader of an epoch between, elected late, may lack it."""
        older = [known for known in self._last_in if known < epoch]
        return self._last_in[max(older)] if older else None

    def add(self, piece: CommittedPiece, *, epoch: Epoch) -> None:
        """`epoch`: in which it was committed; at least its own."""
        self._last_in[epoch] = piece
        self._pieces[piece.base_offset] = piece
        self.end_offset = piece.end_offset
        self.last = piece
