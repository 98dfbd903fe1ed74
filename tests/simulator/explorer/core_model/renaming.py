"""Nodes under other names: all values that name a node, with the names exchanged.

Values are dataclasses and named tuples, whose fields say by their types which numbers are ids of nodes.
"""

import enum
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TypeVar, cast, get_type_hints

from quorate.types import Endpoint, NodeId, VoterSet
from tests.simulator.explorer.core_model.explored_invariants import Past

T = TypeVar("T")


@cache
def _fields_of(kind: type) -> tuple[tuple[str, bool], ...]:
    """Return the names of the fields, each with whether it holds ids of nodes."""
    hints = get_type_hints(kind)
    names = tuple(each.name for each in fields(kind)) if is_dataclass(kind) else tuple(hints)
    return tuple((name, "NodeId" in str(hints[name])) for name in names)


class Renaming:
    """A map from nodes to new names. Mere order of ids becomes that of the new ids."""

    def __init__(self, names: Mapping[NodeId, NodeId], endpoints: Mapping[Endpoint, Endpoint]) -> None:
        self._names = names
        self._endpoints = endpoints

    def node(self, node: NodeId) -> NodeId:
        return self._names[node]

    def node_if_any(self, node: NodeId | None) -> NodeId | None:
        return None if node is None else self._names[node]

    def of(self, value: T) -> T:
        """Return the value in the new names. A number by itself is no id: rename that with `node`."""
        return cast("T", self._renamed(value))

    def _renamed(self, value: object) -> object:
        match value:
            case None | int() | str() | bytes() | enum.Enum():
                return value
            case Endpoint():
                return self._endpoints[value]
            case VoterSet():
                return VoterSet(tuple(sorted(map(self.of, value), key=lambda voter: voter.key.id)))
            case Past():
                leaders = sorted((epoch, self.node(leader)) for epoch, leader in value.leaders)
                return Past(self.of(value.committed), tuple(leaders), self.of(value.reads))
            case tuple() | frozenset() if not hasattr(value, "_fields"):
                return type(value)(map(self._renamed, value))
            case _ if is_dataclass(value) or isinstance(value, tuple):
                kind: type = type(value)
                return kind(
                    **{
                        name: (self._ids if holds_ids else self._renamed)(getattr(value, name))
                        for name, holds_ids in _fields_of(kind)
                    }
                )
            case _:
                raise TypeError(f"say how to rename {value!r}")

    def _ids(self, value: object) -> object:
        match value:
            case None:
                return None
            case int():
                return self._names[NodeId(value)]
            case tuple():
                return tuple(sorted(self._names[node] for node in value))
            case _:
                raise TypeError(f"say how to rename the ids in {value!r}")
