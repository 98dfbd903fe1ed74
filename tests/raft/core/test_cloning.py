"""Clones and keys of the core's parts are made from their slots."""

import inspect
from collections.abc import Iterator

import pytest

from quorate.raft.core import Core
from quorate.raft.core.cloning import Cloneable


def _parts(base: type[Cloneable] = Cloneable) -> Iterator[type[Cloneable]]:
    for each in base.__subclasses__():
        if each.__module__.startswith(Core.__module__.rpartition(".")[0]) and not inspect.isabstract(each):
            yield each
        yield from _parts(each)


def _part(cls: type[Cloneable]) -> Cloneable:
    part: Cloneable = object.__new__(cls)
    for name in cls._slots:
        setattr(part, name, [name])
    return part


@pytest.mark.parametrize("cls", list(_parts()), ids=lambda cls: cls.__name__)
def test_each_slot_is_cloned_and_is_in_the_key_or_has_a_reason_not_to_be(cls: type[Cloneable]) -> None:
    part = _part(cls)
    twin = part.clone()
    assert type(twin) is cls
    assert twin.state_key() == part.state_key()
    for name in cls._slots:
        value = getattr(twin, name)
        assert value == [name]
        assert value is not getattr(part, name), f"the clone shares {name}"
        value.append("changed")
        assert (twin.state_key() == part.state_key()) == bool(cls._derived.get(name)), name
        value.pop()


def test_a_reason_needs_a_slot() -> None:
    with pytest.raises(TypeError, match="missing"):
        type("Part", (Cloneable,), {"__slots__": ("here",)}, derived={"missing": "there is none"})


def test_a_dict_of_values_has_no_order_and_one_of_parts_has() -> None:
    cls = next(_parts())
    one, other = _part(cls), _part(cls)
    name = cls._keyed[0]
    setattr(one, name, {1: "a", 2: "b"})
    setattr(other, name, {2: "b", 1: "a"})
    assert one.state_key() == other.state_key()
    first, second = _part(cls), _part(cls)
    setattr(second, name, "another")
    setattr(one, name, {1: first, 2: second})
    setattr(other, name, {2: second, 1: first})
    assert one.state_key() != other.state_key()
    twin = one.clone()
    assert getattr(twin, name)[1] is not first
