"""The rules for an *outside id*: a sender that no voter set in the log names.

The log may be old, so an outside id may be a new voter, and the only one with the log to lead. So it is not
refused for good (KIP-853): a voter without a leader and without an election under way votes for it by the
usual rules. While a leader is heard, or known voters elect one, an outside id changes neither the epoch nor
the vote nor the leader. Its claim to lead is never enough: it is asked, as a bootstrap server is, and its
answer counts.
"""

from typing import Final

from quorate.raft.core.roles.role import RoleState
from quorate.raft.core.shared_state import NodeState
from quorate.types import Epoch, NodeId

EPOCHS_MAX: Final = 1000
"""The most epochs that an outside id may be ahead. An epoch is an election, so an honest one is a few
ahead."""


def is_outside_id(node: NodeState, source: NodeId) -> bool:
    """Return whether no voter set of the log, now or earlier, names `source`, and it is not the leader that
    this node found itself."""
    return source != node.election.leader and not node.log.voters.has_named(source)


def is_heeded(node: NodeState, role: RoleState, epoch: Epoch) -> bool:
    """Return whether an outside id with `epoch` may change anything now."""
    return role.heeds_outside_ids and epoch - node.epoch <= EPOCHS_MAX
