"""Counts of the data that the running step of a task touches.

Only the simulator reads it: in a real process it costs an addition of integers for each batch. The simulator
turns it into time, so that a long step holds up its simulated process as it would hold up a real one
(`quorate.simulation.world.step_costs`).
"""

from typing import Final


class Work:
    """The counts since they were last reset, of one thread. Mutable."""

    __slots__ = ("batches", "bytes", "partitions", "records")

    def __init__(self) -> None:
        self.batches = 0
        """The number of record batches with a header that was read or written."""
        self.records = 0
        """The number of records decoded, encoded or applied, and of partitions that were only looked at."""
        self.partitions = 0
        """The number of partitions with a decision."""
        self.bytes = 0
        """The number of bytes read from files or written to them."""


WORK: Final = Work()
"""The work counts of this process."""
