"""A Raft quorum for asyncio: `quorate.raft.Quorum` with every method awaited.

The quorum runs on a thread of its own, so a busy loop of the caller delays neither elections nor commits of
others. Everything else, such as `QuorumConfig` and the errors, comes from `quorate.raft`.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from types import TracebackType
from typing import Concatenate, Generic, Never, ParamSpec, TypeVar, cast

from quorate import blocking, client, raft
from quorate.raft import (
    Appended,
    Epoch,
    Knowledge,
    Leadership,
    Offset,
    PlainStateMachine,
    QuorumConfig,
    QuorumError,
    StateMachine,
    Telemetry,
)
from quorate.raft.clients.client_messages import Watched
from quorate.raft.clients.watch import Received, WatchedLeader
from quorate.raft.doors.append_call import declared_as_append
from quorate.raft.doors.child_node import ChildNode, ChildThread
from quorate.raft.doors.client_thread import ClientThread
from quorate.raft.doors.own_thread import OwnThread
from quorate.raft.doors.quorum_thread import QuorumThread
from quorate.raft.watch.health import Health
from quorate.runtime import Address, Runtime, TlsFiles, tell_forked
from quorate.runtime.real import Mailbox

Outcome = TypeVar("Outcome")
Opened = TypeVar("Opened")
T = TypeVar("T")
P = ParamSpec("P")
Machine = TypeVar("Machine")

__all__ = [
    "ChildQuorum",
    "Client",
    "PendingAppend",
    "Quorum",
    "Watch",
    "format_folder",
    "restore_folder",
    "skip_batch",
]


class _Caller:
    """The way back to one asyncio loop."""

    __slots__ = ("_at_pass_end", "_mailbox", "loop")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, at_pass_end: Callable[[Callable[[], None]], None]
    ) -> None:
        """`at_pass_end`: as of `LoopThread`. The loop is woken once for all calls that end in one pass."""
        self.loop = loop
        self._at_pass_end = at_pass_end
        self._mailbox = Mailbox(self._wake)

    def future(self) -> tuple[asyncio.Future[None], Callable[[], None]]:
        """Return a future, and a function for other threads that completes it."""
        future: asyncio.Future[None] = self.loop.create_future()

        def complete() -> None:
            if not future.done():
                future.set_result(None)

        return future, lambda: self._mailbox.post(complete)

    def _wake(self, drain: Callable[[], None]) -> None:
        self._at_pass_end(lambda: self._wake_now(drain))

    def _wake_now(self, drain: Callable[[], None]) -> None:
        try:
            self.loop.call_soon_threadsafe(drain)
        except RuntimeError:
            # Closed, with all tasks that waited.
            return


class _Called(OwnThread[Opened]):
    """A thread, and the loop that called it last."""

    _caller: _Caller | None = None

    def caller(self) -> _Caller:
        """Return the way back to the running loop. Any loop may call, one after another or at once."""
        self.check_caller()
        loop = asyncio.get_running_loop()
        caller = self._caller
        if caller is None or caller.loop is not loop:
            caller = self._caller = _Caller(loop, at_pass_end=self._loop.at_pass_end)
        return caller

    async def call(self, function: Callable[[Opened], Awaitable[T]]) -> T:
        """Run a call on the thread. It is cancelled with its caller."""
        future, done = self.caller().future()
        call = self.await_soon(function, done)
        try:
            await future
        except asyncio.CancelledError:
            self.cancel(call)
            raise
        return call.result()


class _Thread(QuorumThread[Outcome], _Called[raft.Quorum[Outcome]]):
    """The quorum's thread."""

    async def append(self, records: Sequence[bytes], *, timeout_ms: int) -> Appended[Outcome]:
        """Run an append. It is cancelled with its caller."""
        caller = self.caller()
        future, done = caller.future()
        call = self.append_soon(records, done, timeout_ms=timeout_ms)
        timer = caller.loop.call_later(timeout_ms / 1000, self.expire, call)
        try:
            await future
        except asyncio.CancelledError:
            self.cancel(call)
            raise
        finally:
            timer.cancel()
        return call.result()


class _ChildThread(ChildThread, _Called[ChildNode]):
    """The thread that talks to a node in a child process."""


class _ClientThread(ClientThread, _Called[client.Client]):
    """A client's thread."""


class _CancelledWith:
    """Cancels its block when a future is done, as `asyncio.timeout` does at its time. `fired` says so."""

    def __init__(self, future: asyncio.Future[None]) -> None:
        self._future = future
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self.fired = False

    async def __aenter__(self) -> None:
        self._task = asyncio.current_task()
        if self._task is None:
            raise RuntimeError("this block must be inside a task of asyncio")
        self._cancelling = self._task.cancelling()
        self._future.add_done_callback(self._fire)

    def _fire(self, _: asyncio.Future[None]) -> None:
        if self._task is not None:
            self.fired = True
            self._task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._future.remove_done_callback(self._fire)
        task, self._task = self._task, None
        return (
            task is not None
            and self.fired
            and task.uncancel() <= self._cancelling
            and isinstance(error, asyncio.CancelledError)
        )


def _awaited(
    method: Callable[Concatenate[raft.Quorum[Outcome], P], Awaitable[T]],
) -> Callable[Concatenate["_Calls[Outcome]", P], Coroutine[object, Never, T]]:
    """The form for asyncio of a method of `raft.Quorum` that waits."""

    @wraps(method)
    async def awaited(self: "_Calls[Outcome]", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._wait(method, *args, **kwargs)

    return awaited


def _at_once(
    method: Callable[Concatenate[raft.Quorum[Outcome], P], T],
) -> Callable[Concatenate["_Calls[Outcome]", P], Coroutine[object, Never, T]]:
    """The form for asyncio of a method of `raft.Quorum` that does not wait: it runs where the quorum does,
    too."""

    @wraps(method)
    async def hopping(self: "_Calls[Outcome]", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(method, *args, **kwargs)

    return hopping


def _offline(function: Callable[P, T]) -> Callable[P, Coroutine[object, Never, T]]:
    """The form for asyncio of a function for folders."""

    @wraps(function)
    async def awaited(*args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(function, *args, **kwargs)

    return awaited


class PendingAppend(Generic[Outcome]):
    """An append in the queue of the leader. Its place in the log is fixed."""

    __slots__ = ("_pending", "_thread")

    def __init__(self, thread: _Thread[Outcome], pending: raft.PendingAppend[Outcome]) -> None:
        self._thread = thread
        self._pending = pending

    async def wait(self) -> Appended[Outcome]:
        """Return when the append is committed and applied on this node. Raises as `raft.PendingAppend`."""
        return await self._thread.call(lambda _: self._pending.wait())


async def _stop(thread: OwnThread[Opened], ended: asyncio.Future[None], *, in_order: bool) -> None:
    """Stop what runs on the thread, and wait for its end: of an orderly stop until this is cancelled."""
    if thread.stop(in_order=in_order):
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            thread.stop(in_order=False)
            await asyncio.shield(ended)
            raise
        finally:
            thread.join()


@asynccontextmanager
async def _running(thread: _Called[Opened]) -> AsyncGenerator[Opened, None]:
    """Open a quorum on its thread, and stop it in order at the end of the block."""
    caller = thread.caller()
    (opened, set_opened), (ended, set_ended) = caller.future(), caller.future()
    thread.start(opened=set_opened, ended=set_ended)
    in_order = False
    try:
        await opened
        if thread.opened is not None:
            async with _CancelledWith(ended):
                yield thread.opened
            in_order = True
    except Exception as error:
        if thread.error is None or not isinstance(error, QuorumError):
            raise
    finally:
        await _stop(thread, ended, in_order=in_order)
    if thread.error is not None:
        raise thread.error


class _Calls(ABC, Generic[Outcome]):
    """The calls of a quorum, wherever it runs."""

    @abstractmethod
    async def _wait(
        self,
        method: Callable[Concatenate[raft.Quorum[Outcome], P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a method that waits, where the quorum runs."""

    @abstractmethod
    async def _run(
        self, method: Callable[Concatenate[raft.Quorum[Outcome], P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a method that does not wait there."""

    # What `raft.Quorum` declares

    wait_leader = _awaited(raft.Quorum[Outcome].wait_leader)
    wait_leadership = _awaited(raft.Quorum[Outcome].wait_leadership)
    wait_applied = _awaited(raft.Quorum[Outcome].wait_applied)
    wait_read_index = _awaited(raft.Quorum[Outcome].wait_read_index)
    wait_leading = _awaited(raft.Quorum[Outcome].wait_leading)
    wait_leadership_lost = _awaited(raft.Quorum[Outcome].wait_leadership_lost)
    ask_description = _awaited(raft.Quorum[Outcome].ask_description)
    add_voter = _awaited(raft.Quorum[Outcome].add_voter)
    remove_voter = _awaited(raft.Quorum[Outcome].remove_voter)
    update_voter = _awaited(raft.Quorum[Outcome].update_voter)
    adopt_voters = _awaited(raft.Quorum[Outcome].adopt_voters)
    transfer_leadership = _awaited(raft.Quorum[Outcome].transfer_leadership)
    ask_support = _awaited(raft.Quorum[Outcome].ask_support)
    raise_state_version = _awaited(raft.Quorum[Outcome].raise_state_version)
    take_snapshot = _awaited(raft.Quorum[Outcome].take_snapshot)
    describe = _at_once(raft.Quorum[Outcome].describe)
    endpoint_of = _at_once(raft.Quorum[Outcome].endpoint_of)
    snapshots = _at_once(raft.Quorum[Outcome].snapshots)
    certificates = _at_once(raft.Quorum[Outcome].certificates)
    resign = _at_once(raft.Quorum[Outcome].resign)

    async def leadership_changes(self) -> AsyncIterator[Leadership]:
        """Yield the current leadership, then each change of it. A slow reader gets only the latest. Raises
        `QuorumStoppedError`."""
        seen: Leadership | None = None
        while True:
            seen = await self.wait_leadership(other_than=seen)
            yield seen

    @asynccontextmanager
    async def while_leading(self) -> AsyncGenerator[Epoch, None]:
        """Wait until this node leads, and run the block with the leader epoch, as
        `raft.Quorum.while_leading`. The block's task is cancelled until the end of the block, which raises no
        error, as soon as this node no longer leads in this epoch. Raises `QuorumStoppedError`."""
        epoch = await self.wait_leading()
        lost = asyncio.create_task(self.wait_leadership_lost(epoch))
        try:
            async with _CancelledWith(lost):
                yield epoch
        finally:
            if not lost.cancel():
                lost.exception()  # so that asyncio does not report it once more
        if lost.done():
            lost.result()


class Quorum(_Calls[Outcome], Knowledge):
    """One node of a Raft quorum. Open it with `Quorum.open`. Any asyncio loop may use it."""

    def __init__(self, thread: _Thread[Outcome], quorum: raft.Quorum[Outcome]) -> None:
        super().__init__(quorum._config, quorum._node)
        self._thread = thread
        tell_forked(self)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        config: QuorumConfig,
        state_machine: StateMachine[Opened] | PlainStateMachine[Opened],
        *,
        runtime: Runtime | None = None,
        telemetry: Telemetry | None = None,
    ) -> AsyncGenerator["Quorum[Opened]", None]:
        """Recover this node's folder, join the quorum, and stop in order at the end of the block, as
        `raft.Quorum.open`, with the same errors.

        If an error stops the node inside the block, the block's task is cancelled until the end of the
        block, which raises `QuorumStoppedError`. An exception of the block, or its cancellation, stops the
        node at once, as after a crash. If the interpreter exits inside the block, the node stops in order.
        """
        thread = _Thread(config, state_machine, runtime=runtime, telemetry=telemetry)
        async with _running(thread) as quorum:
            yield Quorum(thread, quorum)

    read = _awaited(raft.Quorum[Outcome].read)
    serve_reads = _at_once(raft.Quorum[Outcome].serve_reads)
    _append_nowait = _at_once(raft.Quorum[Outcome].append_nowait)

    @declared_as_append
    async def append(self, records: Sequence[bytes], *, timeout_ms: int = 10_000) -> Appended[Outcome]:
        return await self._thread.append(records, timeout_ms=timeout_ms)

    async def append_nowait(
        self, records: Sequence[bytes], *, epoch: Epoch | None = None
    ) -> PendingAppend[Outcome]:
        """Reserve the next place in the log for these records, as `raft.Quorum.append_nowait`. Calls of one
        task keep their order."""
        return PendingAppend(self._thread, await self._append_nowait(records, epoch=epoch))

    async def _wait(
        self,
        method: Callable[Concatenate[raft.Quorum[Outcome], P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        return await self._thread.call(lambda quorum: method(quorum, *args, **kwargs))

    async def _run(
        self, method: Callable[Concatenate[raft.Quorum[Outcome], P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        future, done = self._thread.caller().future()
        call = self._thread.run_soon(lambda quorum: method(quorum, *args, **kwargs), done)
        await future
        return call.result()


class ChildQuorum(_Calls[object], Generic[Machine]):
    """One node of a Raft quorum in a child process. Open it with `ChildQuorum.open`. Any asyncio loop may use
    it.

    Code that keeps the GIL in this process does not stop the node. Arguments and results are pickled on
    their way. The properties of `Quorum` are not here, as `ask_health` has most of them, and `append_nowait`
    is not.
    """

    def __init__(self, thread: _ChildThread) -> None:
        self._thread = thread

    @classmethod
    @asynccontextmanager
    async def open(
        cls, config: QuorumConfig, state_machine: Callable[[], Opened]
    ) -> AsyncGenerator["ChildQuorum[Opened]", None]:
        """Open the node as `Quorum.open`, with the same errors, in a child process. It stops in order at the
        end of the block, or if this process ends, however that happens.

        `state_machine`: a class or a function of the top of a module, which the child imports and calls.
        If the child ends, the block's task is cancelled until the end of the block, which raises
        `QuorumStoppedError`, which says how. Calls that may have happened raise `OutcomeUnknownError`.
        """
        thread = _ChildThread(config, state_machine)
        quorum: ChildQuorum[Opened] = ChildQuorum(thread)
        async with _running(thread):
            yield quorum

    async def append(self, records: Sequence[bytes], *, timeout_ms: int = 10_000) -> Appended[object]:
        """Append records as one atomic unit, as `Quorum.append`, with the same errors."""
        return await self._wait(raft.Quorum[object].append, records, timeout_ms=timeout_ms)

    async def read(
        self, read: Callable[[Machine], T], *, max_staleness_ms: int | None = None, timeout_ms: int = 10_000
    ) -> T:
        """Read the state machine linearizably, as `Quorum.read`, with the same errors.

        `read` is called in the child with the state machine, and must be of the top of a module. Pass
        arguments by `operator.methodcaller` or `functools.partial`. Raises `InvalidArgumentError` for a
        function that can't be pickled, such as a lambda.
        """
        named = {"max_staleness_ms": max_staleness_ms, "timeout_ms": timeout_ms}
        return cast(T, await self._thread.call(lambda node: node.call("read", (read,), named)))

    async def ask_health(self) -> Health:
        """Return the node's health, with its role, its epoch, the leader that it knows, and the offset up to
        which it has applied the log. Raises `QuorumStoppedError`."""
        return cast(Health, await self._thread.call(lambda node: node.call("ask_health", (), {})))

    async def serve_reads(self, handler: Callable[[Machine, bytes], bytes] | None) -> None:
        """Answer the reads of clients (`quorate.client`), as `Quorum.serve_reads`. `handler` is called in the
        child, as the function of `read`, with the state machine and the query."""
        await self._thread.call(lambda node: node.call("serve_reads", (handler,), {}))

    async def _wait(
        self,
        method: Callable[Concatenate[raft.Quorum[object], P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        return cast(T, await self._thread.call(lambda node: node.call(method.__name__, args, kwargs)))

    async def _run(
        self, method: Callable[Concatenate[raft.Quorum[object], P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return cast(T, await self._thread.call(lambda node: node.call(method.__name__, args, kwargs)))


class Watch:
    """An iterator over the records that the state machine applies, as `quorate.client.Watch`."""

    def __init__(self, thread: _ClientThread, leader: WatchedLeader, received: Received) -> None:
        self._thread = thread
        self._leader = leader
        self._received = received

    @property
    def next_offset(self) -> Offset:
        """The offset from which on another watch continues this one: all records below were yielded."""
        return self._received.next_offset

    def __aiter__(self) -> "Watch":
        return self

    async def __anext__(self) -> Watched:
        """Return the next record, as `quorate.client.Watch.__anext__`, with the same errors."""
        received = self._received
        while (watched := received.take()) is None:
            wait_ms = received.wait_ms()
            if wait_ms is None:
                raise StopAsyncIteration
            fetch = self._leader.fetching(received, wait_ms=wait_ms)
            received.add(*await self._thread.call(fetch), waited_ms=wait_ms)
        return watched


class Client:
    """A client of a quorum. Open it with `Client.open`. Any asyncio loop may use it."""

    def __init__(self, thread: _ClientThread) -> None:
        self._thread = thread

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        addresses: Sequence[Address],
        *,
        cluster_id: str | None = None,
        sessions: bool = True,
        tls: TlsFiles | None = None,
    ) -> AsyncGenerator["Client", None]:
        """Open a client, as `quorate.client.Client.open`, on a thread of its own. It closes its session at
        the end of the block, or if the interpreter exits inside of it."""
        thread = _ClientThread(addresses, cluster_id=cluster_id, sessions=sessions, tls=tls)
        caller = thread.caller()
        (opened, set_opened), (ended, set_ended) = caller.future(), caller.future()
        thread.start(opened=set_opened, ended=set_ended)
        try:
            await opened
            if thread.opened is not None:
                yield cls(thread)
        finally:
            await _stop(thread, ended, in_order=True)
        if thread.error is not None:
            raise thread.error

    async def append(self, records: Sequence[bytes], *, timeout_ms: int = 10_000) -> Appended[object]:
        """Append records once, as `quorate.client.Client.append`, with the same errors."""
        return await self._thread.call(lambda client: client.append(records, timeout_ms=timeout_ms))

    async def read(self, query: bytes, *, timeout_ms: int = 10_000) -> bytes:
        """Return the leader's answer to `query`, as `quorate.client.Client.read`, with the same errors."""
        return await self._thread.call(lambda client: client.read(query, timeout_ms=timeout_ms))

    @asynccontextmanager
    async def watch(
        self, from_offset: int | None = None, *, idle_ms: int | None = None, timeout_ms: int = 60_000
    ) -> AsyncGenerator[Watch, None]:
        """Iterate over the records that the state machine applies, as `quorate.client.Client.watch`, with the
        same errors."""
        leader, received = await self._thread.call(
            lambda client: client._begin_watch(from_offset, idle_ms=idle_ms, timeout_ms=timeout_ms)
        )
        try:
            yield Watch(self._thread, leader, received)
        finally:
            self._thread.run_soon(lambda _: leader.close(), lambda: None)


format_folder = _offline(blocking.format_folder)
restore_folder = _offline(blocking.restore_folder)
skip_batch = _offline(blocking.skip_batch)
