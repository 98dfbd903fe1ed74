"""The copies of a process that fork makes of itself, in which nothing that was running runs."""

import os
from typing import Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """Something that is told so in the child."""

    def forked(self) -> None:
        """This process is a copy: threads, tasks and connections are the other's."""
        ...


_known: WeakSet[Forkable] = WeakSet()


def tell_forked(each: Forkable) -> None:
    """Call the object's `forked` method in every child process, before other code runs there. The reference
    to the object is weak."""
    _known.add(each)


def _tell() -> None:
    for each in list(_known):
        each.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tell)
