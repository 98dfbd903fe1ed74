from collections.abc import Callable

import pytest

from quorate.raft.core.core import Core
from quorate.raft.core.types import (
    CoreConfig,
    ElectionState,
    Endpoint,
    Epoch,
    EpochStart,
    NodeId,
    Offset,
    RecoveredLog,
    ReplicaKey,
    Voter,
    VoterSet,
)

CoreMaker = Callable[..., Core]


@pytest.fixture
def make_core() -> CoreMaker:
    """A core of cluster "c", node 1 of voters 1..3, not started; `epochs` are those of its log's records."""

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
            log=RecoveredLog(epochs=tuple(starts), end_offset=Offset(len(epochs))),
        )

    return make
