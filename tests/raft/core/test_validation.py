"""`validate` finds each offset that is out of its order."""

from collections.abc import Callable

import pytest

from quorate.raft.core import Core, InvariantError, Role, SnapshotTaken, validate
from quorate.types import Epoch, Offset, SnapshotId


@pytest.fixture
def core(make_core: Callable[..., Core]) -> Core:
    """Log start 2, snapshot end 3, high watermark 4, durable end 5, log end 6, all of epoch 1."""
    core = make_core(epoch=1, epochs=(1,) * 6, start_offset=2, snapshot_end=3)
    core.start()
    core._node.high_watermark = Offset(4)
    core._node.log.durable_end_offset = Offset(5)
    validate(core, applied=Offset(4))
    return core


def _set(name: str, value: int) -> Callable[[Core], None]:
    def apply(core: Core) -> None:
        setattr(core._node if name == "high_watermark" else core._node.log, name, value)

    return apply


def _snapshot(end_offset: int) -> Callable[[Core], None]:
    return _set("snapshot", SnapshotId(Offset(end_offset), Epoch(1)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("plant", "broken"),
    [
        (_set("start_offset", -1), "start <= log start"),
        (_set("start_offset", 4), "log start <= snapshot end"),
        (_set("snapshot", None), "log start <= snapshot end"),  # type: ignore[arg-type]
        (_snapshot(5), "snapshot end <= high watermark"),
        (_set("durable_end_offset", 2), "snapshot end <= durable end"),
        (_set("durable_end_offset", 7), "durable end <= log end"),
        (_set("high_watermark", 7), "high watermark <= log end"),
        (_set("high_watermark", 2), "snapshot end <= high watermark"),
        (_set("end_offset", 4), "durable end <= log end"),
    ],
)
def test_an_offset_that_is_out_of_order_is_found(
    core: Core, plant: Callable[[Core], None], broken: str
) -> None:
    plant(core)
    with pytest.raises(InvariantError, match=f"not in order: {broken} "):
        validate(core)


@pytest.mark.parametrize(
    ("applied", "broken"), [(2, "snapshot end <= applied"), (5, "applied <= high watermark")]
)
def test_the_applied_records_are_committed_and_not_older_than_a_snapshot(
    core: Core, applied: int, broken: str
) -> None:
    with pytest.raises(InvariantError, match=f"not in order: {broken} "):
        validate(core, applied=Offset(applied))


def test_a_high_watermark_may_pass_the_durable_end_but_for_a_sole_voter(
    core: Core, make_core: Callable[..., Core]
) -> None:
    core._node.high_watermark = Offset(6)
    validate(core)  # the other voters have it
    sole = make_core(voters=1)
    sole.start()
    assert sole.role is Role.LEADER
    sole._node.high_watermark = sole.log_end_offset
    with pytest.raises(InvariantError, match="not in order: high watermark <= durable end "):
        validate(sole)


def test_a_record_of_a_later_epoch_than_the_nodes_is_found(core: Core) -> None:
    core._node.log.epochs.assign(epoch=Epoch(2), start_offset=Offset(5))
    with pytest.raises(InvariantError, match="not in order: last epoch <= epoch "):
        validate(core)


def test_a_core_that_takes_a_snapshot_of_the_future_is_found_at_once(core: Core) -> None:
    """The core refuses it. One that did not would hand out records that may yet be cut off."""
    with pytest.raises(InvariantError, match="a snapshot holds only what is committed"):
        core.clone().step(SnapshotTaken(SnapshotId(Offset(5), Epoch(1))))
    core._node.log.note_snapshot(SnapshotId(Offset(5), Epoch(1)))
    with pytest.raises(InvariantError, match="not in order: snapshot end <= high watermark "):
        validate(core)
