"""A configuration key: the row of the tables in `topic_keys` and `config_keys`.

Code, error messages, DescribeConfigs and docs/reference/configuration.md are all made from these rows, so
that a key can't be documented otherwise than it works.
"""

import enum
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

LONG_MAX: Final = (1 << 63) - 1
INT_MAX: Final = (1 << 31) - 1
_WHOLE_NUMBER: Final = re.compile(r"\s*[+-]?[0-9]{1,19}\s*")


class ValueType(enum.IntEnum):
    """Kafka's numbers for config types in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Effect(enum.Enum):
    """The effect of setting a key."""

    EFFECTIVE = "effective"
    """What its sentence says."""
    NONE = "no effect"
    """Nothing. It is taken because programs send it, and what they would get without it is as good."""
    REFUSED = "refused"
    """It can't be set: it asks for what isn't there, and to ignore it would do harm."""


class UpdateMode(enum.Enum):
    """How a key of a broker may change, in Kafka's words (KIP-226)."""

    READ_ONLY = "read-only"
    """In server.properties, with a restart."""
    CLUSTER_WIDE = "cluster-wide"
    """While brokers run: for one broker, or for all of them."""


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker key that sets a topic key's default, its value times `factor` (hours in ms)."""

    name: str
    factor: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """One key. Every sentence ends in a full stop."""

    name: str
    type: ValueType
    default: str | None
    """As it would stand in a file; "" is empty, None: it must be set."""
    check: Callable[[str], None]
    """Raises `ValueError` for a value that may not stand here, saying what may."""
    doc: str
    effect: Effect = Effect.EFFECTIVE
    why: str = ""
    """Why it has no effect, or is refused and what to do instead. Of an effective key: what Kafka does
    besides."""
    kafkas_default: str | None = None
    """Where Kafka's is another."""
    ours: bool = False
    """Whether Kafka has no such key."""
    update: UpdateMode = UpdateMode.READ_ONLY
    """Of a broker's key: how it may change."""
    synonyms: tuple[Synonym, ...] = ()
    """Of a topic's key: the brokers' keys that set its default. The first that is set wins."""

    @property
    def initial(self) -> str:
        """The default, "" where there is none."""
        return self.default or ""

    @property
    def difference(self) -> str:
        """The difference from Kafka's key of this name; "" if there is none."""
        if self.ours:
            return "Kafka has no such key."
        parts = []
        if self.effect is not Effect.EFFECTIVE:
            parts.append(f"{self.effect.value.capitalize()}: {self.why}")
        elif self.why:
            parts.append(self.why)
        if self.kafkas_default is not None:
            parts.append(f"Kafka's default: `{self.kafkas_default}`.")
        return " ".join(parts)


# Checks


def number(low: int, high: int) -> Callable[[str], None]:
    """A whole number; both bounds are inclusive."""

    def check(value: str) -> None:
        if _WHOLE_NUMBER.fullmatch(value) is None:
            raise ValueError("it must be a whole number")
        if not low <= int(value) <= high:
            raise ValueError(f"it must be between {low} and {high}")

    return check


def real_number(value: str) -> float:
    """Return the number. `float` alone takes digits of every script, and underscores between them, which
    other programs that read the value don't."""
    if not value.isascii() or "_" in value:
        raise ValueError("it must be a number")
    try:
        return float(value)
    except ValueError:
        raise ValueError("it must be a number") from None


def ratio(value: str) -> None:
    if not 0 <= real_number(value) <= 1:
        raise ValueError("it must be between 0 and 1")


def true_or_false(value: str) -> None:
    if value.strip().lower() not in ("true", "false"):
        raise ValueError("it must be true or false")


def choice(*allowed: str) -> Callable[[str], None]:
    def check(value: str) -> None:
        if value not in allowed:
            raise ValueError(f"it must be one of: {', '.join(allowed)}")

    return check


def choices(*allowed: str) -> Callable[[str], None]:
    def check(value: str) -> None:
        items = split_list(value)
        if not items or any(item not in allowed for item in items):
            raise ValueError(f"it must be one or more of: {', '.join(allowed)}")

    return check


def only(allowed: str, why: str) -> Callable[[str], None]:
    """One value, because nothing else is there: `why` says so, and what to do instead."""

    def check(value: str) -> None:
        if value.strip().lower() != allowed.lower():
            raise ValueError(f"only {allowed or 'an empty value'} can be had: {why}")

    return check


def anything(value: str) -> None:
    """Every text is fine."""


def not_empty(value: str) -> None:
    if not value:
        raise ValueError("it must not be empty")


def never(value: str) -> None:
    """The check of a key that is always refused: its `why` is the message."""


def split_exactly(value: str) -> tuple[str, ...]:
    """Split at commas as AlterConfigs does: blanks belong to the items."""
    return tuple(item for item in value.split(",") if item)


def split_list(value: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in value.split(",") if item.strip())
