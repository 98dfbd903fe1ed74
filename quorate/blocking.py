"""A Raft quorum for programs of threads: `quorate.raft.Quorum` with plain `with` and plain calls.

The quorum runs on a thread of its own. All calls wait on the thread of their caller, any number at once.
Everything else, such as `QuorumConfig` and the errors, comes from `quorate.raft`.
"""

import _thread
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, Generic, ParamSpec, TypeVar, cast

import trio

from quorate import raft
from quorate.raft import (
    Appended,
    Epoch,
    Knowledge,
    Leadership,
    NotLeaderError,
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
from quorate.raft.doors.child_node import ChildThread
from quorate.raft.doors.client_thread import ClientThread
from quorate.raft.doors.own_thread import OwnThread
from quorate.raft.doors.quorum_thread import QuorumThread
from quorate.raft.watch.health import Health
from quorate.runtime import Address, Runtime, TlsFiles, tell_forked
from quorate.runtime.real import SyncStrategy, real_runtime

Outcome = TypeVar("Outcome")
Opened = TypeVar("Opened")
T = TypeVar("T")
P = ParamSpec("P")
Machine = TypeVar("Machine")

__all__ = [
    "ChildQuorum",
    "Client",
    "Leading",
    "PendingAppend",
    "Quorum",
    "Watch",
    "format_folder",
    "restore_folder",
    "skip_batch",
]


class _Latch:
    """One thread waits for another, once. Cheaper than `threading.Event`, and a signal interrupts it too."""

    __slots__ = ("_lock", "set")

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()
        self._lock.acquire()
        self.set: Callable[[], None] = self._lock.release

    def wait(self, timeout_s: float = -1) -> bool:
        """Return True when it is set, or False after `timeout_s`, in seconds. -1: never."""
        return self._lock.acquire(timeout=timeout_s)


def _call(thread: OwnThread[Opened], function: Callable[[Opened], Awaitable[T]]) -> T:
    """Run a call on the thread, and wait for its end."""
    thread.check_caller()
    latch = _Latch()
    call = thread.await_soon(function, latch.set)
    try:
        latch.wait()
    except BaseException:  # an interrupt
        thread.cancel(call)
        raise
    return call.result()


def _waiting(
    method: Callable[Concatenate[raft.Quorum[Outcome], P], Awaitable[T]],
) -> Callable[Concatenate["_Calls[Outcome]", P], T]:
    """The blocking form of a method of `raft.Quorum` that waits."""

    @wraps(method)
    def blocking(self: "_Calls[Outcome]", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._wait(method, *args, **kwargs)

    return blocking


def _at_once(
    method: Callable[Concatenate[raft.Quorum[Outcome], P], T],
) -> Callable[Concatenate["_Calls[Outcome]", P], T]:
    """The form of a method of `raft.Quorum` that does not wait: it runs where the quorum does, too."""

    @wraps(method)
    def hopping(self: "_Calls[Outcome]", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(method, *args, **kwargs)

    return hopping


def _offline(
    function: Callable[Concatenate[Runtime, P], Awaitable[T]],
) -> Callable[P, T]:
    """The blocking form of a function for folders, on this machine's disk."""

    @wraps(function)
    def blocking(*args: P.args, **kwargs: P.kwargs) -> T:
        async def run() -> T:
            return await function(real_runtime(sync=SyncStrategy.INLINE), *args, **kwargs)

        return trio.run(run)

    return blocking


class PendingAppend(Generic[Outcome]):
    """An append in the queue of the leader. Its place in the log is fixed."""

    __slots__ = ("_pending", "_thread")

    def __init__(self, thread: QuorumThread[Outcome], pending: raft.PendingAppend[Outcome]) -> None:
        self._thread = thread
        self._pending = pending

    def wait(self) -> Appended[Outcome]:
        """Return when the append is committed and applied on this node. Raises as `raft.PendingAppend`."""
        return _call(self._thread, lambda _: self._pending.wait())


class Leading:
    """The leadership of this node in one epoch."""

    __slots__ = ("epoch", "lost")

    def __init__(self, epoch: Epoch) -> None:
        self.epoch = epoch
        """The leader epoch: the fencing token for the systems that the work changes."""
        self.lost = threading.Event()
        """Set as soon as this node no longer leads in this epoch, or the quorum has stopped. Wait for it in
        place of a sleep."""

    def check(self) -> None:
        """Raise `NotLeaderError` if the leadership is lost. Call it between two steps of the work."""
        if self.lost.is_set():
            raise NotLeaderError(leader=None, epoch=self.epoch)


@contextmanager
def _running(thread: OwnThread[Opened]) -> Generator[Opened, None, None]:
    """Open a quorum on its thread, and stop it in order at the end of the block."""
    opened, ended = _Latch(), _Latch()
    thread.start(opened=opened.set, ended=ended.set)
    in_order = False
    try:
        opened.wait()
        if thread.opened is not None:
            yield thread.opened
            in_order = True
    except Exception as error:  # no global name: a forgotten block is closed when those are gone
        if thread.error is None or not isinstance(error, QuorumError):
            raise
    finally:
        if thread.stop(in_order=in_order):
            try:
                ended.wait()
            except BaseException:  # an interrupt of the orderly stop
                thread.stop(in_order=False)
                ended.wait()
                raise
            finally:
                thread.join()
    if thread.error is not None:
        raise thread.error


class _Calls(ABC, Generic[Outcome]):
    """The calls of a quorum, wherever it runs."""

    @abstractmethod
    def _wait(
        self,
        method: Callable[Concatenate[raft.Quorum[Outcome], P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a method that waits, where the quorum runs."""

    @abstractmethod
    def _run(
        self, method: Callable[Concatenate[raft.Quorum[Outcome], P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a method that does not wait there."""

    @abstractmethod
    def _tell_lost(self, epoch: Epoch, lost: Callable[[], None]) -> Callable[[], None]:
        """Call `lost`, on another thread, when the leadership in this epoch is lost. Return a function that
        ends that."""

    # What `raft.Quorum` declares

    wait_leader = _waiting(raft.Quorum[Outcome].wait_leader)
    wait_leadership = _waiting(raft.Quorum[Outcome].wait_leadership)
    wait_applied = _waiting(raft.Quorum[Outcome].wait_applied)
    wait_read_index = _waiting(raft.Quorum[Outcome].wait_read_index)
    wait_leading = _waiting(raft.Quorum[Outcome].wait_leading)
    wait_leadership_lost = _waiting(raft.Quorum[Outcome].wait_leadership_lost)
    ask_description = _waiting(raft.Quorum[Outcome].ask_description)
    add_voter = _waiting(raft.Quorum[Outcome].add_voter)
    remove_voter = _waiting(raft.Quorum[Outcome].remove_voter)
    update_voter = _waiting(raft.Quorum[Outcome].update_voter)
    adopt_voters = _waiting(raft.Quorum[Outcome].adopt_voters)
    transfer_leadership = _waiting(raft.Quorum[Outcome].transfer_leadership)
    ask_support = _waiting(raft.Quorum[Outcome].ask_support)
    raise_state_version = _waiting(raft.Quorum[Outcome].raise_state_version)
    take_snapshot = _waiting(raft.Quorum[Outcome].take_snapshot)
    describe = _at_once(raft.Quorum[Outcome].describe)
    endpoint_of = _at_once(raft.Quorum[Outcome].endpoint_of)
    snapshots = _at_once(raft.Quorum[Outcome].snapshots)
    certificates = _at_once(raft.Quorum[Outcome].certificates)
    resign = _at_once(raft.Quorum[Outcome].resign)

    def leadership_changes(self) -> Iterator[Leadership]:
        """Yield the current leadership, then each change of it. A slow reader gets only the latest. Raises
        `QuorumStoppedError`."""
        seen: Leadership | None = None
        while True:
            seen = self.wait_leadership(other_than=seen)
            yield seen

    @contextmanager
    def while_leading(self) -> Generator[Leading, None, None]:
        """Wait until this node leads, and run the block with the `Leading`, as `raft.Quorum.while_leading`.
        No thread can be cancelled, so the block has to look whether the leadership is lost. Raises
        `QuorumStoppedError` if the quorum stops before the block begins."""
        epoch = self.wait_leading()
        leading = Leading(epoch)
        end = self._tell_lost(epoch, leading.lost.set)
        try:
            yield leading
        finally:
            end()


class Quorum(_Calls[Outcome], Knowledge):
    """One node of a Raft quorum. Open it with `Quorum.open`. Any thread may use it, except the quorum's own:
    there, in `apply` and `check`, a call that waits raises `QuorumThreadError`."""

    def __init__(self, thread: QuorumThread[Outcome], quorum: raft.Quorum[Outcome]) -> None:
        super().__init__(quorum._config, quorum._node)
        self._thread = thread
        tell_forked(self)

    @classmethod
    @contextmanager
    def open(
        cls,
        config: QuorumConfig,
        state_machine: StateMachine[Opened] | PlainStateMachine[Opened],
        *,
        runtime: Runtime | None = None,
        telemetry: Telemetry | None = None,
    ) -> Generator["Quorum[Opened]", None, None]:
        """Recover this node's folder, join the quorum, and stop in order at the end of the block, as
        `raft.Quorum.open`, with the same errors.

        If an error stops the node inside the block, every call raises `QuorumStoppedError`, and so does the
        end of the block. An exception of the block stops the node at once, as after a crash. If the
        interpreter exits inside the block, the node stops in order.
        """
        thread = QuorumThread(config, state_machine, runtime=runtime, telemetry=telemetry)
        with _running(thread) as quorum:
            yield Quorum(thread, quorum)

    read = _waiting(raft.Quorum[Outcome].read)
    serve_reads = _at_once(raft.Quorum[Outcome].serve_reads)
    _append_nowait = _at_once(raft.Quorum[Outcome].append_nowait)

    @declared_as_append
    def append(self, records: Sequence[bytes], *, timeout_ms: int = 10_000) -> Appended[Outcome]:
        thread = self._thread
        thread.check_caller()
        latch = _Latch()
        call = thread.append_soon(records, latch.set, timeout_ms=timeout_ms)
        try:
            if not latch.wait(min(timeout_ms / 1000, threading.TIMEOUT_MAX)):
                thread.expire(call)
                latch.wait()
        except BaseException:  # an interrupt
            thread.cancel(call)
            raise
        return call.result()

    def append_nowait(
        self, records: Sequence[bytes], *, epoch: Epoch | None = None
    ) -> PendingAppend[Outcome]:
        """Reserve the next place in the log for these records, as `raft.Quorum.append_nowait`. Calls of one
        thread keep their order."""
        return PendingAppend(self._thread, self._append_nowait(records, epoch=epoch))

    def _wait(
        self,
        method: Callable[Concatenate[raft.Quorum[Outcome], P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        return _call(self._thread, lambda quorum: method(quorum, *args, **kwargs))

    def _run(
        self, method: Callable[Concatenate[raft.Quorum[Outcome], P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        self._thread.check_caller()
        latch = _Latch()
        call = self._thread.run_soon(lambda quorum: method(quorum, *args, **kwargs), latch.set)
        latch.wait()
        return call.result()

    def _tell_lost(self, epoch: Epoch, lost: Callable[[], None]) -> Callable[[], None]:
        waiting = self._thread.await_soon(lambda quorum: quorum.wait_leadership_lost(epoch), lost)
        return lambda: self._thread.cancel(waiting)


class ChildQuorum(_Calls[object], Generic[Machine]):
    """One node of a Raft quorum in a child process. Open it with `ChildQuorum.open`. Any thread may use it.

    Code that keeps the GIL in this process does not stop the node. Arguments and results are pickled on
    their way. The properties of `Quorum` are not here, as `ask_health` has most of them, and `append_nowait`
    is not.
    """

    def __init__(self, thread: ChildThread) -> None:
        self._thread = thread

    @classmethod
    @contextmanager
    def open(
        cls, config: QuorumConfig, state_machine: Callable[[], Opened]
    ) -> Generator["ChildQuorum[Opened]", None, None]:
        """Open the node as `Quorum.open`, with the same errors, in a child process. It stops in order at the
        end of the block, or if this process ends, however that happens.

        `state_machine`: a class or a function of the top of a module, which the child imports and calls.
        If the child ends, every call and the end of the block raise `QuorumStoppedError`, which says how.
        Calls that may have happened raise `OutcomeUnknownError`.
        """
        thread = ChildThread(config, state_machine)
        quorum: ChildQuorum[Opened] = ChildQuorum(thread)
        with _running(thread):
            yield quorum

    def append(self, records: Sequence[bytes], *, timeout_ms: int = 10_000) -> Appended[object]:
        """Append records as one atomic unit, as `Quorum.append`, with the same errors."""
        return self._wait(raft.Quorum[object].append, records, timeout_ms=timeout_ms)

    def read(
        self, read: Callable[[Machine], T], *, max_staleness_ms: int | None = None, timeout_ms: int = 10_000
    ) -> T:
        """Read the state machine linearizably, as `Quorum.read`, with the same errors.

        `read` is called in the child with the state machine, and must be of the top of a module. Pass
        arguments by `operator.methodcaller` or `functools.partial`. Raises `InvalidArgumentError` for a
        function that can't be pickled, such as a lambda.
        """
        named = {"max_staleness_ms": max_staleness_ms, "timeout_ms": timeout_ms}
        return cast(T, _call(self._thread, lambda node: node.call("read", (read,), named)))

    def ask_health(self) -> Health:
        """Return the node's health, with its role, its epoch, the leader that it knows, and the offset up to
        which it has applied the log. Raises `QuorumStoppedError`."""
        return cast(Health, _call(self._thread, lambda node: node.call("ask_health", (), {})))

    def serve_reads(self, handler: Callable[[Machine, bytes], bytes] | None) -> None:
        """Answer the reads of clients (`quorate.client`), as `Quorum.serve_reads`. `handler` is called in the
        child, as the function of `read`, with the state machine and the query."""
        _call(self._thread, lambda node: node.call("serve_reads", (handler,), {}))

    def _wait(
        self,
        method: Callable[Concatenate[raft.Quorum[object], P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        return cast(T, _call(self._thread, lambda node: node.call(method.__name__, args, kwargs)))

    def _run(
        self, method: Callable[Concatenate[raft.Quorum[object], P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        return cast(T, _call(self._thread, lambda node: node.call(method.__name__, args, kwargs)))

    def _tell_lost(self, epoch: Epoch, lost: Callable[[], None]) -> Callable[[], None]:
        waiting = self._thread.await_soon(lambda node: node.call("wait_leadership_lost", (epoch,), {}), lost)
        return lambda: self._thread.cancel(waiting)


class Watch:
    """An iterator over the records that the state machine applies, as `quorate.client.Watch`. One thread at a
    time may iterate."""

    def __init__(self, thread: ClientThread, leader: WatchedLeader, received: Received) -> None:
        self._thread = thread
        self._leader = leader
        self._received = received

    @property
    def next_offset(self) -> Offset:
        """The offset from which on another watch continues this one: all records below were yielded."""
        return self._received.next_offset

    def __iter__(self) -> "Watch":
        return self

    def __next__(self) -> Watched:
        """Return the next record, as `quorate.client.Watch.__anext__`, with the same errors."""
        received = self._received
        while (watched := received.take()) is None:
            wait_ms = received.wait_ms()
            if wait_ms is None:
                raise StopIteration
            fetch = self._leader.fetching(received, wait_ms=wait_ms)
            received.add(*_call(self._thread, fetch), waited_ms=wait_ms)
        return watched


class Client:
    """A client of a quorum. Open it with `Client.open`. Any thread may use it, any number at once."""

    def __init__(self, thread: ClientThread) -> None:
        self._thread = thread

    @classmethod
    @contextmanager
    def open(
        cls,
        addresses: Sequence[Address],
        *,
        cluster_id: str | None = None,
        sessions: bool = True,
        tls: TlsFiles | None = None,
    ) -> Generator["Client", None, None]:
        """Open a client, as `quorate.client.Client.open`, on a thread of its own. It closes its session at
        the end of the block, or if the interpreter exits inside of it."""
        thread = ClientThread(addresses, cluster_id=cluster_id, sessions=sessions, tls=tls)
        opened, ended = _Latch(), _Latch()
        thread.start(opened=opened.set, ended=ended.set)
        try:
            opened.wait()
            if thread.opened is not None:
                yield cls(thread)
        finally:
            if thread.stop(in_order=True):
                try:
                    ended.wait()
                except BaseException:  # an interrupt
                    thread.stop(in_order=False)
                    ended.wait()
                    raise
                finally:
                    thread.join()
        if thread.error is not None:
            raise thread.error

    def append(self, records: Sequence[bytes], *, timeout_ms: int = 10_000) -> Appended[object]:
        """Append records once, as `quorate.client.Client.append`, with the same errors."""
        return _call(self._thread, lambda client: client.append(records, timeout_ms=timeout_ms))

    def read(self, query: bytes, *, timeout_ms: int = 10_000) -> bytes:
        """Return the leader's answer to `query`, as `quorate.client.Client.read`, with the same errors."""
        return _call(self._thread, lambda client: client.read(query, timeout_ms=timeout_ms))

    @contextmanager
    def watch(
        self, from_offset: int | None = None, *, idle_ms: int | None = None, timeout_ms: int = 60_000
    ) -> Generator[Watch, None, None]:
        """Iterate over the records that the state machine applies, as `quorate.client.Client.watch`, with the
        same errors."""
        leader, received = _call(
            self._thread,
            lambda client: client._begin_watch(from_offset, idle_ms=idle_ms, timeout_ms=timeout_ms),
        )
        try:
            yield Watch(self._thread, leader, received)
        finally:
            self._thread.run_soon(lambda _: leader.close(), lambda: None)


format_folder = _offline(raft.format_folder)
restore_folder = _offline(raft.restore_folder)
skip_batch = _offline(raft.skip_batch)
