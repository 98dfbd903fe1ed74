"""A long request, a few items at a time: each is decided by itself, and its answer is put together again."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeVar

T = TypeVar("T")


def portions(
    items: Sequence[T], *, most: int, cost: Callable[[T], int] | None = None
) -> Iterator[tuple[T, ...]]:
    """The items in order, in runs that cost `most` or less together, or that are one item. At least one run,
    of nothing if there is nothing. `cost`: 1 by default, asked for when the item's turn comes."""
    portion: list[T] = []
    total = 0
    for item in items:
        weight = 1 if cost is None else cost(item)
        if portion and total + weight > most:
            yield tuple(portion)
            portion, total = [], 0
        portion.append(item)
        total += weight
    yield tuple(portion)


def joined(parts: Iterable[tuple[T, ...]]) -> tuple[T, ...]:
    """The parts' answers, together again."""
    return tuple(chain.from_iterable(parts))


def joined_once(parts: Iterable[tuple[T, ...]], key: Callable[[T], Hashable]) -> tuple[T, ...]:
    """Return the parts' answers together, those of one `key` once: what is asked for twice is refused once,
    in whichever portions it is."""
    return tuple({key(each): each for each in joined(parts)}.values())
