"""Compaction of a broker's logs: which, when and how fast (KIP-58, KIP-354)."""

from quorate.broker.replication.storage.cleaning.cleaning_stats import CleaningStats
from quorate.broker.replication.storage.cleaning.log_cleaner import LogCleaner

__all__ = ["CleaningStats", "LogCleaner"]
