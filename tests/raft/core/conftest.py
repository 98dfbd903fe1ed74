from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from quorate.raft.core.core import Core
from quorate.raft.core.core_config import CoreConfig
from quorate.raft.core.effects import Effect
from quorate.raft.core.events import Received
from quorate.raft.core.messages import FetchRequest, Request, Response, VoteResponse
from quorate.types import (
    ElectionState,
    Endpoint,
    Epoch,
    EpochStart,
    NodeId,
    Offset,
    RecoveredLog,
    ReplicaKey,
    SnapshotId,
    Voter,
    VotersAt,
    VoterSet,
)

CoreMaker = Callable[..., Core]
AnyRequest = TypeVar("AnyRequest", bound=Request)
AnyResponse = TypeVar("AnyResponse", bound=Response)


def request_of(core: Core, source: int, kind: type[AnyRequest], **fields: Any) -> AnyRequest:
    """A request of `source` to the core, of its cluster."""
    node = {"source": NodeId(source), "destination": core.node_id}
    return kind(**{**node, "correlation": 7, "cluster_id": "c", **fields})


def answer_of(core: Core, source: int, kind: type[AnyResponse], **fields: Any) -> AnyResponse:
    """An answer of `source` to the core's request in flight to it, of the core's epoch."""
    node = {"source": NodeId(source), "destination": core.node_id}
    correlation = core._node.in_flight.get(NodeId(source), 0)
    return kind(**{**node, "correlation": correlation, "epoch": core.epoch, **fields})


def answer(core: Core, source: int, kind: type[AnyResponse], **fields: Any) -> tuple[Effect, ...]:
    """Step the core with `answer_of`."""
    return core.step(Received(answer_of(core, source, kind, **fields)))


def grant(core: Core, source: int, *, pre_vote: bool = False) -> tuple[Effect, ...]:
    return answer(core, source, VoteResponse, granted=True, pre_vote=pre_vote)


def grant_both(core: Core, *sources: int) -> None:
    """Grant the pre-vote, then the vote."""
    for pre_vote in (True, False):
        for source in sources:
            grant(core, source, pre_vote=pre_vote)


def fetch_as(
    core: Core,
    replica: ReplicaKey,
    offset: int | None = None,
    epoch: int | None = None,
    *,
    read_round: int = 0,
) -> tuple[Effect, ...]:
    """Step the core with a Fetch of its epoch by a replica whose log ends at `offset` with a record of
    `epoch`. None: as the core's own."""
    request = request_of(
        core,
        replica.id,
        FetchRequest,
        replica=replica,
        epoch=core.epoch,
        offset=core.log_end_offset if offset is None else Offset(offset),
        last_fetched_epoch=core.epoch if epoch is None else Epoch(epoch),
        max_wait_ms=500,
        max_bytes=100,
        high_watermark=core.high_watermark,
        read_round=read_round,
    )
    return core.step(Received(request))


def voters_with_disks(*ids: int) -> VoterSet:
    return VoterSet(
        tuple(Voter(ReplicaKey(NodeId(node), f"disk-{node}"), Endpoint(f"node-{node}", 9093)) for node in ids)
    )


@pytest.fixture
def make_voters() -> Callable[..., VoterSet]:
    """The set of these ids, with directories disk-1, disk-2, ..."""
    return voters_with_disks


@pytest.fixture
def make_core() -> CoreMaker:
    """A core of cluster "c", node 1 of voters 1..3, not started; `epochs` are those of its log's records,
    `voter_sets` the sets in it by offset, with directories disk-1, disk-2, ..."""

    def make(
        *,
        node: int = 1,
        voters: int = 3,
        epoch: int = 0,
        leader: int | None = None,
        voted: int | None = None,
        epochs: tuple[int, ...] = (),
        directory_id: str | None = None,
        config: CoreConfig | None = None,
        voter_sets: dict[int, tuple[int, ...]] | None = None,
        start_offset: int = 0,
        snapshot_end: int | None = None,
        bootstrap: tuple[Endpoint, ...] = (),
    ) -> Core:
        starts = [
            EpochStart(Epoch(written), Offset(offset))
            for offset, written in enumerate(epochs)
            if offset == 0 or epochs[offset - 1] != written
        ]
        return Core(
            config=config if config is not None else CoreConfig(),
            cluster_id="c",
            key=ReplicaKey(NodeId(node), directory_id),
            endpoint=None,
            voters=VoterSet(
                tuple(
                    Voter(ReplicaKey(NodeId(voter)), Endpoint(f"node-{voter}", 9093))
                    for voter in range(1, voters + 1)
                )
            ),
            election=ElectionState(
                Epoch(epoch),
                NodeId(leader) if leader is not None else None,
                ReplicaKey(NodeId(voted)) if voted is not None else None,
            ),
            log=RecoveredLog(
                epochs=tuple(starts),
                log_start_offset=Offset(start_offset),
                start_epoch=Epoch(epochs[start_offset - 1] if start_offset else 0),
                end_offset=Offset(len(epochs)),
                snapshot=None
                if snapshot_end is None
                else SnapshotId(Offset(snapshot_end), Epoch(epochs[snapshot_end - 1])),
                voters=tuple(
                    VotersAt(Offset(offset), voters_with_disks(*ids))
                    for offset, ids in (voter_sets or {}).items()
                ),
            ),
            bootstrap=bootstrap,
        )

    return make
