"""A simulated disk that is cut off after so many changes."""

from quorate.simulation.world.simulated_disk import DiskOperation, SimulatedDisk


class CutDisk(SimulatedDisk):
    """Is cut at the operation that `operations_left` counts down to; None never is."""

    operations_left: int | None = None

    def enter(self, operation: DiskOperation | None, path: str) -> str:
        if self.operations_left is not None and operation not in (
            None,
            DiskOperation.READ,
            DiskOperation.OPEN,
        ):
            if self.operations_left == 0:
                self.cut()
            self.operations_left -= 1
        return super().enter(operation, path)
