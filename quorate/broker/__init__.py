"""A broker cluster on the quorum, in Kafka's protocol. Needs the extra `broker`.

Names are imported when they are first used: Spark reads the metadata with this package's modules, and needs
no server for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from quorate.runtime import need

if TYPE_CHECKING:
    from quorate.broker.controller_channel import ControllerTimedOutError
    from quorate.broker.failure_reports import UntoldFailureError
    from quorate.broker.lifecycle import BrokerRegistrationError
    from quorate.broker.log_directories import SameDirectoryError
    from quorate.broker.server import BrokerServer

need("quorate.broker", "kio", "cramjam", extra="broker")

_HOMES = {
    "ControllerTimedOutError": "quorate.broker.controller_channel",
    "UntoldFailureError": "quorate.broker.failure_reports",
    "BrokerRegistrationError": "quorate.broker.lifecycle",
    "SameDirectoryError": "quorate.broker.log_directories",
    "BrokerServer": "quorate.broker.server",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


__all__ = [
    "BrokerRegistrationError",
    "BrokerServer",
    "ControllerTimedOutError",
    "SameDirectoryError",
    "UntoldFailureError",
]
