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
        self._shared_index = _SharedIndex()

    async def read_index(self, *, timeout_ms: int) -> Offset:
        """Return the offset (exclusive end) up to which a reader must have applied to see all that was
        committed before this call. Calls that come while the leader is asked share the next question. Raises
        `NotLeaderError` if no leader proved within `timeout_ms` of the question that it is one."""
        return await self._shared_index.find(lambda: self._ask_read_index(timeout_ms=timeout_ms))

    async def _ask_read_index(self, *, timeout_ms: int) -> Offset:
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


class _SharedIndex:
    """A read index that several calls share: the one that was asked for first after they began.

    There is no task for it. One of the calls asks, and if it fails or is cancelled, the next one does.
    """

    __slots__ = ("_asked", "_ended", "_found", "_index", "_is_asking")

    def __init__(self) -> None:
        self._asked = 0
        """The number of questions that have begun."""
        self._is_asking = False
        self._ended = trio.Event()
        self._found = 0
        """The number of the last question that was answered. `_index` is the answer."""
        self._index = Offset(0)

    async def find(self, ask: Callable[[], Awaitable[Offset]]) -> Offset:
        """Return the answer to a question that begins after this call. Raises the errors of `ask`."""
        needed = self._asked + 1
        while self._found < needed:
            if self._is_asking:
                await self._ended.wait()
                continue
            self._is_asking = True
            self._asked = number = self._asked + 1
            try:
                self._index = await ask()
                self._found = number
            finally:
                self._is_asking = False
                ended, self._ended = self._ended, trio.Event()
                ended.set()
        return self._index
