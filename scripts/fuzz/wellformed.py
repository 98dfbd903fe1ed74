"""Valid frames of every request with hostile values, from a peer that is no node and knows the cluster's id.

Left out, because a message under a voter's id is believed until there is authentication
(docs/explanation/guarantees.md, "Who may talk to the quorum"): core messages whose source is, or was, a
voter. `sources` is the one place where that is done. Appends are the application's own affair: these nodes
take them, and their state machine any bytes.
"""

import random
from collections.abc import Callable, Sequence
from typing import Final, TypedDict

from quorate.raft.core.events import AddVoter, AdoptVoters, RemoveVoter, UpdateVoter, VoterChange
from quorate.raft.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    VoteRequest,
)
from quorate.raft.transport.append_frames import encode_request
from quorate.raft.transport.frames import FrameKind, encode_frame
from quorate.raft.transport.leader_frames import voter_change_fields
from quorate.raft.transport.raft_codec import encode
from quorate.runtime.disk import Buffer
from quorate.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey, SnapshotId, Voter

OUTSIDE_IDS: Final = (0, 4, 77, 99, 1000, 2**31 - 1)


class Head(TypedDict):
    source: NodeId
    destination: NodeId
    correlation: int
    cluster_id: str


class Liar:
    """Draws frames. It may know all that can be asked for: the voters with their directories, the epoch and
    the offsets."""

    def __init__(
        self,
        draw: random.Random,
        *,
        cluster_id: str,
        node: NodeId,
        voters: Sequence[Voter],
        epoch: Callable[[], int],
        end_offset: Callable[[], int],
        port: int,
    ) -> None:
        """`node` is its other end. It claims that outside ids listen on `port` of the host `outside`."""
        self._draw = draw
        self._cluster_id = cluster_id
        self._node = node
        self._voters = tuple(voters)
        self._epoch = epoch
        self._end_offset = end_offset
        self._endpoints = (
            Endpoint("outside", port),
            Endpoint("nowhere", 1),
            Endpoint("", 65535),
            *(voter.endpoint for voter in voters),
        )
        self.sources = tuple(
            NodeId(node) for node in OUTSIDE_IDS if all(voter.key.id != node for voter in voters)
        )
        """The ids of no voter, now or earlier. A message that claims a voter's id is believed."""
        self._makers: tuple[Callable[[], list[Buffer]], ...] = (
            self.vote, self.vote, self.begin, self.begin, self.end, self.fetch, self.fetch,
            self.fetch_snapshot, self.append, self.application, self.read_index, self.change_voters,
            self.change_voters, self.transfer, self.take_snapshot, self.describe,
        )  # fmt: skip

    def next(self) -> tuple[str, bytes]:
        make = self._draw.choice(self._makers)
        return make.__name__, b"".join(map(bytes, make()))

    # --- values ---

    def epoch(self) -> Epoch:
        now = self._epoch()
        near = (now - 1, now, now, now + 1, now + 1, now + 2, now + 900, now + 1001)
        return Epoch(max(0, self._draw.choice((*near, 0, 2**30, 2**31 - 2, 2**31 - 1))))

    def offset(self) -> Offset:
        now = self._end_offset()
        return Offset(max(0, self._draw.choice((0, 1, now - 1, now, now, now + 1, 2**31, 2**63 - 1))))

    def directory(self) -> str | None:
        known = [voter.key.directory_id for voter in self._voters]
        return self._draw.choice((None, "", "d", "A" * 22, "x" * 2000, "line\nbreak", *known))

    def source(self) -> NodeId:
        return self._draw.choice(self.sources)

    def key(self, node: int) -> ReplicaKey:
        return ReplicaKey(NodeId(node), self.directory())

    def anybody(self) -> ReplicaKey:
        """Draw a node for a message to name. Voters may be named: only the source is no voter."""
        if self._draw.random() < 0.5:
            return self._draw.choice(self._voters).key
        return self.key(self.source())

    def endpoint(self) -> Endpoint:
        return self._draw.choice(self._endpoints)

    def number(self) -> int:
        return self._draw.choice((0, 0, 1, 100, 500, 2**31 - 1, 2**62))

    def correlation(self) -> int:
        return self._draw.choice((0, 1, 2, 7, 2**31, 2**63 - 1, self._draw.randrange(1000)))

    def destination(self) -> NodeId:
        return (
            self._node if self._draw.random() < 0.95 else NodeId(self._draw.choice((-2, -3, 0, 1, 2, 3, 99)))
        )

    def head(self, source: NodeId) -> Head:
        """Return the fields that all core messages have."""
        return {
            "source": source,
            "destination": self.destination(),
            "correlation": self.correlation(),
            "cluster_id": self._cluster_id,
        }

    # --- requests ---

    def vote(self) -> list[Buffer]:
        source, epoch = self.source(), self.epoch()
        last = self._draw.choice((max(0, epoch - 1), epoch, 0))
        return encode(
            VoteRequest(
                **self.head(source),
                voter=self._draw.choice((ReplicaKey(self._node), self.anybody())),
                candidate=self.key(source),
                epoch=epoch,
                last_epoch=Epoch(last),
                end_offset=self.offset(),
                pre_vote=self._draw.random() < 0.5,
                leader_resigned=self._draw.random() < 0.5,
            )
        )

    def begin(self) -> list[Buffer]:
        return encode(
            BeginQuorumEpochRequest(
                **self.head(self.source()),
                voter=self._draw.choice((ReplicaKey(self._node), self.anybody())),
                epoch=self.epoch(),
                endpoint=self._draw.choice((None, self.endpoint(), self.endpoint())),
            )
        )

    def end(self) -> list[Buffer]:
        return encode(
            EndQuorumEpochRequest(
                **self.head(self.source()),
                epoch=self.epoch(),
                preferred_successors=tuple(self.anybody().id for _ in range(self._draw.randrange(4))),
            )
        )

    def fetch(self) -> list[Buffer]:
        source = self.source() if self._draw.random() < 0.5 else NodeId(self._draw.randrange(100, 5000))
        return encode(
            FetchRequest(
                **self.head(source),
                replica=self.key(source),
                epoch=self.epoch(),
                offset=self.offset(),
                last_fetched_epoch=self.epoch(),
                max_wait_ms=self.number(),
                max_bytes=self.number(),
                high_watermark=self._draw.choice((None, self.offset())),
                read_round=self.number(),
            )
        )

    def fetch_snapshot(self) -> list[Buffer]:
        source = self.source()
        return encode(
            FetchSnapshotRequest(
                **self.head(source),
                replica=self.key(source),
                epoch=self.epoch(),
                snapshot=SnapshotId(self.offset(), self.epoch()),
                position=self.number(),
                max_bytes=self.number(),
            )
        )

    def append(self) -> list[Buffer]:
        records = [self._draw.randbytes(self._draw.randrange(40)) for _ in range(self._draw.randrange(1, 4))]
        return encode_request(self.correlation(), self._cluster_id, records)

    def application(self) -> list[Buffer]:
        payload = self._draw.randbytes(self._draw.randrange(40))
        return encode_frame(FrameKind.APPLICATION, self.correlation(), [self._cluster_id], [payload])

    def read_index(self) -> list[Buffer]:
        return encode_frame(FrameKind.READ_INDEX, self.correlation(), [self._cluster_id])

    def change_voters(self) -> list[Buffer]:
        new = Voter(self.key(self.source()), self.endpoint())
        moved = Voter(self._draw.choice(self._voters).key, self.endpoint())
        changes: tuple[VoterChange, ...] = (
            AddVoter(new),
            AddVoter(moved),
            UpdateVoter(moved),
            UpdateVoter(new),
            RemoveVoter(self.anybody()),
            AdoptVoters(),
        )
        change = self._draw.choice(changes)
        return encode_frame(
            FrameKind.CHANGE_VOTERS, self.correlation(), [self._cluster_id, *voter_change_fields(change)]
        )

    def transfer(self) -> list[Buffer]:
        return encode_frame(
            FrameKind.TRANSFER_LEADERSHIP, self.correlation(), [self._cluster_id, self.anybody().id]
        )

    def take_snapshot(self) -> list[Buffer]:
        return encode_frame(FrameKind.TAKE_SNAPSHOT, self.correlation(), [self._cluster_id])

    def describe(self) -> list[Buffer]:
        named = self._draw.choice(("", self._cluster_id))
        return encode_frame(FrameKind.DESCRIBE_QUORUM, self.correlation(), [named])
