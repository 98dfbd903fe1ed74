"""Forked processes: copies of a process without its threads and tasks."""

import os
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """An object that must know if it is a copy in a forked process."""

    def forked(self) -> None:
        """Note that this process is a copy, without the threads, tasks and connections of the original."""
        ...


_known: WeakSet[Forkable] = WeakSet()


def tell_forked(each: Forkable) -> None:
    """Call the object's `forked` method in every child process, before other code runs there. The reference
    to the object is weak."""
    _known.add(each)


def _tell_all() -> None:
    for each in list(_known):
        each.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tell_all)
