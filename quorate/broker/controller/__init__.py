"""The KRaft controller: metadata records, the image, and the operations on it."""

from quorate.broker.controller.controller import (
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    Controller,
    ControllerSettings,
)
from quorate.broker.controller.quorum_log import QuorumMetadataLog
from quorate.broker.controller.service import ControllerService

__all__ = [
    "LATEST_METADATA_VERSION",
    "METADATA_VERSION",
    "Controller",
    "ControllerService",
    "ControllerSettings",
    "QuorumMetadataLog",
]
