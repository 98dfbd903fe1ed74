"""The states of a replica's move between directories, and its legal changes of state (KIP-113)."""

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


class MoveState(enum.Enum):
    COPYING = "copying"
    """The future replica lacks records. It is no more than a copy, and may be dropped."""
    MIRRORING = "mirroring"
    """It has everything, and takes each append in the same call. It may be dropped."""
    SEALED = "sealed"
    """The mark that ends the copied replica is being written: no way back. An error of either directory is
    one of the replica."""
    SWITCHED = "switched"
    """It is the replica. The folder that it was copied from has the mark, and nothing else of worth."""
    DROPPED = "dropped"
    """It was given up, and is removed."""
    FAILED = "failed"
    """A directory failed. What is in the other stays there for the next start."""


LEGAL: Final[Mapping[MoveState, frozenset[MoveState]]] = MappingProxyType(
    {
        MoveState.COPYING: frozenset({MoveState.MIRRORING, MoveState.DROPPED, MoveState.FAILED}),
        # A cut of the replica's log is not mirrored: the copy cuts itself.
        MoveState.MIRRORING: frozenset(
            {MoveState.COPYING, MoveState.SEALED, MoveState.DROPPED, MoveState.FAILED}
        ),
        MoveState.SEALED: frozenset({MoveState.SWITCHED, MoveState.FAILED}),
        MoveState.SWITCHED: frozenset(),
        MoveState.DROPPED: frozenset(),
        MoveState.FAILED: frozenset(),
    }
)
DROPPABLE: Final = frozenset({MoveState.COPYING, MoveState.MIRRORING})


class IllegalMoveError(AssertionError):
    """A bug of ours."""

    def __init__(self, before: MoveState, after: MoveState) -> None:
        super().__init__(f"a move between directories can't go from {before.value} to {after.value}")


def checked_change(before: MoveState, after: MoveState) -> MoveState:
    """Return `after`. Raises `IllegalMoveError` if the table doesn't have the change."""
    if after not in LEGAL[before]:
        raise IllegalMoveError(before, after)
    return after
