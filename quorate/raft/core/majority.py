"""The offset that a majority of the voters has reached."""

from collections.abc import Collection

from quorate.types import Offset


def majority_end_offset(ends: Collection[Offset], *, epoch_start: Offset) -> Offset | None:
    """The high watermark these voters allow, or None.

    `ends`: the durable log end offset (exclusive) of every voter, 0 where unknown. None until a majority is
    past `epoch_start`, because older epochs' records commit only together with one of the leader's own
    (Raft section 5.4.2, KIP-595; KAFKA-12619 is what happens with >= instead of >).
    """
    count = len(ends)
    if count == 0:
        return None
    # Of n ends in ascending order, the one at n - 1 - n // 2 has a majority at or above it.
    end = sorted(ends)[count - 1 - count // 2]
    return end if end > epoch_start else None
