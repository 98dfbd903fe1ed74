"""The interface of a controller's observers, such as its metrics."""

from typing import Protocol


class ControllerTelemetry(Protocol):
    """Must not block. `quorate.metrics.controller_stats.ControllerStats` is one."""

    def performed(self, *, late_seconds: float, busy_seconds: float) -> None:
        """An operation began so long after it could have, and took so long to decide and append."""
        ...

    def given_up(self) -> None:
        """The client of an operation left before its commit."""
        ...

    def broker_timed_out(self) -> None:
        """The active controller fences a broker that went silent."""
        ...

    def failed(self) -> None:
        """A fault of ours ended this controller's leadership."""
        ...


class NoControllerTelemetry:
    """Watches nothing."""

    __slots__ = ()

    def performed(self, *, late_seconds: float, busy_seconds: float) -> None:
        pass

    def given_up(self) -> None:
        pass

    def broker_timed_out(self) -> None:
        pass

    def failed(self) -> None:
        pass
