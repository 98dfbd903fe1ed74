"""Reports of failed directories to the controller. Without them the broker would lead partitions that it
can't serve (KIP-858)."""

import uuid
from collections.abc import Callable, Iterable
from typing import Final

import trio

from quorate.runtime import uuid_text

_AGAIN_SECONDS: Final = 1.0
"""The pause between two checks of unreported directories for leaders."""


class UnreportedFailureError(Exception):
    """The broker could not report a failed directory to the active controller in time. It stops, so that its
    session ends and other brokers lead the partitions of the directory."""


class FailureReports:
    """The reports of failed directories. `run` raises if one with leaders in it is not reported in time."""

    def __init__(self, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._reported: set[uuid.UUID] = set()
        self._unreported: dict[uuid.UUID, float] = {}
        """Since when."""
        self._wake = trio.Event()

    def failed(self, directories: Iterable[uuid.UUID]) -> None:
        """All that have failed since the start."""
        for each in directories:
            if each not in self._reported:
                self._unreported.setdefault(each, trio.current_time())
        self._wake.set()

    def reported(self, directories: Iterable[uuid.UUID]) -> None:
        """The controller has answered a heartbeat that named these."""
        for each in directories:
            self._reported.add(each)
            self._unreported.pop(each, None)

    async def run(self, leads_in: Callable[[uuid.UUID], bool]) -> None:
        """Run until cancelled. `leads_in`: whether this broker leads a partition, as far as it knows, whose
        replica is there. Raises `UnreportedFailureError`."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while self._unreported:
                self._check(leads_in)
                await trio.sleep(_AGAIN_SECONDS)

    def _check(self, leads_in: Callable[[uuid.UUID], bool]) -> None:
        now = trio.current_time()
        for directory, since in self._unreported.items():
            if now - since >= self._timeout_s and leads_in(directory):
                raise UnreportedFailureError(
                    f"the controller could not be told for {self._timeout_s:g} s "
                    f"(log.dir.failure.timeout.ms) that directory {uuid_text(directory)} of log.dirs has "
                    "failed, and this broker leads partitions in it; see the errors logged before, find out "
                    "why no controller answers, and start again"
                )
