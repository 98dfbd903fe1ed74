"""The KRaft controller: metadata records, the image, and the operations on it."""

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
