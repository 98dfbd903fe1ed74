"""State changes over their whole life: the requests from the metadata log, the rest from each broker."""

from quorate.cli.kafka_requests.state_changes.change_requests import read_requests
from quorate.cli.kafka_requests.state_changes.cluster_sight import ClusterSight, look, topic_states
from quorate.cli.kafka_requests.state_changes.lives import BrokerPart, Life, join, narrow

__all__ = ["BrokerPart", "ClusterSight", "Life", "join", "look", "narrow", "read_requests", "topic_states"]
