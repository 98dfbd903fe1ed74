"""The active controller does its chores, a piece at a time, while it carries out operations."""

from collections.abc import Callable

import trio

from quorate.broker.controller.tenure import LEADERSHIP_LOST, Tenure


class ChoreWork:
    """Of whatever tenure there is."""

    def __init__(
        self,
        tenure: Callable[[], Tenure | None],
        *,
        guarded: Callable[[Tenure, Callable[[], object]], None],
        lost: Callable[[Tenure], None],
    ) -> None:
        self._tenure = tenure
        self._guarded = guarded
        self._lost = lost
        self._wake = trio.Event()
        self._rested = True
        """No piece of work was done in this pass of the event loop, and none is waiting."""

    async def run(self) -> None:
        """Do one piece in each pass of the event loop. Runs until cancelled."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while (active := self._tenure()) is not None and active.chores:
                await trio.lowlevel.checkpoint()
                await active.wait_turn()
                if self._tenure() is active:
                    self._guarded(active, active.do_piece)
                    try:
                        await active.keep_up()
                    except LEADERSHIP_LOST:
                        self._lost(active)
            self._rested = True

    def begin(self, active: Tenure) -> None:
        """Do the first piece at once, which is all that there is in a small cluster. Not if a piece was done
        in this pass already: `run` comes to the rest, a piece a pass."""
        if active.chores and self._rested and active.do_piece():
            self._rested = False
        if active.chores or not self._rested:
            self._wake.set()
