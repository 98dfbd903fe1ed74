"""The consequences of operations in many partitions, in pieces that any later controller can go on with."""

from quorate.broker.controller.chores.chores import LOOKS_PER_CHANGE, Chore, Chores

__all__ = ["LOOKS_PER_CHANGE", "Chore", "Chores"]
