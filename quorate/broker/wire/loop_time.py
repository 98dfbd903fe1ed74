"""The time for which a request holds the event loop, for the quota `request_percentage` (KIP-124)."""

from collections.abc import Coroutine, Generator
from functools import partial
from types import coroutine
from typing import Protocol, TypeVar

import trio

from quorate.broker.wire.exchanges import RequestContext

T = TypeVar("T")


class RequestTimes(Protocol):
    """Counts the time that the requests of clients take of the event loop."""

    @property
    def counts(self) -> bool:
        """Whether any client has a quota of it. Without one nothing is measured."""
        ...

    def charge_time(self, context: RequestContext, seconds: float) -> float:
        """Count `seconds` for the client. Return how long it has to wait (s); its connection waits from now
        on."""
        ...


class NothingCounted:
    """The `RequestTimes` of a listener without quotas."""

    counts = False

    def charge_time(self, context: RequestContext, seconds: float) -> float:
        return 0.0


class LoopTime:
    """A stopwatch that runs while a coroutine has the event loop, and stands while it waits."""

    __slots__ = ("_began", "_seconds")

    def __init__(self) -> None:
        self._seconds = 0.0
        self._began: float | None = None

    def take(self) -> float:
        """Return the seconds since the last call, also from within the coroutine."""
        taken, self._seconds = self._seconds, 0.0
        if self._began is not None:
            now = trio.current_time()
            taken += now - self._began
            self._began = now
        return taken

    async def of(self, work: Coroutine[object, object, T]) -> T:
        """Run `work`, and count its steps."""
        return await self._steps(work)

    @coroutine
    def _steps(self, work: Coroutine[object, object, T]) -> Generator[object, object, T]:
        step = partial(work.send, None)
        while True:
            self._began = trio.current_time()
            try:
                asked = step()
            except StopIteration as finished:
                result: T = finished.value
                return result
            finally:
                self._seconds += trio.current_time() - self._began
                self._began = None
            try:
                step = partial(work.send, (yield asked))
            except BaseException as error:
                step = partial(work.throw, error)
