"""Values that must be there, checked also where Python leaves out `assert` (-O)."""

from typing import TypeVar

T = TypeVar("T")


def present(value: T | None, what: str) -> T:
    """Return `value`. Raise AssertionError if it is None: a bug of ours."""
    if value is None:
        raise AssertionError(f"{what} is missing")
    return value
