"""A client of a quorum, for processes that are no members of it.

It needs the addresses of the nodes' client listeners (`QuorumConfig.client_listen`), and finds the leader
among them. It appends in a session, so what it repeats is applied once.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import trio

from quorate.raft.arguments import check_duration, check_offset, check_records
from quorate.raft.clients.client_messages import ClientRead, encode_client_request
from quorate.raft.clients.leader import Leader, left_ms
from quorate.raft.clients.watch import Received, Watch, WatchedLeader
from quorate.raft.quorum_errors import (
    LeaderNotFoundError,
    QuorumConfigError,
    QuorumForkedError,
    SessionLostError,
)
from quorate.raft.sessions.session import Session
from quorate.raft.state_machine.interface import Appended
from quorate.runtime import Address, Network, Tasks, TlsFiles, TlsFilesError, tell_forked
from quorate.runtime.real import SyncStrategy, real_runtime
from quorate.types import Offset


class Client:
    """A client of a quorum. Open it with `Client.open`. Its calls belong to the trio run that opened it, and
    any number of them may be under way at once."""

    def __init__(self, leader: Leader, *, sessions: bool) -> None:
        self._leader = leader
        self._sessions = sessions
        self._session: Session[object] | None = None
        self._opening = trio.Lock()
        self._is_forked = False
        tell_forked(self)

    def forked(self) -> None:
        """Mark this object as a copy in a forked process. Every later call raises `QuorumForkedError`."""
        self._is_forked = True

    def _check_call(self, *, timeout_ms: int) -> None:
        if self._is_forked:
            raise forked_client_error()
        check_duration("timeout_ms", timeout_ms)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        addresses: Sequence[Address],
        *,
        cluster_id: str | None = None,
        sessions: bool = True,
        tls: TlsFiles | None = None,
        network: Network | None = None,
    ) -> AsyncGenerator["Client", None]:
        """Open a client of the quorum whose nodes listen for clients on `addresses`. It connects at the first
        call, and closes its session at the end of the block.

        `cluster_id`: None: that of the first node that answers. `sessions`: False for a quorum whose state
        machine is not a `Sessions`; an append of unknown outcome is not repeated then. `tls`: for a quorum
        with `QuorumConfig.tls`; `quorate certs create-client` makes the certificate. `network`: that of a
        simulation. Raises `QuorumConfigError` if there are no addresses, or `tls` can't be used.
        """
        if not addresses:
            raise QuorumConfigError("addresses is empty; name the client listeners of the nodes")
        network = network or real_runtime(sync=SyncStrategy.INLINE).network
        if tls is not None:
            try:
                network = network.secured(tls)
            except TlsFilesError as error:
                raise QuorumConfigError(f"tls: {error}") from error
        tasks = Tasks()
        client = cls(Leader(network, addresses, cluster_id, tasks), sessions=sessions)
        raised: Exception | None = None
        async with tasks.running() as nursery:
            try:
                yield client
            except Exception as error:
                # Kept out of the nursery, which would wrap it.
                raised = error
            if client._session is not None and not client._is_forked:
                await client._session.close()
            nursery.cancel_scope.cancel()
        if raised is not None:
            raise raised

    async def append(self, records: Sequence[bytes], *, timeout_ms: int = 10_000) -> Appended[object]:
        """Append records as one atomic unit, as `Session.append`: repeated until the outcome is known, at
        whichever node leads, and applied once. Return when they are committed, and applied by the leader.

        Raises `LeaderNotFoundError`, `QuorumBusyError` or `InvalidAppendError` if nothing happened, and
        `OutcomeUnknownError`: the time ended, or the session was lost, after an attempt whose outcome is
        unknown.
        """
        self._check_call(timeout_ms=timeout_ms)
        check_records(records)
        if not self._sessions:
            return await self._leader.append(records, timeout_ms=timeout_ms)
        deadline = trio.current_time() + timeout_ms / 1000
        while True:
            session = await self._current_session(deadline)
            try:
                return await session.append(records, timeout_ms=left_ms(deadline))
            except SessionLostError:
                # Nothing happened, so it may be appended in another one.
                if self._session is session:
                    self._session = None
                if trio.current_time() >= deadline:
                    raise

    async def _current_session(self, deadline: float) -> Session[object]:
        acquired = False
        with trio.CancelScope(deadline=deadline):
            await self._opening.acquire()
            acquired = True
        if not acquired:
            raise LeaderNotFoundError("no session was opened in time")
        try:
            if self._session is None:
                self._session = await Session[object].begin(self._leader, timeout_ms=left_ms(deadline))
            return self._session
        finally:
            self._opening.release()

    async def read(self, query: bytes, *, timeout_ms: int = 10_000) -> bytes:
        """Return the answer of the leader's program (`Quorum.serve_reads`) to `query`. It sees every append
        that was answered before the call. It is repeated until the time is up.

        Raises `LeaderNotFoundError`, `OutcomeUnknownError` if the leader did not answer in time, and
        `RequestRefusedError` if its program answers no reads.
        """
        self._check_call(timeout_ms=timeout_ms)
        return await self._leader.ask(
            lambda left: encode_client_request(ClientRead(left, query)),
            timeout_ms=timeout_ms,
            repeatable=True,
        )

    @asynccontextmanager
    async def watch(
        self, from_offset: int | None = None, *, idle_ms: int | None = None, timeout_ms: int = 60_000
    ) -> AsyncGenerator[Watch, None]:
        """Iterate over the records that the state machine applies, each once and in log order.

        They begin at `from_offset` and go on with those that come. None: only those that come. 0: from the
        log's beginning. `async with client.watch() as watch`, then `async for watched in watch`.

        The watch follows the leader through elections and the death of any node. A record that a session
        repeats comes once. Each watch has a connection of its own. A slow reader has at most one answer in
        memory (256 KiB, or one record), and the node waits for it with nothing. `idle_ms`: the iteration ends
        when there was no record for so long. `timeout_ms`: it raises when no leader answered for so long.

        Raises `InvalidArgumentError`, and without `from_offset` as the iteration (`Watch.__anext__`).
        """
        leader, received = await self._begin_watch(from_offset, idle_ms=idle_ms, timeout_ms=timeout_ms)
        try:
            yield Watch(leader, received)
        finally:
            leader.close()

    async def _begin_watch(
        self, from_offset: int | None, *, idle_ms: int | None, timeout_ms: int
    ) -> tuple[WatchedLeader, Received]:
        """Begin a watch, whose leader must be closed."""
        self._check_call(timeout_ms=timeout_ms)
        check_duration("idle_ms", idle_ms)
        check_offset("from_offset", from_offset)
        leader = WatchedLeader(self._leader.another(), timeout_ms=timeout_ms)
        try:
            start = Offset(from_offset) if from_offset is not None else await leader.find_end()
        except BaseException:
            leader.close()
            raise
        return leader, Received(start, idle_ms=idle_ms)


def forked_client_error() -> QuorumForkedError:
    """Return the error of every call in a forked process."""
    return QuorumForkedError(
        "this process was forked after the client was opened, and shares its connection; open another client "
        "in this process"
    )
