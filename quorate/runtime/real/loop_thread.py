"""A trio loop on a thread of its own, for callers on other threads and in other loops.

It uses trio's own way in, `run_sync_soon`. docs/architecture.md says why not anyio's portal.
"""

import _thread
import atexit
import inspect
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

import trio

T = TypeVar("T")


class PatchedThreadsError(Exception):
    """Threads of this process are not those of the operating system (gevent, eventlet), and a loop on one of
    them would stop all others."""


class Mailbox:
    """Jobs for the thread of a loop, in the order of their posts. To wake a loop is a system call, so one
    wake-up takes all jobs that are there. A job must not raise."""

    __slots__ = ("_jobs", "_wake", "_woken")

    def __init__(self, wake: Callable[[Callable[[], None]], object]) -> None:
        """`wake`: makes the loop call its argument soon. It is called from any thread."""
        self._wake = wake
        self._jobs: deque[Callable[[], None]] = deque()
        self._woken = False

    def post(self, job: Callable[[], None]) -> None:
        self._jobs.append(job)
        if not self._woken:
            self._woken = True
            self._wake(self.drain)

    def drain(self) -> None:
        # Before the jobs are taken: a job that is posted behind the last one wakes the loop again.
        self._woken = False
        while True:
            try:
                job = self._jobs.popleft()
            except IndexError:  # or another thread has taken the last one, when the loop has ended
                return
            job()


class Job(Protocol):
    """A call as the loop sees it."""

    def begin(self, nursery: trio.Nursery) -> None:
        """Begin, in a task of the nursery or at once."""
        ...

    def refuse(self, error: Exception) -> None:
        """End with an error: the loop has ended."""
        ...


class _Call(Generic[T]):
    __slots__ = ("_done", "_error", "_value")

    def __init__(self, done: Callable[[], None]) -> None:
        self._done = done
        self._error: BaseException | None = None
        self._value: T

    def refuse(self, error: Exception) -> None:
        self._error = error
        self._done()

    def result(self) -> T:
        """Return the result, or raise the error. Only after `done`."""
        if self._error is not None:
            raise self._error
        return self._value


class ShortCall(_Call[T]):
    """A call that does not wait. It runs in the order of the posts. `done` is called on the loop's thread."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[], T], done: Callable[[], None]) -> None:
        super().__init__(done)
        self._function = function

    def begin(self, nursery: trio.Nursery) -> None:
        try:
            self._value = self._function()
        except BaseException as error:
            self._error = error
        self._done()


class TaskCall(_Call[T]):
    """A call in a task of its own. `done` is called on the loop's thread. `lost` makes the error of a call
    that the end of the loop has cut off."""

    __slots__ = ("_function", "_lost", "_scope")

    def __init__(
        self, function: Callable[[], Awaitable[T]], done: Callable[[], None], *, lost: Callable[[], Exception]
    ) -> None:
        super().__init__(done)
        self._function = function
        self._lost = lost
        self._scope: trio.CancelScope | None = None
        """That of its task, once it has begun."""

    def begin(self, nursery: trio.Nursery) -> None:
        self._scope = trio.CancelScope()
        nursery.start_soon(self._run, self._scope)

    def cancel(self) -> None:
        """Cancel it. Call this on the loop's thread, after the job was posted."""
        if self._scope is not None:
            self._scope.cancel()

    async def _run(self, scope: trio.CancelScope) -> None:
        try:
            with scope:
                self._value = await self._function()
            if scope.cancelled_caught:
                self._error = self._lost()
        except trio.Cancelled:
            self._error = self._lost()
            raise
        except BaseException as error:
            self._error = error
        finally:
            self._done()


class _PassEnd(trio.abc.Instrument):
    """Runs functions when the tasks of a pass of trio's loop have run, before it waits for more."""

    def __init__(self) -> None:
        self._functions: list[Callable[[], None]] = []

    def add(self, function: Callable[[], None]) -> None:
        self._functions.append(function)

    def before_io_wait(self, timeout: float) -> None:
        if self._functions:
            self.run()

    def run(self) -> None:
        functions, self._functions = self._functions, []
        for function in functions:
            function()


class LoopThread:
    """A thread that runs `main` on trio, and jobs of other threads beside it until `main` ends."""

    def __init__(self, main: Callable[[], Awaitable[None]], *, ended: Callable[[], Exception]) -> None:
        """`ended`: makes the error of a job that comes after the end. `main` must not raise."""
        self._main = main
        self._ended = ended
        self._scope = trio.CancelScope()
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self.is_over = False
        """True once no job runs any more."""
        self._mailbox = Mailbox(self._wake)
        self._pass_end = _PassEnd()
        self._thread = threading.Thread(target=self._run, name="quorate", daemon=True)
        self._on_end: Callable[[], None]
        self._at_exit: Callable[[], None]

    def start(self, *, on_end: Callable[[], None], at_exit: Callable[[], None]) -> None:
        """Start the thread. `on_end` is called on it at its end. `at_exit` is called if the interpreter exits
        before, and has to end it. Raises `PatchedThreadsError`."""
        if not inspect.isbuiltin(_thread.start_new_thread):
            raise PatchedThreadsError(
                "threads are patched in this process (gevent or eventlet), and a quorum needs one of the "
                "operating system's; use a worker class with real threads, such as gunicorn's gthread"
            )
        self._on_end = on_end
        self._at_exit = at_exit
        # The thread is a daemon, or the interpreter would wait for it before it says that it exits.
        atexit.register(at_exit)
        self._thread.start()

    def post(self, job: Job) -> None:
        """Begin a job on the thread. Jobs begin in the order of their posts, tasks in any order."""
        self._mailbox.post(lambda: self._begin(job))

    def soon(self, function: Callable[[], None]) -> None:
        """Call a function on the thread, unless it has ended. It must not raise."""
        self._mailbox.post(lambda: None if self.is_over else function())

    def at_pass_end(self, function: Callable[[], None]) -> None:
        """Call a function when the tasks that are ready on the thread have run. After the end of the loop it
        is called at once. It must not raise, nor wake a task of the thread. Call this on the thread itself,
        and, when it has ended, on any other."""
        if self.is_over:
            function()
        else:
            self._pass_end.add(function)

    def cancel(self) -> None:
        """Cancel `main`."""
        self.soon(self._scope.cancel)

    def join(self, *, timeout_s: float) -> None:
        """Wait for the end of the thread."""
        self._thread.join(timeout_s)

    @property
    def is_current(self) -> bool:
        """True on the thread itself."""
        return threading.get_ident() == self._thread.ident

    def _begin(self, job: Job) -> None:
        if self._nursery is None:
            job.refuse(self._ended())
        else:
            job.begin(self._nursery)

    def _wake(self, drain: Callable[[], None]) -> None:
        # Before the loop runs, it drains the mailbox as soon as it does.
        if self.is_over:
            drain()
        elif self._token is not None:
            try:
                self._token.run_sync_soon(drain)
            except trio.RunFinishedError:
                self.is_over = True
                drain()

    def _run(self) -> None:
        try:
            trio.run(self._host, instruments=[self._pass_end])
        finally:
            self._nursery = None
            self.is_over = True
            self._pass_end.run()
            self._mailbox.drain()
            atexit.unregister(self._at_exit)
            self._on_end()

    async def _host(self) -> None:
        # Jobs outlive `main`: they hear from it how they end.
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._token = trio.lowlevel.current_trio_token()
            self._mailbox.drain()
            with self._scope:
                await self._main()
            self._nursery = None
            nursery.cancel_scope.cancel()
