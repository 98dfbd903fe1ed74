"""Asks the controller for ISR changes: one request at a time per broker, all partitions that have one in
it."""

from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Final, TypeAlias

import trio

from quorate.broker.controller.rpc import AlterPartitionRequest, AlterPartitionResponse
from quorate.broker.replication.replica import IsrProposal, PartitionReplica, isr_question, settle_isr
from quorate.error_code import ErrorCode
from quorate.runtime import get_logger

log = get_logger(__name__)

AlterPartition: TypeAlias = Callable[[AlterPartitionRequest], Awaitable[AlterPartitionResponse]]
"""Sends to the active controller. An exception is a failure whose outcome is unknown."""

_ASKED_AT_ONCE: Final = 500
"""Partitions in one request: a few milliseconds to make, and to read."""


class IsrUpdater:
    """Keeps asking until the controller answers or metadata makes the question moot."""

    def __init__(
        self,
        broker_id: int,
        *,
        broker_epoch: Callable[[], int],
        alter_partition: AlterPartition,
        retry_s: float,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._alter_partition = alter_partition
        self._retry_s = retry_s
        self._waiting: dict[PartitionReplica, IsrProposal] = {}
        self._wake = trio.Event()

    def submit(self, partition: PartitionReplica, proposal: IsrProposal) -> None:
        self._waiting[partition] = proposal
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            batch = self._take()
            if batch and not await self._ask(batch):
                for partition, proposal in batch.items():
                    if partition.is_pending(proposal):
                        self._waiting.setdefault(partition, proposal)
                self._wake.set()
                await trio.sleep(self._retry_s)

    def _take(self) -> dict[PartitionReplica, IsrProposal]:
        """Return the next batch to propose. A dead broker leaves thousands of changes, so one batch is
        bounded."""
        taken = tuple(islice(self._waiting, _ASKED_AT_ONCE))
        batch = {each: self._waiting.pop(each) for each in taken}
        batch = {each: proposal for each, proposal in batch.items() if each.is_pending(proposal)}
        if self._waiting:
            self._wake.set()
        return batch

    async def _ask(self, batch: dict[PartitionReplica, IsrProposal]) -> bool:
        """Return whether nothing in `batch` has to be proposed again."""
        request = AlterPartitionRequest(
            broker_id=self._broker_id,
            broker_epoch=self._broker_epoch(),
            partitions=tuple(isr_question(each, proposal) for each, proposal in batch.items()),
        )
        try:
            response = await self._alter_partition(request)
        except Exception as error:
            # Whatever it was: the outcome is unknown, and asking again is harmless.
            log.warning("the controller did not answer about ISRs", reason=str(error) or repr(error))
            return False
        if response.error is not ErrorCode.NONE:
            log.warning(
                "the controller refused ISR changes", error=response.error.name, reason=response.error_message
            )
            return False
        results = {(result.topic_id, result.partition_id): result for result in response.partitions}
        again = False
        for partition, proposal in batch.items():
            result = results.get((partition.topic_id, partition.partition_id))
            if result is None or not settle_isr(partition, proposal, result):
                again = True
        return not again
