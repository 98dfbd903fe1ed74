"""Which events were given to which roles."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from quorate.raft.core.effects import Role
from quorate.raft.core.events import Event, Received, TimerFired, TimerKind

Pair = tuple[Role, str]


def kind_of(event: Event) -> str:
    match event:
        case Received():
            return type(event.message).__name__
        case TimerFired():
            return f"{event.timer.kind.value} timer"
        case _:
            return type(event).__name__


class Coverage:
    """Distinct (machine, event) pairs by role and kind of event."""

    def __init__(self) -> None:
        self.counts: Counter[Pair] = Counter()

    def saw(self, role: Role, event: Event) -> None:
        self.counts[role, kind_of(event)] += 1
