"""The bounds of explorations of the ISR protocol, and the suites of them. Figures:
docs/explanation/verification."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from tests.simulator.explorer.model import counts_of


class Budget(enum.IntEnum):
    """The actions that may happen a limited number of times on the way to any state."""

    PRODUCES = 0
    """Records appended with acks=all."""
    LAGS = 1
    """Lag times that pass for a leader, which then scans its ISR."""
    FENCES = 2
    """Sessions that run out, of dead brokers and of living ones."""
    KILLS = 3
    """Processes killed."""
    POWER_LOSSES = 4
    """Hosts that lose power, with or without the records that were not synced."""
    FOLDERS = 5
    """Directories that fail, disappear, come back, or are put back empty."""
    SHUTDOWNS = 6
    """Controlled shutdowns, and processes that stop in order without waiting for the controller."""
    GIVEN_UP = 7
    """Connections that break: no answer comes, and the request may still arrive, or has."""
    TAKEOVERS = 8
    """Controllers that take over, and know only the chores that the metadata shows."""
    UNREGISTRATIONS = 9
    REASSIGNMENTS = 10
    """New targets, and cancellations."""
    CONFIGS = 11
    """Changes of min.insync.replicas (to 1, and back)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrBound:
    """An exhaustive exploration: an initial state, and all that may follow within these limits."""

    budgets: tuple[int, ...] = counts_of(Budget, {})
    brokers: int = 3
    replicas: tuple[int, ...] = (1, 2, 3)
    isr: tuple[int, ...] = (1, 2, 3)
    """At the beginning; the first of them leads."""
    records: int = 0
    """Committed before, in the logs of `isr` alone."""
    directories: int = 1
    """Directories of each broker."""
    min_isr: int = 1
    unclean: bool = False
    at_once: bool = True
    """The chores of an operation are done in its step, as in a small cluster. Otherwise anything may come
    between, as in a large one."""
    targets: tuple[tuple[int, ...], ...] = ()
    """The targets of reassignments."""
    victims: tuple[int, ...] = (1, 2, 3)
    """The brokers that faults befall."""
    behind: int = 2
    """Images that a broker may be behind: the step that would make it more is out of bounds."""
    steps: int | None = None
    """The number of steps from the beginning; None is no bound."""


IsrSuite = Mapping[str, IsrBound]

_PAIR: Final = IsrBound(brokers=2, replicas=(1, 2), isr=(1, 2), victims=(1,), records=1)
"""Both are in sync, and the follower has not heard that the record is committed."""
_ALONE: Final = replace(_PAIR, isr=(1,), victims=(2,))
"""The follower has nothing yet."""
_MIN_TWO: Final = replace(_PAIR, min_isr=2)
"""A replica that leaves the ISR stays eligible (KIP-966)."""
_MOVING: Final = replace(_PAIR, brokers=3, targets=((1, 3),))
_TRIO: Final = IsrBound(isr=(1, 2), victims=(1,), records=1)
"""The third is behind."""


def _bounded(bound: IsrBound, **limits: int) -> IsrBound:
    return replace(bound, budgets=counts_of(Budget, limits))


_SMALL: Final[IsrSuite] = {
    "join": _bounded(_ALONE, produces=1, lags=1),
    "shrink": _bounded(_PAIR, produces=1, lags=1),
    "fence": _bounded(_PAIR, produces=1, fences=1),
    "kill": _bounded(replace(_ALONE, victims=(1,)), kills=1, fences=1),
    "power": _bounded(replace(_ALONE, victims=(1,)), power_losses=1),
    "directory": _bounded(replace(_PAIR, directories=2), kills=1, folders=1),
    "reassignment": _bounded(_MOVING, reassignments=1),
}
"""Seconds, for the suite of tests."""

_CI: Final[IsrSuite] = {
    "three brokers": _bounded(replace(_TRIO, isr=(1, 2, 3)), produces=1, given_up=1),
    "first offset of an epoch": replace(_bounded(replace(_TRIO, min_isr=2), fences=1), steps=18),
    "killed leader": _bounded(_PAIR, produces=1, kills=1, fences=1),
    "killed follower": _bounded(replace(_PAIR, victims=(2,)), produces=1, kills=1, lags=1),
    "power of the leader": _bounded(_PAIR, produces=1, power_losses=1),
    "power of the follower": _bounded(_ALONE, power_losses=1, given_up=1),
    "power of a lone leader": _bounded(replace(_ALONE, victims=(1,)), produces=1, power_losses=1, fences=1),
    "power of an eligible replica": _bounded(_MIN_TWO, power_losses=1, fences=1),
    "failing directory": _bounded(replace(_PAIR, directories=2), produces=1, folders=1),
    "lost directory": _bounded(replace(_ALONE, victims=(1,), directories=2), kills=1, folders=1, fences=1),
    "lost directory of an eligible replica": _bounded(
        replace(_MIN_TWO, directories=2), kills=1, folders=1, fences=1
    ),
    "replaced disk": _bounded(_PAIR, produces=1, kills=1, folders=1),
    "late registration": _bounded(replace(_ALONE, victims=(1,)), kills=2, fences=1),
    "unregistered broker": _bounded(
        replace(_MIN_TWO, victims=(2,)), kills=1, fences=1, folders=1, unregistrations=1
    ),
    "refused question": _bounded(_ALONE, produces=1, fences=1),
    "late question": _bounded(_ALONE, produces=1, fences=1, given_up=1),
    "question without an answer": _bounded(_ALONE, produces=1, lags=1, given_up=1),
    "diverging logs": _bounded(_PAIR, produces=2, fences=1),
    "unclean election": _bounded(replace(_ALONE, victims=(1,), unclean=True), produces=1, fences=1),
    "two unclean elections": _bounded(replace(_PAIR, victims=(1, 2), unclean=True), fences=2),
    "controlled shutdown": _bounded(_MIN_TWO, produces=1, shutdowns=1),
    "settings": _bounded(replace(_MIN_TWO, victims=(2,), at_once=False), produces=1, fences=1, configs=1),
    "reassignment": _bounded(_MOVING, produces=1, reassignments=2),
    "reassignment and a fence": _bounded(_MOVING, reassignments=1, fences=1),
    "chores that another takes over": _bounded(replace(_PAIR, at_once=False), kills=1, fences=1, takeovers=1),
}
"""A minute or two."""

_LARGE: Final[IsrSuite] = {
    "three brokers": replace(
        _bounded(replace(_TRIO, isr=(1, 2, 3)), produces=1, lags=1, given_up=1), steps=22
    ),
    "first offset of an epoch": _bounded(replace(_TRIO, min_isr=2), fences=1),
    "killed leader": _bounded(_PAIR, produces=2, kills=1, fences=2),
    "killed pair": _bounded(replace(_PAIR, victims=(1, 2)), produces=1, kills=2, fences=1),
    "power and kills": _bounded(_MIN_TWO, produces=1, power_losses=1, kills=1, fences=1),
    "lost directory of an eligible replica": _bounded(
        replace(_MIN_TWO, directories=2), produces=1, kills=1, folders=2, fences=1
    ),
    "late question": _bounded(_ALONE, produces=2, fences=1, lags=1, given_up=1),
    "late registration": _bounded(replace(_ALONE, victims=(1,)), kills=3, fences=1),
    "chores that another takes over": _bounded(
        replace(_PAIR, at_once=False), produces=1, kills=1, fences=1, takeovers=1
    ),
}
"""An hour or so; no run has seen its end."""

ISR_SUITES: Final[Mapping[str, IsrSuite]] = {"small": _SMALL, "ci": _CI, "large": _LARGE}
