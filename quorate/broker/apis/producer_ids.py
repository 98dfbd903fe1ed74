"""Producer ids, handed out from blocks that the controller gave this broker (KIP-730)."""

from collections.abc import Callable
from typing import Final

import trio
from kio.schema.errors import ErrorCode as WireErrorCode

from quorate.broker.controller.rpc import AllocateProducerIdsRequest
from quorate.broker.controller_channel import ControllerChannel
from quorate.broker.wire.wire_errors import KafkaError
from quorate.error_code import ErrorCode
from quorate.runtime import get_logger

log = get_logger(__name__)

_TIMEOUT_SECONDS: Final = 10.0


class ProducerIdSource:
    """Draws each id once in the life of the cluster. The rest of a block is lost when the broker stops."""

    def __init__(
        self, channel: ControllerChannel, *, broker_id: int, broker_epoch: Callable[[], int]
    ) -> None:
        self._channel = channel
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._next = 0
        self._end = 0
        self._fetching = trio.Lock()

    async def draw(self) -> int:
        """Return the next id. Raises `KafkaError` (COORDINATOR_LOAD_IN_PROGRESS, which clients try again)
        while the controller has none to give, and `ControllerTimedOutError`."""
        async with self._fetching:
            if self._next == self._end:
                await self._fetch_block()
            drawn = self._next
            self._next += 1
            return drawn

    async def _fetch_block(self) -> None:
        request = AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch())
        answer = await self._channel.ask(request, timeout_seconds=_TIMEOUT_SECONDS)
        if answer.error is not ErrorCode.NONE:
            log.warning("no producer ids", error=answer.error.name, reason=answer.error_message)
            raise KafkaError(WireErrorCode.coordinator_load_in_progress, answer.error_message or "")
        self._next = answer.first_producer_id
        self._end = answer.first_producer_id + answer.count
