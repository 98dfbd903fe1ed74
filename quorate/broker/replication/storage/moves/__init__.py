"""Moves of replicas between the directories of a broker, while it serves (KIP-113, KIP-858)."""

from quorate.broker.replication.storage.moves.directory_moves import DirectoryMoves
from quorate.broker.replication.storage.moves.replica_move import MoveContext

__all__ = ["DirectoryMoves", "MoveContext"]
