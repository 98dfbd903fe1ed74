"""The checks of clients' histories for an order that explains every answer."""

from quorate.simulation.histories import models
from quorate.simulation.histories.history import AppendCall, AppendOutcome, ClientRead, History
from quorate.simulation.histories.linearizability import (
    UNKNOWN,
    Model,
    Operation,
    Report,
    Verdict,
    check_history,
)

__all__ = [
    "UNKNOWN",
    "AppendCall",
    "AppendOutcome",
    "ClientRead",
    "History",
    "Model",
    "Operation",
    "Report",
    "Verdict",
    "check_history",
    "models",
]
