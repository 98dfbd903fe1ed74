"""The durable identity and vote of a node."""

from quorate.quorum_state.election_state import QuorumStateFile
from quorate.quorum_state.errors import QuorumStateError
from quorate.quorum_state.meta_properties import MetaProperties, load_meta_properties, store_meta_properties

__all__ = [
    "MetaProperties",
    "QuorumStateError",
    "QuorumStateFile",
    "load_meta_properties",
    "store_meta_properties",
]
