"""InitProducerId, for idempotent producers."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from quorate.broker.apis import transactions
from quorate.broker.apis.context import Broker, respond
from quorate.broker.wire import Answer, RequestContext, Response

if TYPE_CHECKING:
    from kio.schema.init_producer_id.v4.request import InitProducerIdRequest


def handle(broker: Broker, context: RequestContext, request: "InitProducerIdRequest") -> Answer:
    """Return a new id with epoch 0, also for a producer that had one: without transactions nothing else of it
    needs to be told apart (KIP-360)."""
    if request.transactional_id is not None:
        raise transactions.refused()
    return broker.later(lambda: _draw(broker, context))


async def _draw(broker: Broker, context: RequestContext) -> Response:
    producer_id = await broker.producer_ids.draw()
    return respond(context, error_code=ErrorCode.none, producer_id=producer_id, producer_epoch=0)
