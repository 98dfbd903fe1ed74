"""Long work on the event loop, cut into slices between which everything else runs."""

import trio

_SLICE_SECONDS = 0.002
_SLICE_BYTES = 1024 * 1024


class SnapshotSlices:
    """The slices of one long work, which calls `pause` after each of its steps.

    A commit takes several passes of the event loop, and may wait for a slice in each. So slices are short,
    and work that is not urgent rests as long as it ran.
    """

    __slots__ = ("_bytes", "_rests", "_started")

    def __init__(self, *, rests: bool) -> None:
        self._rests = rests
        self._begin_slice()

    def _begin_slice(self) -> None:
        self._started = trio.current_time()
        self._bytes = 0

    async def pause(self, size_bytes: int) -> None:
        """Let others run, if this slice has gone on for 2 ms or through 1 MiB (a step had `size_bytes`).
        No checkpoint otherwise."""
        self._bytes += size_bytes
        ran = trio.current_time() - self._started
        if ran < _SLICE_SECONDS and self._bytes < _SLICE_BYTES:
            return
        if self._rests:
            await trio.sleep(ran)
        else:
            await trio.lowlevel.checkpoint()
        self._begin_slice()
