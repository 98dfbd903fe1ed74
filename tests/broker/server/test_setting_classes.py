"""The classes of settings: their defaults, their reading, and the keys that are collected from them."""

from dataclasses import dataclass

import pytest

from quorate.broker.settings.config_key import REQUIRED, int_key, list_key, seconds, text_key
from quorate.broker.settings.setting import keys_of, nested, read, setting, shared

TIMEOUT = int_key("timeout.ms", 1500, "The timeout.", low=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    timeout_s: float = setting(TIMEOUT.into(seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    name: str = setting(text_key("name", "n", "The name."))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer(Base):
    ROLES = list_key("roles", REQUIRED, "The roles.")
    first: int = setting(int_key("first", 1, "The first.", low=0))
    inner: Inner = nested(Inner)
    timeout_ms: int = shared(TIMEOUT)
    ours: int = 3


def test_a_class_of_settings_has_the_defaults_of_its_keys() -> None:
    assert Outer() == Outer(name="n", first=1, inner=Inner(timeout_s=1.5), timeout_ms=1500, ours=3)


def test_a_class_of_settings_is_read_from_the_texts_of_its_keys() -> None:
    held = read(Outer, {"name": "m", "first": " 2 ", "timeout.ms": "250"})
    assert held == Outer(name="m", first=2, inner=Inner(timeout_s=0.25), timeout_ms=250)


def test_each_key_is_collected_from_the_class_that_declares_it() -> None:
    assert [key.name for key in keys_of(Outer)] == ["roles", "first", "timeout.ms"]
    assert [key.name for key in keys_of(Base)] == ["name"]


@pytest.mark.parametrize(("text", "says"), [("0", "between 1 and"), ("1s", "a whole number")])
def test_a_key_in_another_unit_keeps_its_check(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        TIMEOUT.into(seconds).check(text)
