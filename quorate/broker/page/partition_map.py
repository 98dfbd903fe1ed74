"""The map of all partitions that the page shows, as JSON. It is made in steps, so that the event loop is not
held, and again only of the topics that have changed.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.states import PartitionState
from quorate.broker.page.page_state import BEHIND, MOVING, OFFLINE, Json, Seen, partition_value, state_of
from quorate.runtime import Steps

LISTED_MAX: Final = 200
"""Partitions of a state that are told in full."""
_AT_A_TIME: Final = 50


@dataclass(frozen=True, slots=True)
class _Sick:
    """A partition that is told in full if there are not too many."""

    number: int
    states: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Row:
    """What the map has of a topic."""

    partitions: Sequence[PartitionState]
    """What it was made of. Images share it with their copies until one of them changes the topic."""
    text: str
    sick: tuple[_Sick, ...]


@dataclass(slots=True)
class _Listed:
    """The partitions of one state that are told in full, and the number of all."""

    total: int = 0
    first: list[Json] = field(default_factory=list)

    def add(self, topic: str, number: int, partitions: Sequence[PartitionState]) -> None:
        self.total += 1
        if len(self.first) < LISTED_MAX:
            self.first.append({"topic": topic, "partition": number, **partition_value(partitions[number])})

    @property
    def value(self) -> Json:
        return {"total": self.total, "first": self.first}


class PartitionMap:
    """Keeps the rows of the last map, and with them the partitions of its image."""

    def __init__(self) -> None:
        self._rows: dict[str, _Row] = {}
        self._active: frozenset[int] = frozenset()
        self.made = 0
        """The number of rows that were made so far."""

    def of(self, seen: Seen) -> Steps[bytes]:
        """Make the map: of each topic, by its name, a digit and a leader for each partition. The sick and the
        moving ones are told in full as well. Nobody may change the image any more, only copies of it."""
        image = seen.image
        active = frozenset(each.broker_id for each in image.brokers.values() if not each.fenced)
        # Others may make a map meanwhile: each leaves whole rows behind.
        known = self._rows if active == self._active else {}
        rows: dict[str, _Row] = {}
        listed = {OFFLINE: _Listed(), BEHIND: _Listed(), MOVING: _Listed()}
        for count, name in enumerate(sorted(image.topic_names())):
            partitions = image.named_partitions(name)
            row = known.get(name)
            if row is None or row.partitions is not partitions:
                row = yield from _made(image, name, partitions)
                self.made += 1
                if len(partitions) > _AT_A_TIME // 2:
                    yield
            rows[name] = row
            for at, sick in enumerate(row.sick):
                for state in sick.states:
                    listed[state].add(name, sick.number, partitions)
                if at % _AT_A_TIME == _AT_A_TIME - 1:
                    yield
            if count % 10 == 0:
                yield
        self._rows, self._active = rows, active
        told = {
            "offline": listed[OFFLINE].value,
            "behind": listed[BEHIND].value,
            "moving": listed[MOVING].value,
        }
        yield
        head = json.dumps({"offset": seen.offset, **told}, separators=(",", ":"))
        yield
        return f'{head[:-1]},"topics":[{",".join(row.text for row in rows.values())}]}}'.encode()


def _made(image: MetadataImage, name: str, partitions: Sequence[PartitionState]) -> Steps[_Row]:
    states: list[str] = []
    leaders: list[str] = []
    sick: list[_Sick] = []
    for number, partition in enumerate(partitions):
        state = state_of(image, partition)
        states.append(state)
        leaders.append(str(partition.leader))
        told = (state,) if state in (OFFLINE, BEHIND, MOVING) else ()
        if partition.is_reassigning and state != MOVING:
            told = (*told, MOVING)
        if told:
            sick.append(_Sick(number, told))
        if number % _AT_A_TIME == _AT_A_TIME - 1:
            yield
    text = f'[{json.dumps(name)},"{"".join(states)}",[{",".join(leaders)}]]'
    return _Row(partitions, text, tuple(sick))
