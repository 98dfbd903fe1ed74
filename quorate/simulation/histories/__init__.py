"""What clients saw in a run, and whether it can be explained: linearizability, anomalies of logs."""

from quorate.simulation.histories.history import Append, History, Outcome, Read
from quorate.simulation.histories.linearizability import Operation, check_history
from quorate.simulation.histories.models import AppendBatch, KnownLog, LogRead

__all__ = [
    "Append",
    "AppendBatch",
    "History",
    "KnownLog",
    "LogRead",
    "Operation",
    "Outcome",
    "Read",
    "check_history",
]
