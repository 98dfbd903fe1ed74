"""UnregisterBroker: a broker is removed from the cluster's metadata for good."""

from typing import TYPE_CHECKING, Final

from quorate.broker.apis.context import ServingNode, respond
from quorate.broker.controller.rpc import UnregisterBrokerRequest
from quorate.broker.wire import Answer, RequestContext, Response, wire_code

if TYPE_CHECKING:
    from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest as WireRequest

_TIMEOUT_SECONDS: Final = 30
"""The request names none."""


def handle(node: ServingNode, context: RequestContext, request: "WireRequest") -> Answer:
    """Forward it. The answer waits until the broker has left every ISR, which its partitions need first."""
    broker_id = int(request.broker_id)

    async def unregister() -> Response:
        answer = await node.channel.ask(
            UnregisterBrokerRequest(broker_id=broker_id), timeout_seconds=_TIMEOUT_SECONDS
        )
        return respond(context, error_code=wire_code(answer.error), error_message=answer.error_message)

    return node.later(unregister)
