"""The rules for an id that no voter set in the log names.

Our log may be old, so a stranger may be a new voter, and the only one with the log to lead. So it is not
refused for good (KIP-853): a voter that has lost its leader, and has no election under way, votes for a
stranger by the same rules as for anybody. But while a leader is heard, or voters that we know elect one, a
stranger changes nothing: neither our epoch nor our vote nor our leader. And its word that it leads is never
enough. It is asked, as a bootstrap server is, and its answer counts.
"""

from typing import Final

from quorate.raft.core.roles.role import RoleState
from quorate.raft.core.shared_state import NodeState
from quorate.types import Epoch, NodeId

EPOCHS_MAX: Final = 1000
"""A stranger may be so far ahead of us. Epochs are elections, so an honest one is a few ahead."""


def is_stranger(node: NodeState, source: NodeId) -> bool:
    """Nobody whom the voters of the log, now or earlier, name, nor the leader that we found ourselves."""
    return source != node.election.leader and not node.log.voters.has_named(source)


def is_heeded(node: NodeState, role: RoleState, epoch: Epoch) -> bool:
    """True if such an id, with `epoch`, may change anything now."""
    return role.heeds_strangers and epoch - node.epoch <= EPOCHS_MAX
