"""State changes over their whole life: the requests from the metadata log, the rest from each broker."""

from quorate.cli.state_changes.change_requests import read_requests
from quorate.cli.state_changes.cluster_reports import (
    ClusterReports,
    changes_request,
    read_reports,
    read_reports_by_image,
)
from quorate.cli.state_changes.lives import BrokerPart, Life, join, narrow

__all__ = [
    "BrokerPart",
    "ClusterReports",
    "Life",
    "changes_request",
    "join",
    "narrow",
    "read_reports",
    "read_reports_by_image",
    "read_requests",
]
