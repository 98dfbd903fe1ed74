"""The pure parts of a move between directories: its states, and the steps of the copy."""

from dataclasses import dataclass
from itertools import product

import pytest

from quorate.broker.replication.upkeep.future_copy import Cut, Equal, ReadFrom, Restart, next_step
from quorate.broker.replication.upkeep.replica_move import (
    DROPPABLE,
    LEGAL,
    IllegalMoveError,
    MoveState,
    checked_change,
)
from quorate.types import EpochEnd, EpochStart, Offset


def test_every_state_has_a_row_and_what_ends_has_no_way_on() -> None:
    assert set(LEGAL) == set(MoveState)
    assert {state for state in LEGAL if not LEGAL[state]} == {
        MoveState.SWITCHED,
        MoveState.DROPPED,
        MoveState.FAILED,
    }


def test_a_move_can_be_dropped_until_it_is_sealed() -> None:
    assert {state for state in LEGAL if MoveState.DROPPED in LEGAL[state]} == DROPPABLE
    for before, after in product(MoveState, MoveState):
        if after in LEGAL[before]:
            assert checked_change(before, after) is after
        else:
            with pytest.raises(IllegalMoveError, match=f"from {before.value} to {after.value}"):
                checked_change(before, after)


def test_only_a_mirror_is_sealed_and_only_a_sealed_one_switched() -> None:
    assert [state for state in LEGAL if MoveState.SEALED in LEGAL[state]] == [MoveState.MIRRORING]
    assert [state for state in LEGAL if MoveState.SWITCHED in LEGAL[state]] == [MoveState.SEALED]


@dataclass
class Held:
    """A log as its epochs and ends: `LogView`."""

    log_start_offset: Offset
    end_offset: Offset
    epochs: tuple[EpochStart, ...]

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd | None:
        known = [each for each in self.epochs if each.epoch <= epoch]
        if not self.epochs:
            return None
        if not known:
            return EpochEnd(self.epochs[0].epoch, self.epochs[0].start_offset)
        following = self.epochs[len(known) :]
        return EpochEnd(known[-1].epoch, following[0].start_offset if following else self.end_offset)


def held(start: int, end: int, *epochs: tuple[int, int]) -> Held:
    """`epochs`: (epoch, start offset)."""
    starts = tuple(EpochStart(epoch, Offset(offset)) for epoch, offset in epochs)  # type: ignore[arg-type]
    return Held(Offset(start), Offset(end), starts)


@pytest.mark.parametrize(
    ("original", "copy", "step"),
    [
        (held(0, 9, (0, 0)), held(0, 0), ReadFrom(Offset(0))),
        (held(0, 9, (0, 0)), held(0, 5, (0, 0)), ReadFrom(Offset(5))),
        (held(0, 9, (0, 0)), held(0, 9, (0, 0)), Equal()),
        (held(0, 0), held(0, 0), Equal()),
        # Retention was faster than the copy.
        (held(6, 9, (0, 6)), held(0, 5, (0, 0)), Restart(Offset(6))),
        (held(5, 9, (0, 5)), held(0, 5, (0, 0)), ReadFrom(Offset(5))),
        (held(9, 9), held(0, 5, (0, 0)), Restart(Offset(9))),
        # The original was cut, and is shorter, or longer again in another epoch.
        (held(0, 4, (0, 0)), held(0, 5, (0, 0)), Cut(Offset(4))),
        (held(0, 9, (0, 0), (2, 4)), held(0, 6, (0, 0)), Cut(Offset(4))),
        (held(0, 9, (0, 0), (2, 4)), held(0, 6, (0, 0), (1, 3)), Cut(Offset(3))),
        (held(0, 9, (0, 0), (3, 4)), held(0, 8, (0, 0), (1, 5)), Cut(Offset(4))),
        # Nothing is common.
        (held(0, 9, (2, 0)), held(0, 5, (1, 0)), Restart(Offset(0))),
        (held(3, 9, (2, 3)), held(0, 5, (1, 0)), Cut(Offset(3))),
        # It was emptied and begins lower.
        (held(2, 2), held(0, 5, (0, 0)), Cut(Offset(2))),
        (held(0, 0), held(3, 5, (0, 3)), Restart(Offset(0))),
        # An epoch without records.
        (held(0, 5, (0, 0), (1, 5)), held(0, 5, (0, 0)), Equal()),
    ],
)
def test_the_next_step_of_a_copy(original: Held, copy: Held, step: object) -> None:
    assert next_step(original, copy) == step
