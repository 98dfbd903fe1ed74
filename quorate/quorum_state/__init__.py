"""The durable identity and vote of a node, and the batches that it skips."""

from quorate.quorum_state.election_state import QUORUM_STATE, QuorumStateFile
from quorate.quorum_state.meta_properties import (
    META_PROPERTIES,
    MetaProperties,
    load_meta_properties,
    store_meta_properties,
)
from quorate.quorum_state.parameter_names import EMBEDDED, SERVER, ParameterNames
from quorate.quorum_state.quorum_state_errors import MissingStateError, QuorumStateError, UnreadableStateError
from quorate.quorum_state.skipped_batches import (
    SKIPPED_BATCHES,
    SkippedBatch,
    SkippedBatches,
    load_skipped,
    parse_skipped,
    store_skipped,
)

__all__ = [
    "EMBEDDED",
    "META_PROPERTIES",
    "QUORUM_STATE",
    "SERVER",
    "SKIPPED_BATCHES",
    "MetaProperties",
    "MissingStateError",
    "ParameterNames",
    "QuorumStateError",
    "QuorumStateFile",
    "SkippedBatch",
    "SkippedBatches",
    "UnreadableStateError",
    "load_meta_properties",
    "load_skipped",
    "parse_skipped",
    "store_meta_properties",
    "store_skipped",
]
