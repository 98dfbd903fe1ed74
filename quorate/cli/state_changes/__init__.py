"""State changes over their whole life: the requests from the metadata log, the rest from each broker."""

from quorate.cli.state_changes.change_requests import read_requests
from quorate.cli.state_changes.cluster_reports import ClusterReports, look, look_from_image
from quorate.cli.state_changes.lives import BrokerPart, Life, join, narrow

__all__ = [
    "BrokerPart",
    "ClusterReports",
    "Life",
    "join",
    "look",
    "look_from_image",
    "narrow",
    "read_requests",
]
