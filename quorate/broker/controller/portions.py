"""A long request in portions of a few items: each is decided by itself, and the answers are joined."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeVar

T = TypeVar("T")


def portions(
    items: Sequence[T], *, most: int, cost: Callable[[T], int] | None = None
) -> Iterator[tuple[T, ...]]:
    """Yield the items in order, in runs that cost `most` or less together, or that are one item. Without
    items there is one run, which is empty. `cost`: 1 by default; it is called when the turn of the item
    comes."""
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
    """Return the parts' answers together."""
    return tuple(chain.from_iterable(parts))


def joined_once(parts: Iterable[tuple[T, ...]], key: Callable[[T], Hashable]) -> tuple[T, ...]:
    """Return the parts' answers together, those of one `key` once: an item that is named twice is refused
    once, even in two portions."""
    return tuple({key(each): each for each in joined(parts)}.values())
