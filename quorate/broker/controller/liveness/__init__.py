"""The active controller knows of the lives of brokers: sessions, ended processes, progress."""

from quorate.broker.controller.liveness.broker_progress import BrokerProgress
from quorate.broker.controller.liveness.broker_watch import BrokerWatch
from quorate.broker.controller.liveness.sessions import Sessions

__all__ = ["BrokerProgress", "BrokerWatch", "Sessions"]
