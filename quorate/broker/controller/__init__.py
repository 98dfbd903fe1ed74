"""The KRaft controller: it appends metadata records and carries out requests and chores."""

from quorate.broker.controller.controller import (
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    Controller,
    ControllerSettings,
)

__all__ = [
    "LATEST_METADATA_VERSION",
    "METADATA_VERSION",
    "Controller",
    "ControllerSettings",
]
