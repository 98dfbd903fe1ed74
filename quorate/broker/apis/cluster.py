"""The nodes of the cluster: DescribeCluster names the brokers or the controllers (KIP-919), and
UnregisterBroker removes a broker from the metadata for good."""

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from quorate.broker.access.needs import NOTHING, whole
from quorate.broker.apis import answers
from quorate.broker.apis.api_row import ApiRow, refuse_with_message
from quorate.broker.apis.authorized_operations import NOT_ASKED, operations_on_cluster
from quorate.broker.apis.context import Broker, ServingNode, answer_later, check_answer, endpoint_of, respond
from quorate.broker.controller.permits import NEEDS
from quorate.broker.controller.rpc import UnregisterBrokerRequest
from quorate.broker.metadata.acls import AclOperation
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.exchanges import Answer, RequestContext, Response
from quorate.broker.wire.wire_errors import KafkaError

if TYPE_CHECKING:
    from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
    from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest as WireUnregistration

_BROKERS: Final = 1
_CONTROLLERS: Final = 2
_TIMEOUT_SECONDS: Final = 30
"""The request names none."""


def handle_describe_cluster(
    broker: Broker, context: RequestContext, request: "DescribeClusterRequest"
) -> Answer:
    kind = request.endpoint_type
    if kind == _BROKERS:
        nodes: list[answers.DescribeClusterBroker] = [
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
        nodes = _controllers(broker)
    else:
        raise KafkaError(ErrorCode.unsupported_endpoint_type, f"endpoint type {kind} is neither 1 nor 2")
    return _described(broker, context, request, nodes, broker.controller_id())


def handle_describe_controllers(
    node: ServingNode, context: RequestContext, request: "DescribeClusterRequest"
) -> Answer:
    """Describe the controllers, for clients of the controller listener. Raises `KafkaError` for a question
    about brokers."""
    if request.endpoint_type != _CONTROLLERS:
        raise KafkaError(
            ErrorCode.mismatched_endpoint_type
            if request.endpoint_type == _BROKERS
            else ErrorCode.unsupported_endpoint_type,
            f"endpoint type {request.endpoint_type} is not 2: this listener has controllers only; ask for "
            "brokers through bootstrap.servers",
        )
    voters, leader = {voter.key.id for voter in node.quorum.voters}, node.quorum.leader
    active = -1 if leader is None or leader not in voters else leader
    return _described(node, context, request, _controllers(node), active)


def _described(
    node: ServingNode,
    context: RequestContext,
    request: "DescribeClusterRequest",
    nodes: list[answers.DescribeClusterBroker],
    controller_id: int,
) -> Response:
    with_operations = request.include_cluster_authorized_operations
    return respond(
        context,
        answers.DescribeClusterResponse(
            error_code=ErrorCode.none,
            endpoint_type=request.endpoint_type,
            cluster_id=node.cluster_id,
            controller_id=controller_id,
            brokers=nodes,
            cluster_authorized_operations=operations_on_cluster(node, context)
            if with_operations
            else NOT_ASKED,
        ),
    )


def _controllers(node: ServingNode) -> list[answers.DescribeClusterBroker]:
    return [
        {
            "broker_id": voter.key.id,
            "host": voter.endpoint.host,
            "port": voter.endpoint.port,
            "rack": None,
            "is_fenced": False,
        }
        for voter in node.quorum.voters
    ]


@answer_later
async def handle_unregister_broker(
    node: ServingNode, context: RequestContext, request: "WireUnregistration"
) -> Response:
    """Forward the request. The answer waits until the broker has left every ISR, which its partitions need
    first."""
    answer = await node.ask_controller(
        context, UnregisterBrokerRequest(broker_id=int(request.broker_id)), timeout_seconds=_TIMEOUT_SECONDS
    )
    check_answer(answer)
    return respond(context, answers.UnregisterBrokerResponse(error_code=ErrorCode.none))


ROWS: Final = (
    ApiRow["DescribeClusterRequest"](
        ApiKey.DESCRIBE_CLUSTER.api,
        refuse_with_message,
        needs=NOTHING,
        controllers_need=(whole(AclOperation.ALTER),),
        brokers=handle_describe_cluster,
        controllers=handle_describe_controllers,
    ),
    ApiRow["WireUnregistration"](
        ApiKey.UNREGISTER_BROKER.api,
        refuse_with_message,
        needs=NEEDS[UnregisterBrokerRequest],
        brokers=handle_unregister_broker,
        controllers=handle_unregister_broker,
    ),
)
