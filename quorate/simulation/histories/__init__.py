"""The checks of clients' histories: linearizability, anomalies of logs."""

from quorate.simulation.histories.history import Append, ClientRead, History, Outcome
from quorate.simulation.histories.linearizability import Operation, check_history
from quorate.simulation.histories.models import AppendBatch, KnownLog, Read

__all__ = [
    "Append",
    "AppendBatch",
    "ClientRead",
    "History",
    "KnownLog",
    "Operation",
    "Outcome",
    "Read",
    "check_history",
]
