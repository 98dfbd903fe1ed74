"""One client for the administration of a cluster: for commands, simulated operators and scripts."""

from quorate.broker.admin.controllers import Controllers

__all__ = ["Controllers"]
