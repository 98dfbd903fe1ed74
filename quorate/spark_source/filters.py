"""The filters of a query that the source itself uses, to read and decode less.

Spark filters the rows again, so what is left out here need only be certain not to match.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import UUID

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

V = TypeVar("V")

_NO_END: Final = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What a query asks for. A row that is outside of it does not match."""

    first_offset: int = 0
    end_offset: int = _NO_END
    """Exclusive."""
    first_ms: int = -_NO_END
    last_ms: int = _NO_END
    """Inclusive."""
    types: frozenset[str] | None = None
    """Of records. None: all."""
    topics: frozenset[str] | None = None
    """Of partitions."""
    partitions: frozenset[int] | None = None

    def within(self, start: int, end: int) -> tuple[int, int]:
        """Return the part of the offsets [start, end) that is asked for."""
        first = min(max(start, self.first_offset), end)
        return first, max(first, min(end, self.end_offset))

    def wants_partition(self, topic: str, _topic_id: UUID, number: int) -> bool:
        """Return whether rows of this partition may match."""
        return (self.topics is None or topic in self.topics) and (
            self.partitions is None or number in self.partitions
        )


def used(filters: "Iterable[Filter]") -> Filters:
    """Return what the filters say that the source knows how to use."""
    known = Filters()
    for each in filters:
        column, low, high, values = _bounds(each)
        match column:
            case ("offset",):
                known = replace(
                    known,
                    first_offset=max(known.first_offset, _number_or(low, known.first_offset)),
                    end_offset=min(known.end_offset, _number_or(high, known.end_offset - 1) + 1),
                )
            case ("timestamp",):
                # The log counts ms, and a filter may be finer.
                known = replace(
                    known,
                    first_ms=max(known.first_ms, _number_or(low, known.first_ms) - 1),
                    last_ms=min(known.last_ms, _number_or(high, known.last_ms) + 1),
                )
            case ("type" | "recordType",):
                known = replace(known, types=_both(known.types, values, str))
            case (*_, "topic"):
                known = replace(known, topics=_both(known.topics, values, str))
            case (*_, "partition_id"):
                known = replace(known, partitions=_both(known.partitions, values, int))
    return known


def _bounds(each: "Filter") -> "tuple[tuple[str, ...], object, object, tuple[object, ...] | None]":
    """The column, the least and the greatest value that match, both inclusive, and all that do. None: not
    known."""
    from pyspark.sql import datasource as ds

    match each:
        # Null is equal to null: rows that lack the column match.
        case ds.EqualNullSafe(_, None):
            return (), None, None, None
        case ds.EqualTo(column, value) | ds.EqualNullSafe(column, value):
            return column, value, value, (value,)
        case ds.In(column, values):
            return column, None, None, values
        case ds.GreaterThan(column, value) | ds.GreaterThanOrEqual(column, value):
            return column, value, None, None
        case ds.LessThan(column, value) | ds.LessThanOrEqual(column, value):
            return column, None, value, None
    return (), None, None, None


def _number_or(value: object, otherwise: int) -> int:
    known = _number(value)
    return otherwise if known is None else known


def _number(value: object) -> int | None:
    match value:
        case bool():
            return None
        case int():
            return value
        case datetime():
            return int(value.timestamp() * 1000)
    return None


def _both(
    known: "frozenset[V] | None", values: "tuple[object, ...] | None", of: type[V]
) -> "frozenset[V] | None":
    if values is None:
        return known
    found = frozenset(each for each in values if isinstance(each, of))
    return found if known is None else known & found
