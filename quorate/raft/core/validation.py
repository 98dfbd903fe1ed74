"""The offsets of one node, in their order. docs/explanation/offsets.md explains them and the exceptions."""

from quorate.invariant import ordered
from quorate.raft.core.core import Core
from quorate.types import Offset


def validate(core: Core, *, applied: Offset | None = None) -> None:
    """Raise InvariantError unless log start <= snapshot end <= applied <= high watermark <= log end, and
    snapshot end <= durable end <= log end, and no record is of an epoch after the node's. `applied` is the
    end of what the application has applied, if the caller knows it. To be called between two steps."""
    zero = Offset(0)
    snapshot_end = zero if core.snapshot is None else core.snapshot.end_offset
    high_watermark = zero if core.high_watermark is None else core.high_watermark
    durable, end = core.durable_end_offset, core.log_end_offset
    ordered(start=zero, log_start=core.log_start_offset, snapshot_end=snapshot_end, durable_end=durable)
    ordered(snapshot_end=snapshot_end, high_watermark=high_watermark, log_end=end)
    ordered(durable_end=durable, log_end=end)
    if applied is not None:
        ordered(snapshot_end=snapshot_end, applied=applied, high_watermark=high_watermark)
    if core.is_voter and len(core.voters) == 1 and not core.has_dynamic_voters:
        ordered(high_watermark=high_watermark, durable_end=durable)
    ordered(last_epoch=core.log_end_epoch, epoch=core.epoch)
