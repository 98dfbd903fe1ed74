"""Node ids that can be told from other numbers, so that a state can be renamed."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from quorate.raft.core.types import NodeId


class Name(int):
    """A node id. The core never computes with one, so it stays a `Name` in every key and message."""

    __slots__ = ()


def name(number: int) -> NodeId:
    return NodeId(Name(number))


def renamed(thing: Any, names: Mapping[int, NodeId]) -> Any:
    """`thing` (tuples, frozen dataclasses, values) with every `Name` in it replaced."""
    if isinstance(thing, Name):
        return names[thing]
    if isinstance(thing, tuple):
        return tuple(renamed(each, names) for each in thing)
    if isinstance(thing, frozenset):
        return frozenset(renamed(each, names) for each in thing)
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        fields = {each.name: renamed(getattr(thing, each.name), names) for each in dataclasses.fields(thing)}
        if "voters" in fields and isinstance(fields["voters"], tuple):
            # A VoterSet is a set that keeps an order.
            fields["voters"] = tuple(sorted(fields["voters"], key=lambda voter: int(voter.key.id)))
        return type(thing)(**fields)
    return thing
