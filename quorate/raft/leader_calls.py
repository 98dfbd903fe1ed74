"""Calls of any node to the leader: find it, ask it, and repeat while it changes."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from quorate.error_code import ErrorCode
from quorate.raft.assembly import Node
from quorate.raft.core import Role, VoterChange
from quorate.raft.quorum_description import QuorumDescription
from quorate.raft.quorum_errors import (
    NotLeaderError,
    OutcomeUnknownError,
    QuorumError,
    RequestRefusedError,
)
from quorate.raft.transport.channel import Channel
from quorate.raft.waiters import TaskWaiter
from quorate.runtime import Address
from quorate.types import NodeId, Offset

Answer = TypeVar("Answer")


class LeaderCalls:
    """Requests that the leader answers, made on any node."""

    def __init__(self, node: Node, *, retry_backoff_ms: int) -> None:
        self._node = node
        self._retry_s = retry_backoff_ms / 1000

    async def read_index(self, *, timeout_ms: int) -> Offset:
        """Return the offset (exclusive end) up to which a reader must have applied to see all that was
        committed before this call. Raises `NotLeaderError` if no leader proved in time that it is one."""

        async def here() -> Offset:
            waiter = TaskWaiter[Offset]()
            self._node.read_index(waiter)
            return await waiter.wait()

        return await self._ask_leader(here, Channel.read_index, timeout_ms=timeout_ms, repeatable=True)

    async def describe(self, *, timeout_ms: int) -> QuorumDescription:
        """Return the leader's description of the quorum. Raises `NotLeaderError`."""

        async def here() -> QuorumDescription:
            return self._node.describe()

        async def there(channel: Channel) -> QuorumDescription:
            view = await channel.describe_quorum()
            if view.description is None:
                raise NotLeaderError(leader=view.leader, epoch=view.epoch, endpoint=view.leader_endpoint)
            return view.description

        return await self._ask_leader(here, there, timeout_ms=timeout_ms, repeatable=True)

    async def change_voters(self, change: VoterChange, *, timeout_ms: int) -> None:
        """Return when it is committed. Raises `RequestRefusedError` or `NotLeaderError` when nothing
        happened, `OutcomeUnknownError`."""
        await self._ask_leader(
            lambda: self._node.driver.requests.change_voters(change),
            lambda channel: channel.change_voters(change),
            timeout_ms=timeout_ms,
            repeatable=False,
            check=lambda: self._node.check_change(change),
        )

    async def transfer_leadership(self, successor: NodeId, *, timeout_ms: int) -> None:
        """Return when `successor` leads. Raises `RequestRefusedError` if it does not in the end."""
        if self._node.leadership.current.leader == successor:
            return
        with trio.move_on_after(timeout_ms / 1000):
            await self._ask_leader(
                lambda: self._node.transfer_leadership(successor),
                lambda channel: channel.transfer_leadership(successor),
                timeout_ms=timeout_ms,
                repeatable=False,
            )
            epoch = self._node.leadership.current.epoch
            while (current := self._node.leadership.current).leader != successor:
                if current.leader is not None and current.epoch > epoch:
                    break
                await self._node.leadership.wait_change()
            else:
                return
        raise RequestRefusedError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"the leader resigned, but node {successor} was not elected; describe the quorum for the leader",
        )

    async def _ask_leader(
        self,
        here: Callable[[], Awaitable[Answer]],
        there: Callable[[Channel], Awaitable[Answer]],
        *,
        timeout_ms: int,
        repeatable: bool,
        check: Callable[[], Awaitable[None]] | None = None,
    ) -> Answer:
        """Ask the leader until it answers or the time is up. `repeatable`: ask again even if the outcome is
        unknown. `check`: called first if this node leads; it changes nothing."""
        error: QuorumError | None = None
        under_way = False
        with trio.move_on_after(timeout_ms / 1000):
            while True:
                seen = self._node.leadership.current
                try:
                    if self._node.driver.core.role is Role.LEADER:
                        if check is not None:
                            await check()
                        under_way = True
                        return await here()
                    channel = await self._channel_to_leader()
                    under_way = True
                    return await there(channel)
                except NotLeaderError as not_leader:
                    error, under_way = not_leader, False
                except RequestRefusedError as refused:
                    error, under_way = refused, False
                    if refused.code is not ErrorCode.REQUEST_TIMED_OUT:
                        raise
                except OutcomeUnknownError as unknown:
                    error = unknown
                    if not repeatable:
                        raise
                with trio.move_on_after(self._retry_s):
                    while self._node.leadership.current == seen:
                        await self._node.leadership.wait_change()
        if under_way and not repeatable:
            raise OutcomeUnknownError(f"the leader did not answer within {timeout_ms} ms")
        if isinstance(error, RequestRefusedError):
            raise error
        raise self._node.not_leader()

    async def _channel_to_leader(self) -> Channel:
        node = self._node
        leader = node.leadership.current.leader
        endpoint = None if leader is None else node.driver.core.endpoint_of(leader)
        if leader is None or endpoint is None:
            raise node.not_leader()
        return await node.forwarder.channel_to(leader, Address(endpoint.host, endpoint.port))
