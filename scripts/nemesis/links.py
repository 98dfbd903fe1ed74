"""How clients and the nemesis reach nodes: the library's own channel to the controller listener."""

import json
from collections.abc import Mapping
from typing import Any

import trio

from quorate.raft.quorum_errors import OutcomeUnknownError
from quorate.raft.transport.channel import Channel
from quorate.runtime.network import Address, NetworkError
from quorate.runtime.real import RealNetwork

CONNECT_SECONDS = 1.5
CALL_SECONDS = 6.0
"""The client's limit for a call. It is longer than the node's own."""
MAX_FRAME_BYTES = 32 << 20
MAX_APPEND_BYTES = 1 << 20


class NotSentError(Exception):
    """The node could not be reached: nothing happened."""


class Links:
    """One channel to each node, opened when it is needed."""

    def __init__(self, nursery: trio.Nursery, cluster_id: str, nodes: Mapping[int, Address]) -> None:
        self.nodes = nodes
        self._nursery = nursery
        self._cluster_id = cluster_id
        self._channels: dict[int, Channel] = {}

    async def to(self, node: int) -> Channel:
        """Return the channel to a node. Raises `NotSentError`."""
        channel = self._channels.get(node)
        if channel is not None and not channel.broken:
            return channel
        try:
            with trio.fail_after(CONNECT_SECONDS):
                channel = await Channel.connect(
                    RealNetwork(),
                    self.nodes[node],
                    cluster_id=self._cluster_id,
                    max_frame_bytes=MAX_FRAME_BYTES,
                    max_append_bytes=MAX_APPEND_BYTES,
                )
        except (NetworkError, trio.TooSlowError) as error:
            raise NotSentError(f"node {node} can't be reached: {error}") from error
        self._nursery.start_soon(channel.run)
        self._channels[node] = channel
        return channel

    async def ask(self, node: int, request: Mapping[str, object], *, seconds: float = CALL_SECONDS) -> Any:
        """Return the node's answer, see `node.py`. Raises `NotSentError`, or as `Channel.request` does."""
        channel = await self.to(node)
        with trio.move_on_after(seconds):
            return json.loads(await channel.request(json.dumps(request).encode()))
        raise OutcomeUnknownError(f"node {node} gave no answer within {seconds} s")
