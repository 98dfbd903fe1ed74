"""The filter of ListGroups, by state and type (KIP-518, KIP-848)."""

from collections.abc import Iterable
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


class GroupFilter:
    """The states and types asked for, in any case; none: all. A name that no group can have matches none."""

    def __init__(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> None:
        self._states = {name.lower() for name in states}
        self._types = {name.lower() for name in types}

    @classmethod
    def steps(cls, *, states: Iterable[str], types: Iterable[str]) -> Steps[Self]:
        """Make the filter of any number of names."""
        made = cls()
        for names, into in ((states, made._states), (types, made._types)):
            for name in names:
                into.add(name.lower())
                yield
        return made

    def __contains__(self, group: ListedGroup) -> bool:
        return (not self._states or group.state.lower() in self._states) and (
            not self._types or group.group_type.lower() in self._types
        )
