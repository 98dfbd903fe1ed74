"""Which batches a new leader has to have."""

from quorate.simulation.checkers.invariants import CommittedLog, CommittedPiece
from quorate.types import Epoch, Offset


def piece(base: int, end: int, epoch: int) -> CommittedPiece:
    return CommittedPiece(Offset(base), Offset(end), Epoch(epoch), b"%d" % base)


def test_a_leader_elected_late_may_lack_an_older_batch_that_was_committed_after_its_epoch() -> None:
    """Seed 7101473: the votes of epoch 3 were given before epoch 4 committed a batch of epoch 2, and its
    leader slept until then."""
    log = CommittedLog()
    first, of_two, of_four = piece(0, 5, 1), piece(5, 6, 2), piece(6, 7, 4)
    log.add(first, epoch=Epoch(1))
    log.add(of_two, epoch=Epoch(4))
    log.add(of_four, epoch=Epoch(4))
    assert log.last_before(Epoch(3)) == first
    assert log.last_before(Epoch(5)) == of_four
    assert log.last_before(Epoch(1)) is None
