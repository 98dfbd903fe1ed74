"""A client of a quorum, for processes that are no members of it.

It needs the addresses of the nodes' client listeners (`QuorumConfig.client_listen`), and finds the leader
among them. It appends in a session, so what it repeats is applied once.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import trio

from quorate.raft.arguments import check_duration, check_records
from quorate.raft.clients.client_messages import (
    ClientAppend,
    ClientRead,
    decode_appended,
    encode_client_request,
)
from quorate.raft.quorum_errors import (
    LeaderNotFoundError,
    NotLeaderError,
    OutcomeUnknownError,
    PeerProtocolError,
    QuorumConfigError,
    QuorumError,
    QuorumForkedError,
    QuorumStoppedError,
    SessionLostError,
)
from quorate.raft.sessions.session import Session
from quorate.raft.state_machine.interface import Appended
from quorate.raft.transport.channel import Channel
from quorate.runtime import Address, Network, NetworkError, Tasks, tell_forked
from quorate.runtime.real import SyncStrategy, real_runtime

_BACKOFF_S: Final = 0.1
"""The time between two searches for a leader."""
_CONNECT_TIMEOUT_MS: Final = 1000
_ATTEMPT_TIMEOUT_MS: Final = 4000
"""The time after which a silent node is given up, and a request asked again."""
_MAX_FRAME_BYTES: Final = 512 * 1024 * 1024


class _Leader:
    """The channel to the leader, found again when it is lost. Appends and reads go through it."""

    def __init__(
        self, network: Network, addresses: Sequence[Address], cluster_id: str | None, tasks: Tasks
    ) -> None:
        self._network = network
        self._addresses = list(addresses)
        self._cluster_id = cluster_id
        self._tasks = tasks
        self._channel: Channel | None = None
        self._finding = trio.Lock()

    async def append(self, records: Sequence[bytes], *, timeout_ms: int = 10_000) -> Appended[object]:
        """`Appender` for sessions. Raises `LeaderNotFoundError` if no node led within the time."""

        def payload(left_ms: int) -> bytes:
            return encode_client_request(ClientAppend(left_ms, tuple(records)))

        answer = await self.ask(payload, timeout_ms=timeout_ms, repeatable=False)
        try:
            return decode_appended(answer)
        except PeerProtocolError as error:
            raise OutcomeUnknownError(str(error)) from error

    async def ask(self, payload: Callable[[int], bytes], *, timeout_ms: int, repeatable: bool) -> bytes:
        """Ask the leader until it answers or the time is up. `payload`: makes the request for the time that
        is left. `repeatable`: ask again even if the outcome is unknown."""
        error: QuorumError = LeaderNotFoundError("no node was asked in time")
        deadline = trio.current_time() + timeout_ms / 1000
        with trio.CancelScope(deadline=deadline):
            while True:
                channel: Channel | None = None
                try:
                    channel = await self._channel_to_leader()
                    error = OutcomeUnknownError(f"{channel.address} did not answer within {timeout_ms} ms")
                    return await channel.request(payload(_left_ms(deadline)))
                except NotLeaderError as not_leader:
                    error = not_leader
                    self._leave(channel)
                except OutcomeUnknownError as unknown:
                    error = unknown
                    if not repeatable:
                        raise
                await trio.sleep(_BACKOFF_S)
        raise error

    def _leave(self, channel: Channel | None) -> None:
        """Look for the leader anew. The other requests on the channel get their answers."""
        if channel is not None and channel is self._channel:
            self._channel = None
            self._tasks.start(partial(_close_later, channel))

    async def _channel_to_leader(self) -> Channel:
        """Raises `LeaderNotFoundError`: nothing was sent."""
        async with self._finding:
            if self._channel is not None and not self._channel.broken:
                return self._channel
            problems: list[str] = []
            for address in list(self._addresses):
                found = await self._connect(address)
                if isinstance(found, Channel):
                    self._channel = found
                    # The search begins at the last leader.
                    self._addresses.remove(address)
                    self._addresses.insert(0, address)
                    return found
                problems.append(f"{address} {found}")
        raise LeaderNotFoundError(f"no leader was found: {'; '.join(problems)}")

    async def _connect(self, address: Address) -> Channel | str:
        """Return a channel to the leader, or the reason why this address is not its."""
        try:
            channel = await Channel.connect(
                self._network,
                address,
                cluster_id="",
                max_frame_bytes=_MAX_FRAME_BYTES,
                max_append_bytes=_MAX_FRAME_BYTES,
                connect_timeout_ms=_CONNECT_TIMEOUT_MS,
                silence_timeout_ms=_ATTEMPT_TIMEOUT_MS,
            )
        except NetworkError as error:
            return f"can't be reached ({error})"
        if self._tasks.ended:
            raise QuorumStoppedError("the client is closed")
        self._tasks.start(channel.run)
        leads = False
        try:
            with trio.move_on_after(_CONNECT_TIMEOUT_MS / 1000):
                view = await channel.describe_quorum()
                self._check_cluster(address, view.cluster_id)
                leads = view.description is not None
                if leads:
                    return channel
                return "knows no leader" if view.leader is None else f"follows node {view.leader}"
            return "gave no answer"
        except OutcomeUnknownError as error:
            return f"gave no answer ({error})"
        finally:
            if leads:
                channel.name_cluster(self._cluster_id or "")
            else:
                channel.close()

    def _check_cluster(self, address: Address, cluster_id: str) -> None:
        if self._cluster_id is None:
            self._cluster_id = cluster_id
        elif cluster_id != self._cluster_id:
            raise QuorumConfigError(
                f"{address} is a node of cluster {cluster_id}, and the client is of {self._cluster_id}; "
                "correct the addresses"
            )


async def _close_later(channel: Channel) -> None:
    await trio.sleep(_ATTEMPT_TIMEOUT_MS / 1000)
    channel.close()


class Client:
    """A client of a quorum. Open it with `Client.open`. Its calls belong to the trio run that opened it, and
    any number of them may be under way at once."""

    def __init__(self, leader: _Leader, *, sessions: bool) -> None:
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
        network: Network | None = None,
    ) -> AsyncGenerator["Client", None]:
        """Open a client of the quorum whose nodes listen for clients on `addresses`. It connects at the first
        call, and closes its session at the end of the block.

        `cluster_id`: None: that of the first node that answers. `sessions`: False for a quorum whose state
        machine is not a `Sessions`; an append of unknown outcome is not repeated then. `network`: that of a
        simulation. Raises `QuorumConfigError` if there are no addresses.
        """
        if not addresses:
            raise QuorumConfigError("addresses is empty; name the client listeners of the nodes")
        network = network or real_runtime(sync=SyncStrategy.INLINE).network
        tasks = Tasks()
        client = cls(_Leader(network, addresses, cluster_id, tasks), sessions=sessions)
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
                return await session.append(records, timeout_ms=_left_ms(deadline))
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
                self._session = await Session[object].begin(self._leader, timeout_ms=_left_ms(deadline))
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
            lambda left_ms: encode_client_request(ClientRead(left_ms, query)),
            timeout_ms=timeout_ms,
            repeatable=True,
        )


def forked_client_error() -> QuorumForkedError:
    """Return the error of every call in a forked process."""
    return QuorumForkedError(
        "this process was forked after the client was opened, and shares its connection; open another client "
        "in this process"
    )


def _left_ms(deadline: float) -> int:
    return max(0, int(1000 * (deadline - trio.current_time())))
