"""The totals of many runs."""

from dataclasses import dataclass, field
from typing import Protocol


class Counted(Protocol):
    """The result of a run that passed, as far as it is counted."""

    @property
    def events(self) -> int:
        """Return the steps of cores, or the events in the trace."""
        ...

    @property
    def virtual_s(self) -> float: ...

    @property
    def committed(self) -> int:
        """Return the number of records; of brokers, those acknowledged to producers."""
        ...

    @property
    def faults(self) -> dict[str, int]: ...


@dataclass(slots=True)
class Totals:
    """The totals of many runs."""

    runs: int = 0
    events: int = 0
    """Steps of cores, or events in traces."""
    virtual_s: float = 0.0
    committed: int = 0
    """Records; of brokers, those acknowledged to producers."""
    faults: dict[str, int] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    """The failures by seed."""

    def count(self, result: Counted) -> None:
        """Add the counts of one more run."""
        self.events += result.events
        self.virtual_s += result.virtual_s
        self.committed += result.committed
        for kind, count in result.faults.items():
            self.faults[kind] = self.faults.get(kind, 0) + count

    def add(self, other: "Totals") -> None:
        self.runs += other.runs
        self.events += other.events
        self.virtual_s += other.virtual_s
        self.committed += other.committed
        for kind, count in other.faults.items():
            self.faults[kind] = self.faults.get(kind, 0) + count
        self.failures |= other.failures

    @property
    def faults_by_kind(self) -> str:
        """Return the number of faults of each kind, by name; empty for none."""
        return ", ".join(f"{kind} {count:,}" for kind, count in sorted(self.faults.items()))

    def __str__(self) -> str:
        kinds = len(self.faults)
        return (
            f"{self.runs:,} runs, {len(self.failures)} failed: {self.events:,} events, "
            f"{self.virtual_s / 3600:,.1f} hours of virtual time, {self.committed:,} committed, "
            f"{sum(self.faults.values()):,} faults of {kinds} kinds"
        )
