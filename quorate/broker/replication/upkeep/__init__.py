"""Work on logs beside the requests: checkpoints, flushes, retention, compaction (KIP-58), the scrub, and
moves between directories (KIP-113)."""

from quorate.broker.replication.upkeep.cleaning_choice import CleaningStats
from quorate.broker.replication.upkeep.directory_moves import DirectoryMoves
from quorate.broker.replication.upkeep.log_cleaner import LogCleaner
from quorate.broker.replication.upkeep.replica_move import MoveContext
from quorate.broker.replication.upkeep.scrubber import Scrubber
from quorate.broker.replication.upkeep.space_watch import SpaceWatch
from quorate.broker.replication.upkeep.upkeep import Upkeep

__all__ = ["CleaningStats", "DirectoryMoves", "LogCleaner", "MoveContext", "Scrubber", "SpaceWatch", "Upkeep"]
