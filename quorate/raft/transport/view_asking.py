"""The question to one node: who it is, and what it knows of its quorum."""

from typing import Final

import trio

from quorate.raft.quorum_errors import QuorumError
from quorate.raft.transport.channel import Channel
from quorate.raft.transport.description_frames import QuorumView
from quorate.runtime import Address, Network, NetworkError
from quorate.types import NodeId

_MAX_ANSWER_BYTES: Final = 2 * 1024 * 1024


async def ask_view(
    network: Network,
    address: Address,
    node: NodeId,
    *,
    cluster_id: str,
    connect_timeout_ms: int,
    timeout_ms: int,
) -> QuorumView:
    """Ask the node at `address` to describe its quorum, on a connection of its own. `node`: who that is by
    its certificate, with TLS. `timeout_ms`: the time without a sign of it after which the connection is
    closed. Raises `NetworkError`, or `QuorumError` if it is no node of this cluster."""
    channel = await Channel.connect(
        network,
        address,
        node=node,
        cluster_id=cluster_id,
        max_frame_bytes=_MAX_ANSWER_BYTES,
        max_append_bytes=_MAX_ANSWER_BYTES,
        connect_timeout_ms=connect_timeout_ms,
        silence_timeout_ms=timeout_ms,
    )
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(channel.run)
            failure: QuorumError | None = None
            view: QuorumView | None = None
            try:
                view = await channel.describe_quorum()
            except QuorumError as error:
                failure = error  # kept out of the nursery, which would wrap it
            nursery.cancel_scope.cancel()
    finally:
        channel.close()
    if view is None:
        raise failure if failure is not None else NetworkError(f"the connection to {address} ended")
    return view
