"""The checks of clients' histories: linearizability, anomalies of logs."""

from quorate.simulation.histories.history import AppendCall, AppendOutcome, ClientRead, History
from quorate.simulation.histories.linearizability import Operation, check_history
from quorate.simulation.histories.models import AppendBatch, KnownLog, Read

__all__ = [
    "AppendBatch",
    "AppendCall",
    "AppendOutcome",
    "ClientRead",
    "History",
    "KnownLog",
    "Operation",
    "Read",
    "check_history",
]
