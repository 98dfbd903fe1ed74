"""The buffers of one vectored send."""

from collections.abc import Sequence
from typing import Final

from quorate.runtime import Buffer

_SMALL_BYTES: Final = 4096


def join_small(pieces: Sequence[Buffer]) -> list[Buffer]:
    """Join neighbours below 4 KiB: copying these costs less than a vector entry each. Larger ones are passed
    on by identity."""
    out: list[Buffer] = []
    run: list[Buffer] = []
    for piece in pieces:
        if len(piece) < _SMALL_BYTES:
            run.append(piece)
        else:
            if run:
                out.append(b"".join(run) if len(run) > 1 else run[0])
                run = []
            out.append(piece)
    if run:
        out.append(b"".join(run) if len(run) > 1 else run[0])
    return out


def remaining(pieces: Sequence[Buffer], sent: int) -> list[Buffer]:
    """Return the rest of `pieces` after their first `sent` bytes."""
    for index, piece in enumerate(pieces):
        if sent < len(piece):
            return [memoryview(piece)[sent:], *pieces[index + 1 :]]
        sent -= len(piece)
    return []
