"""RefetchReplica (ours): a damaged replica of this broker is set aside and fetched anew."""

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker, respond
from quorate.broker.replication import PartitionError
from quorate.broker.wire import Answer, RequestContext, Response, wire_code
from quorate.broker.wire.codecs import RefetchReplicaRequest


def handle(broker: Broker, context: RequestContext, request: RefetchReplicaRequest) -> Answer:
    """Answer when the empty log has taken the damaged one's place, or with why it can't."""
    return broker.later(lambda: _refetch(broker, context, request))


async def _refetch(broker: Broker, context: RequestContext, request: RefetchReplicaRequest) -> Response:
    try:
        path = await broker.replicas.refetches.refetch(request.topic_name, request.partition_index)
    except PartitionError as error:
        return respond(context, error_code=wire_code(error.code), error_message=error.message)
    return respond(context, error_code=ErrorCode.none, path=path)
