"""The durable identity and vote of a node."""

from quorate.quorum_state.election_state import QUORUM_STATE, QuorumStateFile
from quorate.quorum_state.meta_properties import (
    META_PROPERTIES,
    MetaProperties,
    load_meta_properties,
    store_meta_properties,
)
from quorate.quorum_state.parameter_names import EMBEDDED, SERVER, ParameterNames
from quorate.quorum_state.quorum_state_errors import MissingStateError, QuorumStateError, UnreadableStateError

__all__ = [
    "EMBEDDED",
    "META_PROPERTIES",
    "QUORUM_STATE",
    "SERVER",
    "MetaProperties",
    "MissingStateError",
    "ParameterNames",
    "QuorumStateError",
    "QuorumStateFile",
    "UnreadableStateError",
    "load_meta_properties",
    "store_meta_properties",
]
