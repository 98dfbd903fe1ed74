"""Numbers for things, so that states are short and each thing is kept once."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Table(Generic[T]):
    """Equal things, by `identity`, have one number, counted from 0."""

    __slots__ = ("_identity", "_numbers", "_things")

    def __init__(self, identity: Callable[[T], Hashable] = lambda thing: thing) -> None:
        self._identity = identity
        self._numbers: dict[Hashable, int] = {}
        self._things: list[T] = []

    def number(self, thing: T) -> int:
        key = self._identity(thing)
        number = self._numbers.get(key)
        if number is None:
            number = len(self._things)
            self._numbers[key] = number
            self._things.append(thing)
        return number

    def __getitem__(self, number: int) -> T:
        return self._things[number]

    def __len__(self) -> int:
        return len(self._things)
