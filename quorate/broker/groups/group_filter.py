"""The filter of ListGroups, by state and type (KIP-518, KIP-848)."""

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from quorate.runtime import Steps

CLASSIC: Final = "classic"
"""The type of all groups served here."""


class ListedGroup(NamedTuple):
    """A group as ListGroups shows it. A tuple, for there may be many."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str = CLASSIC


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """The states and types of the groups to list, in lower case. Without states, groups of any state are
    listed, and so with types."""

    states: Set[str] = frozenset()
    types: Set[str] = frozenset()

    @classmethod
    def steps(cls, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> Steps[Self]:
        """Make the filter of any number of names in any case. A name that no group can have matches none."""
        lowered: tuple[set[str], set[str]] = (set(), set())
        for names, into in zip((states, types), lowered, strict=True):
            for name in names:
                into.add(name.lower())
                yield
        return cls(*lowered)

    def __contains__(self, group: ListedGroup) -> bool:
        return (not self.states or group.state.lower() in self.states) and (
            not self.types or group.group_type.lower() in self.types
        )
