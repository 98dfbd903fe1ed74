"""The declarations of all metrics, and the HTTP endpoint for them."""

from quorate.metrics.controller_stats import ControllerStats
from quorate.metrics.declarations import BROKER_METADATA, CONTROLLER, families
from quorate.metrics.endpoint import Site, serve_metrics
from quorate.metrics.raft_metrics import RaftMetrics
from quorate.metrics.token_file import TokenFile, TokenFileError

__all__ = [
    "BROKER_METADATA",
    "CONTROLLER",
    "ControllerStats",
    "RaftMetrics",
    "Site",
    "TokenFile",
    "TokenFileError",
    "families",
    "serve_metrics",
]
