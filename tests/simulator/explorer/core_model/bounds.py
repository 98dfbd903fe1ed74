"""The bounds of explorations of the core, and the suites of them. Figures: docs/explanation/verification."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tests.simulator.explorer.model import counts_of


class Budget(enum.IntEnum):
    """The events that may happen a limited number of times on the way to any state."""

    CRASHES = 0
    """Processes killed, also between two effects of a step. Written data survives."""
    POWER_LOSSES = 1
    """Nodes that lose their unsynced data, or the end of it."""
    LOSSES = 2
    """Messages lost."""
    DUPLICATES = 3
    """Messages delivered that stay under way."""
    TIMEOUTS = 4
    """Election, fetch, check-quorum and transfer timers that fire, broken connections, and requests given up
    while their answer might still come."""
    TICKS = 5
    """Begin-quorum and fetch-wait timers that fire. (The pauses of `retry_backoff_ms` end any time, for
    nothing.)"""
    APPENDS = 6
    RESIGNATIONS = 7
    READS = 8
    """Linearizable reads."""
    TRANSFERS = 9
    VOTER_CHANGES = 10
    SNAPSHOTS = 11
    """Snapshots taken, and log starts moved to one."""
    DAMAGES = 12
    """Fetched snapshots that turn out not to be whole."""


def budgets(**limits: int) -> tuple[int, ...]:
    """Return a budget of each kind, in order: `budgets(appends=1)`."""
    return counts_of(Budget, limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """An exhaustive exploration: an initial state, and all that may follow within these limits."""

    initial: str
    budgets: tuple[int, ...] = counts_of(Budget, {})
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


Suite = Mapping[str, Bound]

SMALL: Final[Suite] = {
    "crash": Bound(initial="elected", budgets=budgets(appends=1, crashes=1), voters=2),
    "transfer": Bound(initial="elected", budgets=budgets(resignations=1, transfers=1)),
    "reads": Bound(initial="elected", budgets=budgets(reads=1, appends=1)),
    "short candidate": Bound(initial="short candidate"),
    "stale candidate": Bound(initial="stale candidate"),
    "first read": Bound(initial="cold", budgets=budgets(timeouts=1, reads=1), voters=2, epochs=1),
    "two leaders": Bound(initial="deposed", budgets=budgets(reads=1, appends=1)),
    "catching up": Bound(initial="lagging", budgets=budgets(timeouts=0, ticks=1), fetch_batches=1),
    "observer": Bound(initial="elected", budgets=budgets(timeouts=1), voters=1, observers=1),
    "snapshots": Bound(initial="behind the start", budgets=budgets(appends=1)),
    "voters": Bound(initial="dynamic", budgets=budgets(voter_changes=1)),
}
"""Seconds, for the suite of tests."""

CI: Final[Suite] = {
    "elections": Bound(initial="cold", budgets=budgets(timeouts=1), epochs=1, in_flight=3),
    "elections of two": Bound(
        initial="cold", budgets=budgets(timeouts=2, crashes=1), voters=2, epochs=2, in_flight=4
    ),
    "rivals": Bound(initial="rivals", epochs=1, batches=0, in_flight=4),
    "premature leader": Bound(initial="premature", in_flight=4),
    "wooed voter": Bound(initial="wooed", in_flight=3),
    "divergence": Bound(initial="diverged", in_flight=4),
    "crashes": Bound(initial="elected", budgets=budgets(appends=1, crashes=1, power_losses=1)),
    "repeats": Bound(initial="elected", budgets=budgets(appends=2, duplicates=1, losses=1)),
    "timeouts": Bound(initial="lagging", budgets=budgets(appends=1, timeouts=1), in_flight=4),
    "given votes": Bound(initial="rivals", budgets=budgets(timeouts=2), voters=2, epochs=1),
    "late sync": Bound(initial="late sync", epochs=1, batches=1, steps=14),
    "late timer": Bound(
        initial="late timer", budgets=budgets(ticks=1), voters=2, epochs=1, batches=1, in_flight=4
    ),
    "ticks": Bound(
        initial="elected",
        budgets=budgets(appends=1, resignations=1, ticks=1, timeouts=2),
        voters=2,
        epochs=1,
        batches=2,
        in_flight=3,
    ),
    "transfer": Bound(initial="elected", budgets=budgets(appends=1, resignations=1, transfers=1)),
    "handed over again": Bound(initial="resigned", budgets=budgets(resignations=1)),
    "transfer in vain": Bound(
        initial="elected", budgets=budgets(appends=1, transfers=1, timeouts=1), voters=2, in_flight=4
    ),
    "reads": Bound(initial="elected", budgets=budgets(reads=1, appends=1, timeouts=1)),
    "undone change": Bound(initial="undone change", budgets=budgets(voter_changes=1), in_flight=3),
    "voters": Bound(initial="dynamic", budgets=budgets(voter_changes=2), in_flight=4),
    "voters and crashes": Bound(initial="dynamic", budgets=budgets(voter_changes=1, crashes=1)),
    "voters come and go": Bound(initial="dynamic", budgets=budgets(voter_changes=2), voters=2, observers=1),
    "observer": Bound(
        initial="elected", budgets=budgets(timeouts=1, appends=1), voters=2, observers=1, in_flight=4
    ),
    "snapshots": Bound(initial="behind the start", budgets=budgets(timeouts=1, damages=1), in_flight=4),
    "snapshots and crashes": Bound(initial="lagging", budgets=budgets(snapshots=2, damages=1, crashes=1)),
    "snapshots and elections": Bound(
        initial="elected",
        budgets=budgets(snapshots=2, resignations=1, timeouts=2),
        voters=2,
        epochs=1,
        batches=1,
        in_flight=3,
    ),
    "checking": Bound(initial="checking", budgets=budgets(damages=1), epochs=1, batches=1, in_flight=3),
    "loading": Bound(initial="loading", budgets=budgets(timeouts=1), epochs=1, in_flight=4, steps=14),
    "late check": Bound(
        initial="late check", budgets=budgets(timeouts=1, damages=1), epochs=1, in_flight=4, steps=10
    ),
    "late request": Bound(initial="late request", epochs=1, in_flight=4, steps=14),
    "late request to a follower": Bound(
        initial="late request to a follower", epochs=1, batches=1, in_flight=3
    ),
    "late chunk": Bound(
        initial="late chunk", budgets=budgets(resignations=1), epochs=1, in_flight=4, steps=18
    ),
}
"""A minute or two on two cores."""

LARGE: Final[Suite] = {
    "rivals": Bound(initial="rivals", epochs=1, in_flight=4),
    "elections of three": Bound(initial="cold", budgets=budgets(timeouts=2), epochs=1, in_flight=3),
    "elections and crashes of two": Bound(
        initial="cold",
        budgets=budgets(timeouts=2, crashes=1, power_losses=1, appends=1),
        voters=2,
        in_flight=4,
    ),
    "stale candidate": Bound(initial="stale candidate", budgets=budgets(timeouts=1), in_flight=4),
    "two leaders": Bound(initial="deposed", budgets=budgets(reads=1, appends=1, timeouts=1), in_flight=3),
    "divergence and crashes": Bound(initial="diverged", budgets=budgets(crashes=1), in_flight=4),
    "voters and timeouts": Bound(
        initial="dynamic", budgets=budgets(voter_changes=1, timeouts=1), in_flight=4
    ),
    "observer": Bound(
        initial="elected", budgets=budgets(timeouts=2, appends=1), voters=2, observers=1, in_flight=4
    ),
    "loading": Bound(initial="loading", budgets=budgets(timeouts=2), epochs=1, batches=1, in_flight=3),
    "checking": Bound(
        initial="checking", budgets=budgets(timeouts=2, damages=1), epochs=1, batches=1, in_flight=3
    ),
    "late timer": Bound(initial="late timer", budgets=budgets(ticks=1), epochs=1, batches=1, in_flight=4),
    "snapshots, crashes and timeouts": Bound(
        initial="behind the start", budgets=budgets(crashes=1, timeouts=1, appends=1), in_flight=4
    ),
}
"""Half an hour or more."""

SUITES: Final[Mapping[str, Suite]] = {"small": SMALL, "ci": CI, "large": LARGE}
