"""Snapshots, where the traces do not show it: what is refused, dropped and kept (KIP-630)."""

from typing import Any

import pytest

from quorate.error_code import ErrorCode
from quorate.invariant import InvariantError
from quorate.raft.core.core import Core
from quorate.raft.core.core_config import Generation
from quorate.raft.core.effects import (
    ArmTimer,
    CheckSnapshot,
    Effect,
    HighWatermarkAdvanced,
    InstallSnapshot,
    Role,
    RoleChanged,
    Send,
    SendSnapshotChunk,
    StoreSnapshotChunk,
)
from quorate.raft.core.events import (
    Durable,
    LogStartMoved,
    Propose,
    Received,
    SnapshotChecked,
    SnapshotDamaged,
    SnapshotTaken,
    Timer,
    TimerFired,
    TimerKind,
)
from quorate.raft.core.messages import (
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from quorate.types import Epoch, EpochEnd, NodeId, Offset, ReplicaKey, SnapshotId
from tests.raft.core.conftest import answer, grant, request_of

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
FETCH = Timer(TimerKind.FETCH)
OFFERED = SnapshotId(Offset(9), Epoch(2))


def alone(make_core: Any) -> Core:
    """A sole voter, leader of epoch 2, with two records of epoch 1 and one of its own, all committed."""
    core: Core = make_core(voters=1, epoch=1, epochs=(1, 1))
    core.start()
    core.step(Durable(Generation(0), Offset(3)))
    assert core.high_watermark == 3
    return core


def following(make_core: Any, **settings: Any) -> Core:
    core: Core = make_core(**{"epoch": 2, "leader": 2, "epochs": (1, 1), **settings})
    core.start()
    return core


def offer(core: Core, snapshot: SnapshotId = OFFERED, leader: NodeId = TWO) -> tuple[Effect, ...]:
    return answer(core, leader, FetchResponse, leader=leader, snapshot=snapshot)


def chunk(core: Core, position: int, length: int, **changes: Any) -> tuple[Effect, ...]:
    values: dict[str, Any] = {
        "leader": TWO,
        "snapshot": OFFERED,
        "size": 20,
        "position": position,
        "length": length,
        "chunk": bytes(length),
    }
    return answer(core, TWO, FetchSnapshotResponse, **{**values, **changes})


def asked(effects: tuple[Effect, ...]) -> list[tuple[int, int]]:
    """Position and size of each FetchSnapshot."""
    return [
        (effect.message.position, effect.message.max_bytes)
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, FetchSnapshotRequest)
    ]


def fetched(effects: tuple[Effect, ...]) -> bool:
    return any(isinstance(effect, Send) and isinstance(effect.message, FetchRequest) for effect in effects)


# --- one's own ---


def test_a_snapshot_and_a_log_start_are_taken_note_of(make_core: Any) -> None:
    core = alone(make_core)
    core.step(SnapshotTaken(SnapshotId(Offset(2), Epoch(1))))
    core.step(LogStartMoved(EpochEnd(Epoch(1), Offset(2))))
    assert (core.snapshot, core.log_start_offset) == (SnapshotId(Offset(2), Epoch(1)), 2)
    before = core.key()
    core.step(SnapshotTaken(SnapshotId(Offset(1), Epoch(1))))
    core.step(LogStartMoved(EpochEnd(Epoch(1), Offset(1))))
    assert core.key() == before, "older than what there is"


@pytest.mark.parametrize(("end", "epoch"), [(4, 2), (2, 2), (3, 1)])
def test_a_snapshot_that_the_log_does_not_go_through_stops_the_node(
    make_core: Any, end: int, epoch: int
) -> None:
    with pytest.raises(InvariantError):
        alone(make_core).step(SnapshotTaken(SnapshotId(Offset(end), Epoch(epoch))))


def test_a_snapshot_of_what_is_not_known_to_be_committed_stops_the_node(make_core: Any) -> None:
    with pytest.raises(InvariantError, match="committed"):
        following(make_core).step(SnapshotTaken(SnapshotId(Offset(2), Epoch(1))))


def test_the_log_start_never_passes_the_snapshot(make_core: Any) -> None:
    core = alone(make_core)
    with pytest.raises(InvariantError, match="snapshot holds"):
        core.step(LogStartMoved(EpochEnd(Epoch(1), Offset(2))))


@pytest.mark.bug("KAFKA-14240")
def test_a_log_without_its_beginning_and_without_a_snapshot_is_refused(make_core: Any) -> None:
    with pytest.raises(InvariantError, match="new replica"):
        make_core(epochs=(1, 1, 1), start_offset=2)


def test_records_in_a_snapshot_count_as_committed_after_a_restart(make_core: Any) -> None:
    core = following(make_core, epochs=(1, 1, 1), snapshot_end=2)
    assert core.high_watermark == 2
    with pytest.raises(InvariantError, match="cut committed"):
        answer(core, TWO, FetchResponse, leader=TWO, diverging=EpochEnd(Epoch(1), Offset(1)))


def test_records_after_the_start_moved_to_the_end_belong_to_their_epoch(make_core: Any) -> None:
    core = alone(make_core)
    core.step(SnapshotTaken(SnapshotId(Offset(3), Epoch(2))))
    core.step(LogStartMoved(EpochEnd(Epoch(2), Offset(3))))
    core.step(Propose(1, 2))
    assert core._node.log.end_of(Epoch(2)) == EpochEnd(Epoch(2), Offset(5))


# --- a leader ---


def request(**changes: Any) -> FetchSnapshotRequest:
    values: dict[str, Any] = {
        "source": TWO,
        "destination": ONE,
        "correlation": 5,
        "cluster_id": "c",
        "replica": ReplicaKey(TWO),
        "epoch": Epoch(2),
        "snapshot": SnapshotId(Offset(2), Epoch(1)),
        "position": 0,
        "max_bytes": 100,
    }
    return FetchSnapshotRequest(**{**values, **changes})


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"cluster_id": "d"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"replica": ReplicaKey(THREE)}, ErrorCode.INVALID_REQUEST),
        ({"destination": NodeId(-2)}, ErrorCode.INVALID_REQUEST),
        ({"max_bytes": -1}, ErrorCode.INVALID_REQUEST),
        ({"epoch": Epoch(1)}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": Epoch(3)}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"snapshot": SnapshotId(Offset(0), Epoch(0))}, ErrorCode.SNAPSHOT_NOT_FOUND),
        ({"position": -1}, ErrorCode.POSITION_OUT_OF_RANGE),
    ],
)
def test_a_wrong_request_for_a_snapshot_changes_nothing(
    make_core: Any, changes: dict[str, Any], error: ErrorCode
) -> None:
    core = alone(make_core)
    before = core.key()
    (effect,) = core.step(Received(request(**changes)))
    assert isinstance(effect, Send) and isinstance(effect.message, FetchSnapshotResponse)
    assert effect.message.error is error
    assert core.key() == before


def test_only_the_leader_serves_snapshots(make_core: Any) -> None:
    (effect,) = following(make_core).step(Received(request(source=THREE, replica=ReplicaKey(THREE))))
    assert isinstance(effect, Send) and isinstance(effect.message, FetchSnapshotResponse)
    assert effect.message.error is ErrorCode.NOT_LEADER_OR_FOLLOWER and effect.message.leader == TWO


def test_a_voter_that_fetches_a_snapshot_counts_for_check_quorum(make_core: Any) -> None:
    core = make_core(epoch=1, voted=1, epochs=(1,))
    core.start()
    grant(core, TWO)
    assert core.role is Role.LEADER
    effects = core.step(Received(request(epoch=Epoch(1))))
    assert ArmTimer(Timer(TimerKind.CHECK_QUORUM), 3000, 3000) in effects
    assert isinstance(effects[-1], SendSnapshotChunk) and effects[-1].max_bytes == 100
    begin = core.step(TimerFired(Timer(TimerKind.BEGIN_QUORUM)))
    told = [effect.message.destination for effect in begin if isinstance(effect, Send)]
    assert told == [THREE], "node 2 was heard of"


# --- a follower ---


@pytest.mark.parametrize("snapshot", [SnapshotId(Offset(2), Epoch(1)), SnapshotId(Offset(9), Epoch(3))])
def test_a_snapshot_that_brings_nothing_or_is_of_a_later_epoch_is_not_loaded(
    make_core: Any, snapshot: SnapshotId
) -> None:
    core = following(make_core, snapshot_end=2)
    effects = offer(core, snapshot)
    assert [type(effect) for effect in effects] == [ArmTimer], "only a pause"


@pytest.mark.parametrize(
    "changes",
    [
        {"snapshot": SnapshotId(Offset(8), Epoch(2))},
        {"position": 4},
        {"size": 5},
        {"error": ErrorCode.SNAPSHOT_NOT_FOUND},
        {"error": ErrorCode.POSITION_OUT_OF_RANGE},
    ],
)
def test_a_chunk_that_does_not_fit_ends_the_fetch(make_core: Any, changes: dict[str, Any]) -> None:
    core = following(make_core)
    assert asked(offer(core)) == [(0, 8 * 1024 * 1024)]
    effects = chunk(core, **{"position": 0, "length": 8, **changes})
    assert not any(isinstance(effect, StoreSnapshotChunk) for effect in effects)
    assert fetched(core.step(TimerFired(Timer(TimerKind.BACKOFF, TWO)))), "from the log's end again"


def test_a_snapshot_is_installed_when_it_is_checked_and_not_before(make_core: Any) -> None:
    core = following(make_core)
    offer(core)
    assert chunk(core, 0, 12)[:1] == (StoreSnapshotChunk(OFFERED, 0, bytes(12)),)
    assert CheckSnapshot(OFFERED) in chunk(core, 12, 8)
    assert (core.log_end_offset, core.snapshot) == (2, None)
    assert core.step(SnapshotChecked(SnapshotId(Offset(8), Epoch(2)), None)) == (), "another one"
    effects = core.step(SnapshotChecked(OFFERED, None))
    assert effects[:2] == (InstallSnapshot(Generation(1), OFFERED), HighWatermarkAdvanced(Offset(9)))
    assert fetched(effects)
    assert (core.log_start_offset, core.log_end_offset, core.log_end_epoch) == (9, 9, 2)
    assert core.step(SnapshotChecked(OFFERED, None)) == ()


def test_the_voters_are_those_of_the_snapshot(make_core: Any, make_voters: Any) -> None:
    core = following(make_core, directory_id="disk-1")
    offer(core)
    chunk(core, 0, 20)
    effects = core.step(SnapshotChecked(OFFERED, make_voters(2, 3)))
    assert core.voters == make_voters(2, 3) and not core.is_voter
    assert RoleChanged(Role.FOLLOWER, Epoch(2), TWO, None) in effects
    assert core.voters_at(Offset(9)) == make_voters(2, 3)


def test_a_damaged_snapshot_is_fetched_from_its_first_byte(make_core: Any) -> None:
    core = following(make_core)
    offer(core)
    chunk(core, 0, 20)
    core.step(SnapshotDamaged(OFFERED))
    assert asked(core.step(TimerFired(Timer(TimerKind.BACKOFF, TWO)))) == [(0, 8 * 1024 * 1024)]


def begin(core: Core, leader: NodeId, epoch: int) -> tuple[Effect, ...]:
    fields = {"voter": ReplicaKey(ONE), "epoch": Epoch(epoch)}
    return core.step(Received(request_of(core, leader, BeginQuorumEpochRequest, **fields)))


def test_chunks_fetched_from_an_earlier_leader_are_kept(make_core: Any) -> None:
    core = following(make_core)
    offer(core)
    chunk(core, 0, 12)
    begin(core, THREE, 3)
    assert asked(offer(core, leader=THREE)) == [(12, 8 * 1024 * 1024)]


def test_a_snapshot_checked_under_an_earlier_leader_is_installed_when_offered_again(make_core: Any) -> None:
    core = following(make_core)
    offer(core)
    chunk(core, 0, 20)
    begin(core, THREE, 3)
    assert core.step(SnapshotChecked(OFFERED, None)) == (), "this leader has not offered it"
    assert InstallSnapshot(Generation(1), OFFERED) in offer(core, leader=THREE)


def test_another_snapshot_begins_anew(make_core: Any) -> None:
    core = following(make_core)
    offer(core)
    chunk(core, 0, 12)
    begin(core, THREE, 3)
    assert asked(offer(core, SnapshotId(Offset(12), Epoch(2)), leader=THREE)) == [(0, 8 * 1024 * 1024)]


@pytest.mark.bug("etcd-io/raft f1f74e0")
def test_while_it_checks_a_follower_shows_that_it_is_here_and_does_not_stand(make_core: Any) -> None:
    core = following(make_core)
    offer(core)
    assert ArmTimer(FETCH, 1000, 1000) in chunk(core, 0, 20)
    effects = core.step(TimerFired(FETCH))
    assert asked(effects) == [(0, 0)] and core.role is Role.FOLLOWER
    assert not any(isinstance(effect, StoreSnapshotChunk) for effect in chunk(core, 0, 0))
    core.step(TimerFired(FETCH))
    assert asked(core.step(TimerFired(FETCH))) == [], "one is in flight"
    assert core.role is Role.FOLLOWER
    core.step(SnapshotChecked(OFFERED, None))
    assert core.log_start_offset == 9


def test_a_fetched_snapshot_that_was_not_installed_takes_the_logs_place_at_the_start(make_core: Any) -> None:
    core = make_core(epoch=3, leader=2, epochs=(1, 2, 2), snapshot_end=3)
    log = core._node.log
    log.snapshot = SnapshotId(Offset(2), Epoch(3))
    effects = core.start()
    assert effects[0] == InstallSnapshot(Generation(1), SnapshotId(Offset(2), Epoch(3)))
    assert (core.log_start_offset, core.log_end_offset, core.log_end_epoch) == (2, 2, 3)
