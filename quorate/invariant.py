"""Checks of our own logic, which always run. Python drops `assert` under -O, and safety must not depend on
a flag."""

from itertools import pairwise


class InvariantError(Exception):
    """A rule of the protocol does not hold here: a bug, or a peer that breaks the promises the protocol rests
    on.

    The node must stop: its state may be half changed. Restart it from disk; if that fails again, rebuild it
    as a new replica.
    """


def invariant(condition: bool, message: str, **values: object) -> None:
    """Raise InvariantError with `message` and the `values` unless `condition` holds."""
    if not condition:
        shown = ", ".join(f"{name}={value!r}" for name, value in values.items())
        raise InvariantError(f"{message} ({shown})" if shown else message)


def ordered(**values: int) -> None:
    """Raise InvariantError unless each value is at most the next one. The names are for the message."""
    for (lower, low), (upper, high) in pairwise(values.items()):
        if low > high:
            names = f"{lower} <= {upper}".replace("_", " ")
            invariant(False, f"not in order: {names}", **{lower: low, upper: high})
