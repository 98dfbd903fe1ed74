"""AllocateProducerIds: blocks of producer ids, each handed out once (KIP-730)."""

from typing import Final

from quorate.broker.controller.operations.outcome import Outcome, refusal
from quorate.broker.controller.rpc import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import ProducerIds
from quorate.error_code import ErrorCode

BLOCK_SIZE: Final = 1000
_MOST: Final = (1 << 63) - 1


def allocate_producer_ids(
    image: MetadataImage, request: AllocateProducerIdsRequest
) -> Outcome[AllocateProducerIdsResponse]:
    """Give the broker the next block."""
    broker = image.broker(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        message = f"Broker {request.broker_id} has no epoch {request.broker_epoch}."
        return refusal(AllocateProducerIdsResponse, ErrorCode.STALE_BROKER_EPOCH, message)
    first = image.next_producer_id
    if first > _MOST - BLOCK_SIZE:
        message = "There are no producer ids left."
        return refusal(AllocateProducerIdsResponse, ErrorCode.UNKNOWN_SERVER_ERROR, message)
    record = ProducerIds(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=first + BLOCK_SIZE,
    )
    return Outcome(
        response=AllocateProducerIdsResponse(first_producer_id=first, count=BLOCK_SIZE),
        groups=((record,),),
    )
