"""The checks of produced batches before the append, and the producers that they are checked by."""

from quorate.broker.replication.producing.batch_check import (
    BatchChecker,
    CheckedBatches,
    ProduceRules,
    read_unchecked,
)
from quorate.broker.replication.producing.producer_snapshot import load, store, take
from quorate.broker.replication.producing.producer_state import ProducerState

__all__ = [
    "BatchChecker",
    "CheckedBatches",
    "ProduceRules",
    "ProducerState",
    "load",
    "read_unchecked",
    "store",
    "take",
]
