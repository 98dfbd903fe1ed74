"""A broker cluster on the quorum, in Kafka's protocol. Needs the extra `broker`."""

from quorate.broker.controller_channel import ControllerTimedOutError
from quorate.broker.failure_reports import UntoldFailureError
from quorate.broker.lifecycle import BrokerRegistrationError
from quorate.broker.log_directories import SameDirectoryError
from quorate.broker.server import BrokerServer
from quorate.runtime import need

need("quorate.broker", "kio", "cramjam", extra="broker")

__all__ = [
    "BrokerRegistrationError",
    "BrokerServer",
    "ControllerTimedOutError",
    "SameDirectoryError",
    "UntoldFailureError",
]
