"""Configuration keys: each is one row, made by a function of its type, such as `int_key`.

Code, error messages, DescribeConfigs and docs/reference/configuration.md are all made from these rows, so
that a key can't be documented otherwise than it works.
"""

import enum
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final, Generic, TypedDict, TypeVar, Unpack

T = TypeVar("T")
U = TypeVar("U")

LONG_MAX: Final = (1 << 63) - 1
INT_MAX: Final = (1 << 31) - 1
REQUIRED: Final = None
"""The default of a key that the file must set."""
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
    """The key does what its sentence says."""
    NONE = "no effect"
    """The key is accepted because programs send it, and nothing is lost without its effect."""
    REFUSED = "refused"
    """The key can't be set: it asks for a feature that is missing, and to ignore it would do harm."""


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
    """The default as a file would have it. "" is empty, None means that the key must be set."""
    check: Callable[[str], object]
    """Raises `ValueError` for a bad value. The message says what is allowed."""
    doc: str
    effect: Effect = Effect.EFFECTIVE
    why: str = ""
    """The reason why the key has no effect, or why it is refused and what to do instead. Of an effective key:
    what Kafka does besides."""
    kafkas_default: str | None = None
    """Kafka's default, if it differs."""
    ours: bool = False
    """True if Kafka has no such key."""
    update: UpdateMode = UpdateMode.READ_ONLY
    """How a broker's key may change."""
    synonyms: tuple[Synonym, ...] = ()
    """The brokers' keys that set the default of a topic's key. The first that is set wins."""
    example: str = ""
    """A value for the message that a required key is missing."""

    @property
    def initial(self) -> str:
        """The default, "" if there is none."""
        return self.default or ""

    @property
    def difference(self) -> str:
        """The difference from Kafka's key of this name, "" if there is none."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedKey(ConfigKey, Generic[T]):
    """A key with the type that its value has in code."""

    parse: Callable[[str], T]
    """Returns the value of a text that `check` accepts."""

    def into(self, convert: Callable[[T], U]) -> "TypedKey[U]":
        """Return this key with its value converted, such as ms into seconds."""
        parse = self.parse
        rest = {each.name: getattr(self, each.name) for each in fields(ConfigKey)}
        return TypedKey(**rest, parse=lambda text: convert(parse(text)))


class Options(TypedDict, total=False):
    """What a key may have besides its name, default and sentence."""

    check: Callable[[str], object]
    """Raises `ValueError` for a bad value, in place of the usual check."""
    kafkas: str
    """Kafka's default, if it differs."""
    ours: bool
    """True if Kafka has no such key."""
    dynamic: bool
    """True if the key may change while brokers run (KIP-226)."""
    why: str
    """What Kafka does besides."""
    no_effect: str
    """The reason why the key has no effect."""
    synonyms: tuple[str | Synonym, ...]
    """The brokers' keys that set the default of a topic's key. The first that is set wins."""
    example: str
    """A value for the message that a required key is missing."""


def key_of(
    kind: ValueType,
    name: str,
    default: object,
    doc: str,
    parse: Callable[[str], T],
    **options: Unpack[Options],
) -> TypedKey[T]:
    """A key of any type. Without a `check`, any text is a value. The functions below are for usual types."""
    no_effect = options.get("no_effect", "")
    return TypedKey(
        name=name,
        type=kind,
        default=None if default is REQUIRED else str(default),
        check=options.get("check", anything),
        doc=doc,
        effect=Effect.NONE if no_effect else Effect.EFFECTIVE,
        why=no_effect or options.get("why", ""),
        kafkas_default=options.get("kafkas"),
        ours=options.get("ours", False),
        update=UpdateMode.CLUSTER_WIDE if options.get("dynamic") else UpdateMode.READ_ONLY,
        synonyms=tuple(
            Synonym(each) if isinstance(each, str) else each for each in options.get("synonyms", ())
        ),
        example=options.get("example", ""),
        parse=parse,
    )


def int_key(
    name: str, default: int | None, doc: str, *, low: int, high: int = INT_MAX, **options: Unpack[Options]
) -> TypedKey[int]:
    """A whole number. Both bounds are inclusive."""
    options.setdefault("check", number(low, high))
    return key_of(ValueType.INT, name, default, doc, int, **options)


def long_key(
    name: str, default: int, doc: str, *, low: int, high: int = LONG_MAX, **options: Unpack[Options]
) -> TypedKey[int]:
    """A whole number that may have 64 bits. Both bounds are inclusive."""
    options.setdefault("check", number(low, high))
    return key_of(ValueType.LONG, name, default, doc, int, **options)


def real_key(name: str, default: str, doc: str, **options: Unpack[Options]) -> TypedKey[float]:
    """A number with a fraction."""
    return key_of(ValueType.DOUBLE, name, default, doc, float, **options)


def flag_key(name: str, default: bool, doc: str, **options: Unpack[Options]) -> TypedKey[bool]:
    """True or false."""
    options.setdefault("check", true_or_false)
    return key_of(ValueType.BOOLEAN, name, str(default).lower(), doc, is_true, **options)


def text_key(name: str, default: str, doc: str, **options: Unpack[Options]) -> TypedKey[str]:
    """A text."""
    return key_of(ValueType.STRING, name, default, doc, str, **options)


def password_key(name: str, doc: str, **options: Unpack[Options]) -> TypedKey[str]:
    """A secret, which no answer, log line or error shows. Default: none."""
    return key_of(ValueType.PASSWORD, name, "", doc, str, **options)


def list_key(
    name: str, default: str | None, doc: str, **options: Unpack[Options]
) -> TypedKey[tuple[str, ...]]:
    """Items separated by commas."""
    options.setdefault("check", not_empty if default is REQUIRED else anything)
    return key_of(ValueType.LIST, name, default, doc, split_list, **options)


def fixed_key(
    kind: ValueType, name: str, value: object, doc: str, reason: str, **options: Unpack[Options]
) -> TypedKey[str]:
    """A key that accepts only the value that already holds. `reason`: why, and what to do instead."""
    options["check"], options["no_effect"] = only(str(value), reason), f"{reason}."
    return key_of(kind, name, value, doc, str, **options)


def refused_key(kind: ValueType, name: str, doc: str, why: str) -> ConfigKey:
    """A key that can't be set. `why`: the reason, and what to do instead."""
    effect = Effect.REFUSED
    return ConfigKey(name=name, type=kind, default="", check=anything, doc=doc, effect=effect, why=why)


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
    """Return the number. `float` alone accepts digits of every script, and underscores between them, which
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
    """The check of a key with one possible value. `why`: the reason, and what to do instead."""

    def check(value: str) -> None:
        if value.strip().lower() != allowed.lower():
            raise ValueError(f"only {allowed or 'an empty value'} can be had: {why}")

    return check


def anything(value: str) -> None:
    """Every text is fine."""


def not_empty(value: str) -> None:
    if not value:
        raise ValueError("it must not be empty")


# Values


def is_true(value: str) -> bool:
    return value.strip().lower() == "true"


def seconds(ms: int) -> float:
    return ms / 1000


def split_exactly(value: str) -> tuple[str, ...]:
    """Split at commas as AlterConfigs does: blanks belong to the items."""
    return tuple(item for item in value.split(",") if item)


def split_list(value: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in value.split(",") if item.strip())
