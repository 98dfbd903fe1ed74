"""Every metric, declared in one place, and the endpoint that shows them."""

from quorate.metrics.endpoint import serve_metrics
from quorate.metrics.raft_metrics import RaftMetrics

__all__ = ["RaftMetrics", "serve_metrics"]
