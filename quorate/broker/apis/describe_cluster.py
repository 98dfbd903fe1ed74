"""DescribeCluster: the brokers, or the controllers (KIP-919)."""

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker, endpoint_of, respond
from quorate.broker.wire import Answer, KafkaError, RequestContext

if TYPE_CHECKING:
    from kio.schema.describe_cluster.v2.request import DescribeClusterRequest

_BROKERS: Final = 1
_CONTROLLERS: Final = 2
_NOT_ASKED: Final = -(1 << 31)
ALL_OPERATIONS: Final = 8096
"""Every operation that there is on a cluster, one bit each (KIP-430): nobody is refused any here."""


def handle(broker: Broker, context: RequestContext, request: "DescribeClusterRequest") -> Answer:
    kind = request.endpoint_type
    if kind == _BROKERS:
        nodes = [
            {
                "broker_id": each.broker_id,
                "host": endpoint.host,
                "port": endpoint.port,
                "rack": each.rack,
                "is_fenced": each.fenced,
            }
            for each in broker.image.brokers.values()
            if (request.include_fenced_brokers or not each.fenced)
            and (endpoint := endpoint_of(each, context.connection.listener)) is not None
        ]
    elif kind == _CONTROLLERS:
        nodes = [
            {
                "broker_id": voter.key.id,
                "host": voter.endpoint.host,
                "port": voter.endpoint.port,
                "rack": None,
                "is_fenced": False,
            }
            for voter in broker.quorum.voters
        ]
    else:
        raise KafkaError(ErrorCode.unsupported_endpoint_type, f"endpoint type {kind} is neither 1 nor 2")
    return respond(
        context,
        error_code=ErrorCode.none,
        endpoint_type=kind,
        cluster_id=broker.cluster_id,
        controller_id=broker.controller_id(),
        brokers=nodes,
        cluster_authorized_operations=(
            ALL_OPERATIONS if request.include_cluster_authorized_operations else _NOT_ASKED
        ),
    )
