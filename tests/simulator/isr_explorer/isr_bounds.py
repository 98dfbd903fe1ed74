"""The bounds of an exploration of the ISR protocol, and what it begins with."""

import enum
from dataclasses import dataclass, fields


class Allowance(enum.IntEnum):
    """What may happen a limited number of times on the way to any state."""

    PRODUCES = 0
    LAGS = 1
    FENCES = 2
    KILLS = 3
    POWER_LOSSES = 4
    FOLDERS = 5
    SHUTDOWNS = 6
    GIVEN_UP = 7
    TAKEOVERS = 8
    UNREGISTRATIONS = 9
    REASSIGNMENTS = 10
    CONFIGS = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowances:
    """How often each may happen."""

    produces: int = 0
    """Records appended with acks=all."""
    lags: int = 0
    """Lag times that pass for a leader, which then scans its ISR."""
    fences: int = 0
    """Sessions that run out, of dead brokers and of living ones."""
    kills: int = 0
    """Processes killed."""
    power_losses: int = 0
    """Hosts that lose power, with or without the records that were not synced."""
    folders: int = 0
    """Directories that fail, disappear, come back, or are put back empty."""
    shutdowns: int = 0
    """Controlled shutdowns, and processes that stop in order without waiting for the controller."""
    given_up: int = 0
    """Connections that break: no answer comes, and the request may still arrive, or has."""
    takeovers: int = 0
    """Controllers that take over, and know of chores what the metadata says."""
    unregistrations: int = 0
    reassignments: int = 0
    """New targets, and cancellations."""
    configs: int = 0
    """Changes of min.insync.replicas (to 1, and back)."""

    def counts(self) -> tuple[int, ...]:
        """Return the counts in the order of `Allowance`."""
        return tuple(int(getattr(self, each.name)) for each in fields(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrBound:
    """An exhaustive exploration: what it begins with, and all that may follow within these limits."""

    allowances: Allowances
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
    """What an operation leaves to be done is done in its step, as in a small cluster; otherwise anything may
    come between, as in a large one."""
    targets: tuple[tuple[int, ...], ...] = ()
    """Of reassignments."""
    victims: tuple[int, ...] = (1, 2, 3)
    """The brokers that faults befall."""
    behind: int = 2
    """Images that a broker may be behind: the step that would make it more is out of bounds."""
    steps: int | None = None
    """The number of steps from the beginning; None is no bound."""
