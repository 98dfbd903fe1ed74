"""Frozen dataclasses at the cost of plain ones.

A frozen dataclass of the standard library sets each field by a call, which came to a tenth of the time that a
node spends on a lone commit: that makes some forty events, effects and messages. Type checkers see
`dataclass` and refuse assignments. At run time the classes are plain ones with the same equality and hash, so
nothing may assign to a field of one.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as value
else:
    from dataclasses import dataclass

    def value(*, frozen: bool, **options: bool):
        return dataclass(unsafe_hash=frozen, **options)


__all__ = ["value"]
