"""The KRaft controller: it appends metadata records and carries out requests and chores."""

from quorate.broker.controller.broker_watch import BrokerWatch
from quorate.broker.controller.controller import (
    FENCING_THE_DEAD,
    Controller,
    ControllerSettings,
)

__all__ = [
    "FENCING_THE_DEAD",
    "BrokerWatch",
    "Controller",
    "ControllerSettings",
]
