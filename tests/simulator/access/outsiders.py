"""Peers that lie to the controllers' listeners, with identities that are no voter's."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import trio

from quorate.broker.controller.rpc import BrokerHeartbeatRequest
from quorate.broker.controller.rpc_codec import encode_request
from quorate.raft.core import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    Message,
    VoteRequest,
)
from quorate.raft.transport.frames import PREFACE, FrameKind, encode_frame
from quorate.raft.transport.identities import Identity
from quorate.raft.transport.raft_codec import encode
from quorate.runtime import Address, Network, NetworkError
from quorate.simulation.cluster_run import Clients
from quorate.simulation.violations import SafetyViolation
from quorate.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey
from tests.simulator.access.access_cluster import AUTHORITY, AccessCluster, certificate
from tests.simulator.brokers.broker_cluster import CLUSTER_ID, CONTROLLER_PORT

FAR: Final = 1000
"""An epoch that no run comes to by itself."""
_ANSWER_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class Outsider:
    """A name, and the identity of a certificate, with the authority that vouches for it; None: no TLS."""

    name: str
    identity: Identity | None
    authority: str = AUTHORITY


OUTSIDERS: Final = (
    Outsider("without a certificate", None),
    Outsider("of another authority", Identity(CLUSTER_ID, NodeId(2)), "another ca"),
    Outsider("of another cluster", Identity("another-cluster", NodeId(2))),
    Outsider("a client", Identity(CLUSTER_ID, None, "ann")),
    Outsider("a node with another id", Identity(CLUSTER_ID, NodeId(9))),
)


class Outsiders(Clients[AccessCluster]):
    """`count` liars, each of another kind. None of them is ever answered."""

    def __init__(
        self, cluster: AccessCluster, source: random.Random, *, count: int, pause_max_s: float
    ) -> None:
        super().__init__(cluster, source)
        self._count = count
        self._pause_max_s = pause_max_s
        self.lies = 0

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for each in self._random.sample(OUTSIDERS, self._count):
                nursery.start_soon(self._lie, each, self._derived())

    def _network(self, outsider: Outsider) -> Network:
        network = self._cluster.network.for_node(f"outsider-{OUTSIDERS.index(outsider)}")
        if outsider.identity is None:
            return network
        return network.secured(certificate(outsider.identity, outsider.authority))

    async def _lie(self, outsider: Outsider, source: random.Random) -> None:
        network = self._network(outsider)
        while not self._finish.is_set():
            await self._pause(source, self._pause_max_s)
            node = source.choice(self._cluster.nodes)
            try:
                with trio.move_on_after(1.0):
                    stream = await network.connect(Address(node.name, CONTROLLER_PORT))
                    try:
                        await stream.send([PREFACE, *self._draw_lie(node.id, outsider, source)])
                        self.lies += 1
                        with trio.move_on_after(_ANSWER_S):
                            if answer := await stream.receive_some():
                                self._cluster.found(
                                    "OutsidersAreNotHeard",
                                    SafetyViolation(f"{node.name} answered {outsider.name}: {answer[:80]!r}"),
                                )
                    finally:
                        stream.close()
            except NetworkError:
                pass

    def _draw_lie(self, target: NodeId, outsider: Outsider, source: random.Random) -> Sequence[bytes]:
        """Draw a frame that claims to be of a voter."""
        cluster = self._cluster
        liar = NodeId(source.choice([each.id for each in cluster.nodes if each.id != target]))
        leader = cluster.leader()
        epoch = 1 if leader is None else leader.serving.quorum.epoch
        end = cluster.checker.committed.end_offset
        far = Epoch(epoch + source.choice((1, 1, FAR)))
        keys = [ReplicaKey(node, None) for node in (target, liar)]

        def vote() -> Message:
            return VoteRequest(
                source=liar, destination=target, correlation=1, cluster_id=CLUSTER_ID, voter=keys[0],
                candidate=keys[1], epoch=Epoch(epoch + FAR), last_epoch=Epoch(epoch + FAR - 1),
                end_offset=Offset(end + 1),
            )  # fmt: skip

        def begin() -> Message:
            return BeginQuorumEpochRequest(
                source=liar, destination=target, correlation=1, cluster_id=CLUSTER_ID, voter=keys[0],
                epoch=far, endpoint=Endpoint("outside", CONTROLLER_PORT),
            )  # fmt: skip

        def end_epoch() -> Message:
            return EndQuorumEpochRequest(
                source=liar, destination=target, correlation=1, cluster_id=CLUSTER_ID, epoch=Epoch(epoch),
                preferred_successors=(target,),
            )  # fmt: skip

        def fetch() -> Message:
            return FetchRequest(
                source=liar, destination=target, correlation=1, cluster_id=CLUSTER_ID, replica=keys[1],
                epoch=Epoch(epoch), offset=Offset(end + source.choice((0, 1, 2))),
                last_fetched_epoch=Epoch(epoch), max_wait_ms=0, max_bytes=1000, high_watermark=None,
            )  # fmt: skip

        makers: list[Callable[[], Message]] = [vote, begin, end_epoch, fetch]
        if source.random() < 0.2 and (outsider.identity is None or outsider.identity.node != 9):
            # Who has the key of a node may ask the controller for anything.
            heartbeat = BrokerHeartbeatRequest(
                broker_id=liar, broker_epoch=0, current_metadata_offset=0, want_fence=True
            )
            frame = encode_frame(FrameKind.APPLICATION, 1, [CLUSTER_ID], [encode_request(heartbeat)])
        else:
            frame = encode(source.choice(makers)())
        return [bytes(each) for each in frame]

    def check(self) -> None:
        """Check that no node was ever taken to an epoch that only outsiders speak of. Raises
        `SafetyViolation`."""
        for node in self._cluster.running:
            if node.serving.quorum.epoch >= FAR:
                raise SafetyViolation(
                    f"OutsidersAreNotHeard: {node.name} is in epoch {node.serving.quorum.epoch}"
                )
