"""A client's way to the leader, found again when it is lost."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import trio

from quorate.raft.clients.client_messages import ClientAppend, decode_appended, encode_client_request
from quorate.raft.quorum_errors import (
    LeaderNotFoundError,
    NotLeaderError,
    OutcomeUnknownError,
    PeerProtocolError,
    QuorumConfigError,
    QuorumError,
    QuorumStoppedError,
)
from quorate.raft.state_machine.interface import Appended
from quorate.raft.transport.channel import Channel
from quorate.runtime import Address, Network, NetworkError, Tasks

_BACKOFF_S: Final = 0.1
"""The time between two searches for a leader."""
_CONNECT_TIMEOUT_MS: Final = 1000
_ATTEMPT_TIMEOUT_MS: Final = 4000
"""The time after which a silent node is given up, and a request asked again."""
_MAX_FRAME_BYTES: Final = 512 * 1024 * 1024


class Leader:
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
        self._is_closed = False

    def another(self) -> "Leader":
        """Return a way to the same leader with a channel of its own."""
        return Leader(self._network, self._addresses, self._cluster_id, self._tasks)

    def close(self) -> None:
        """Close the channel. No more requests are possible."""
        self._is_closed = True
        if self._channel is not None:
            self._channel.close()

    async def append(self, records: Sequence[bytes], *, timeout_ms: int = 10_000) -> Appended[object]:
        """`Appender` for sessions. Raises `LeaderNotFoundError` if no node led within the time."""

        def payload(left: int) -> bytes:
            return encode_client_request(ClientAppend(left, tuple(records)))

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
                    return await channel.request(payload(left_ms(deadline)))
                except LeaderNotFoundError as not_found:
                    error = not_found
                except NotLeaderError as not_leader:
                    error = LeaderNotFoundError(f"the node that led has answered: {not_leader}")
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
            if self._is_closed:
                raise QuorumStoppedError("the watch is closed")
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


def left_ms(deadline: float) -> int:
    """Return the time that is left until `deadline`, in trio's time."""
    return max(0, int(1000 * (deadline - trio.current_time())))
