"""The KRaft controller: it appends metadata records and carries out requests and chores."""

from quorate.broker.controller.controller import Controller, ControllerSettings

__all__ = ["Controller", "ControllerSettings"]
