"""Copies of the core's parts, and keys that tell two of them apart, both made from the slots."""

from collections.abc import Callable, Hashable, Mapping
from typing import ClassVar, Self


class Cloneable:
    """A part of the core. Every slot is in `clone`, and in `state_key` unless `derived` gives a reason.

    Values are immutable, or parts, or lists and sets of immutable values, or dicts of either.
    """

    __slots__ = ()

    _slots: ClassVar[tuple[str, ...]]
    _keyed: ClassVar[tuple[str, ...]]
    _derived: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, *, derived: Mapping[str, str] | None = None) -> None:
        """`derived`: reasons why two parts that differ in a slot behave alike, by slot."""
        super().__init_subclass__()
        cls._slots = tuple(name for each in cls.__mro__ for name in getattr(each, "__slots__", ()))
        cls._derived = {**cls._derived, **(derived or {})}
        cls._keyed = tuple(name for name in cls._slots if name not in cls._derived)
        if len(cls._slots) != len(cls._keyed) + len(cls._derived):
            raise TypeError(f"{cls.__name__} has not all of the slots {list(cls._derived)}")
        _COPIED[cls], _KEYED[cls] = cls.clone, cls.state_key

    def clone(self) -> Self:
        """An independent copy, which shares immutable values."""
        twin = object.__new__(type(self))
        for name in self._slots:
            value = getattr(self, name)
            copied = _COPIED.get(type(value))
            setattr(twin, name, value if copied is None else copied(value))
        return twin

    def state_key(self) -> Hashable:
        """Equal for two parts exactly if they behave alike from here on."""
        key: list[Hashable] = [type(self).__name__]
        for name in self._keyed:
            value = getattr(self, name)
            keyed = _KEYED.get(type(value))
            key.append(value if keyed is None else keyed(value))
        return tuple(key)


def _copied_dict(values: dict[object, object]) -> dict[object, object]:
    return {key: each.clone() if isinstance(each, Cloneable) else each for key, each in values.items()}


def _keyed_dict(values: dict[object, object]) -> Hashable:
    """Parts keep their order: the one that was not heard of for longest makes room."""
    parts = tuple([each.state_key() for each in values.values() if isinstance(each, Cloneable)])
    return parts or frozenset(values.items())


_COPIED: dict[type, Callable[..., object]] = {dict: _copied_dict, list: list.copy, set: set.copy}
_KEYED: dict[type, Callable[..., Hashable]] = {dict: _keyed_dict, list: tuple, set: frozenset}
