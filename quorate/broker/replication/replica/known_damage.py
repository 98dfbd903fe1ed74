"""The parts of a replica's log that are known to be damaged."""

from collections.abc import Iterator, Sequence

from quorate.log import DamagedRange
from quorate.types import Offset


class KnownDamage:
    """The ranges that a scrub found, in ascending order. Mutable; owned by the replica."""

    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        self._ranges: tuple[DamagedRange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __iter__(self) -> Iterator[DamagedRange]:
        return iter(self._ranges)

    def found(self, path: str, ranges: Sequence[DamagedRange]) -> list[DamagedRange]:
        """A segment was read anew: these are its ranges now. Return those that were not known."""
        known = {each.position for each in self._ranges if each.path == path}
        others = [each for each in self._ranges if each.path != path]
        self._ranges = tuple(sorted([*others, *ranges], key=_start))
        return [each for each in ranges if each.position not in known]

    def ahead(self, offset: int) -> DamagedRange | None:
        """The first range that ends above `offset`; it may begin there or below."""
        return next((each for each in self._ranges if each.end_offset > offset), None)

    def keep(self, start_offset: int, end_offset: int) -> None:
        """The log holds [`start_offset`, `end_offset`) now: forget what isn't in it any more."""
        if self._ranges:
            self._ranges = tuple(
                each
                for each in self._ranges
                if each.end_offset > start_offset and each.start_offset < end_offset
            )


def _start(found: DamagedRange) -> Offset:
    return found.start_offset
