"""Bounds of a message's field, written on its type: `level: Annotated[int, Integer(bits=16, low=0)]`.

The codec of the message, `quorate.cbor`, refuses what is outside of them. A type checker passes over them.
"""

import enum
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Integer:
    """Signed integers of `bits`, from `low` to `high` (both inclusive) where they are given."""

    bits: int = 32
    low: int | None = None
    high: int | None = None

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest, both inclusive."""
        limit = 1 << (self.bits - 1)
        return -limit if self.low is None else self.low, limit - 1 if self.high is None else self.high


@dataclass(frozen=True, slots=True)
class Most:
    """The greatest number of characters of a string, of bytes, or of values of a tuple."""

    count: int


@dataclass(frozen=True, slots=True)
class Only:
    """The members of an enum that are taken, if not all."""

    members: Collection[enum.IntEnum]


@dataclass(frozen=True, slots=True)
class Numbered:
    """The number of a field, if it is not the one after that of the field before: numbers in between belonged
    to fields that are gone, and are not used again. No bound, but written in the same place."""

    number: int


Bound = Integer | Most | Only
