"""Committed metadata, as the invariants of a simulation read them."""

from collections.abc import Sequence

from quorate.broker.metadata.metadata_records import Record
from quorate.broker.metadata.record_codec import encode
from quorate.log.batches.records import build_batch
from quorate.simulation.checkers.invariants import CommittedLog, CommittedPiece
from quorate.types import Epoch, Offset


def commit_batch(committed: CommittedLog, records: Sequence[Record]) -> None:
    """Add the records as the next batch."""
    base = committed.end_offset
    data = build_batch(base_offset=base, epoch=1, timestamp_ms=1, values=[encode(each) for each in records])
    committed.add(CommittedPiece(base, Offset(base + len(records)), Epoch(1), data), epoch=Epoch(1))
