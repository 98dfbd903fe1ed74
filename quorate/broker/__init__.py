"""A broker cluster on the quorum, in Kafka's protocol. Needs the extra `broker`.

Names are imported when they are first used: Spark reads the metadata with this package's modules, and needs
no server for it.
"""

from typing import TYPE_CHECKING

from quorate.lazy_names import lazily
from quorate.runtime import need

if TYPE_CHECKING:
    from quorate.broker.controller_channel import ControllerTimedOutError
    from quorate.broker.failure_reports import UnreportedFailureError
    from quorate.broker.lifecycle import BrokerRegistrationError
    from quorate.broker.log_directories import SameDirectoryError
    from quorate.broker.server import BrokerServer

need("quorate.broker", "kio", "cramjam", "javaproperties", extra="broker")

_HOMES = {
    "ControllerTimedOutError": "quorate.broker.controller_channel",
    "UnreportedFailureError": "quorate.broker.failure_reports",
    "BrokerRegistrationError": "quorate.broker.lifecycle",
    "SameDirectoryError": "quorate.broker.log_directories",
    "BrokerServer": "quorate.broker.server",
}

__getattr__ = lazily(__name__, _HOMES)


__all__ = [
    "BrokerRegistrationError",
    "BrokerServer",
    "ControllerTimedOutError",
    "SameDirectoryError",
    "UnreportedFailureError",
]
