"""Counts of the data that the running step of a task touches.

In life nobody reads it: it costs an addition of integers for each batch. The simulator turns it into time, so
that a step without end holds up its simulated process as it would hold up a real one
(`quorate.simulation.world.step_costs`).
"""

from typing import Final


class Work:
    """Counts since they were last taken away; one thread's, like the event loop. Mutable."""

    __slots__ = ("batches", "bytes", "partitions", "records")

    def __init__(self) -> None:
        self.batches = 0
        """Record batches whose headers were looked at or written."""
        self.records = 0
        """Records that were decoded, encoded or applied, and partitions that were only looked at."""
        self.partitions = 0
        """Partitions that something was decided for."""
        self.bytes = 0
        """Read from files or written to them."""


WORK: Final = Work()
"""The work counts of this process."""
