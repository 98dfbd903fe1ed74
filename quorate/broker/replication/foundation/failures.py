"""The failures that the parts of replication tell each other of, as typed events.

A part that meets a failure reports it, and does not know its handlers. `Failures` is made before all other
parts. The handlers are subscribed in one place, when the parts are wired together (`wiring.py`).
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

F = TypeVar("F", bound="Failure")


@dataclass(frozen=True, slots=True)
class Failure:
    """Something that is wrong with a disk, or with what it holds."""


@dataclass(frozen=True, slots=True)
class DirectoryFailed(Failure):
    """A use of a directory of `log.dirs` has failed, for no open replica in it."""

    directory: uuid.UUID
    error: Exception


@dataclass(frozen=True, slots=True)
class OpeningFailed(Failure):
    """A log could not be opened or made, nor its folder removed."""

    topic: str
    partition_id: int
    error: Exception


@dataclass(frozen=True, slots=True)
class DamageFound(Failure):
    """A part of a replica's log, or all of it, can't be read as it was written. The disk works."""

    topic: str
    partition_id: int


class Failures:
    """Delivers each failure to the handlers of its kind.

    A report returns when every handler has returned: the failure counts from the same step of the event loop
    on. Otherwise a replica could acknowledge a record after its disk failed, or a heartbeat leave a failed
    directory out. So a handler never waits. It may report other failures.
    """

    __slots__ = ("_handlers",)

    def __init__(self) -> None:
        self._handlers: list[Callable[[Failure], None]] = []

    def subscribe(self, kind: type[F], handle: Callable[[F], None]) -> None:
        """Call `handle` with every failure of this kind, after the handlers that were subscribed before."""

        def handle_kind(failure: Failure) -> None:
            if isinstance(failure, kind):
                handle(failure)

        self._handlers.append(handle_kind)

    def report(self, failure: Failure) -> None:
        """Deliver the failure. Without a handler of its kind nothing happens."""
        for handle in self._handlers:
            handle(failure)
