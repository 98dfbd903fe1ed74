"""The APIs of Kafka that brokers and controllers serve, a module for each family."""

from quorate.broker.apis.api_row import ApiRow
from quorate.broker.apis.api_table import (
    BROKER_APIS,
    CONTROLLER_APIS,
    ROWS,
    ControllerDispatcher,
    Dispatcher,
    error_table,
)
from quorate.broker.apis.client_throttles import ClientThrottles
from quorate.broker.apis.cluster_metadata import ClusterMetadataReader
from quorate.broker.apis.context import Broker, ServingNode
from quorate.broker.apis.features import features_of
from quorate.broker.apis.leader_readiness import LeaderReadiness
from quorate.broker.apis.producer_ids import ProducerIdSource
from quorate.broker.apis.topic_creation import TopicCreator

__all__ = [
    "BROKER_APIS",
    "CONTROLLER_APIS",
    "ROWS",
    "ApiRow",
    "Broker",
    "ClientThrottles",
    "ClusterMetadataReader",
    "ControllerDispatcher",
    "Dispatcher",
    "LeaderReadiness",
    "ProducerIdSource",
    "ServingNode",
    "TopicCreator",
    "error_table",
    "features_of",
]
