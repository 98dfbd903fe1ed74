"""The bounds of an exploration, and its initial state."""

import enum
from dataclasses import dataclass, fields


class Budget(enum.IntEnum):
    """The events that may happen a limited number of times on the way to any state."""

    CRASHES = 0
    POWER_LOSSES = 1
    LOSSES = 2
    DUPLICATES = 3
    TIMEOUTS = 4
    TICKS = 5
    APPENDS = 6
    RESIGNATIONS = 7
    READS = 8
    TRANSFERS = 9
    VOTER_CHANGES = 10
    SNAPSHOTS = 11
    DAMAGES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    crashes: int = 0
    """Processes killed; what was written survives. Also between two effects of a step."""
    power_losses: int = 0
    """Nodes that lose their unsynced data, or the end of it."""
    losses: int = 0
    """Messages lost."""
    duplicates: int = 0
    """Messages delivered that stay under way."""
    timeouts: int = 0
    """Election, fetch, check-quorum and transfer timers that fire, broken connections, and requests given up
    while their answer might still come."""
    ticks: int = 0
    """Begin-quorum and fetch-wait timers that fire. (The pauses of `retry_backoff_ms` end any time, for
    nothing.)"""
    appends: int = 0
    resignations: int = 0
    reads: int = 0
    """Linearizable reads."""
    transfers: int = 0
    voter_changes: int = 0
    snapshots: int = 0
    """Snapshots taken, and log starts moved to one."""
    damages: int = 0
    """Fetched snapshots that turn out not to be whole."""

    def counts(self) -> tuple[int, ...]:
        """Return the counts in the order of `Budget`."""
        return tuple(int(getattr(self, each.name)) for each in fields(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """An exhaustive exploration: an initial state, and all that may follow within these limits."""

    initial: str
    budgets: Budgets
    voters: int = 3
    observers: int = 0
    epochs: int = 2
    """Epochs above the initial state's."""
    batches: int = 4
    """Batches in a log above the initial state's longest."""
    in_flight: int = 5
    """Messages under way."""
    fetch_batches: int = 1000
    """Batches that a Fetch is answered with at most."""
    steps: int | None = None
    """The number of steps from the initial state; None is no bound."""
