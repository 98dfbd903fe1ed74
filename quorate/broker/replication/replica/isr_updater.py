"""Asks the controller for ISR changes: one request at a time per broker, all partitions that have one in
it."""

from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Final, TypeAlias

import trio

from quorate.broker.controller.rpc import (
    AlterPartitionItem,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
    IsrMember,
)
from quorate.broker.replication.foundation.current_metadata import CurrentMetadata
from quorate.broker.replication.replica.partition_replica import PartitionReplica
from quorate.broker.replication.replica.roles import IsrProposal
from quorate.error_code import ErrorCode
from quorate.runtime import get_logger

log = get_logger(__name__)

_REFUSED = (ErrorCode.INELIGIBLE_REPLICA,)
"""Errors of a change that was not committed and that would be refused again."""
_SETTLED_BY_METADATA = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.INVALID_REQUEST,
)
"""The controller is ahead of this broker, whose metadata is on its way. Until it is here the change stays
pending."""


def isr_question(partition: PartitionReplica, proposal: IsrProposal) -> AlterPartitionItem:
    """Return the part of the request that asks the controller for `proposal`."""
    epochs = dict(proposal.broker_epochs)
    return AlterPartitionItem(
        topic_id=partition.topic_id,
        partition_id=partition.partition_id,
        leader_epoch=proposal.leader_epoch,
        partition_epoch=proposal.partition_epoch,
        new_isr=tuple(IsrMember(broker_id=each, broker_epoch=epochs.get(each, -1)) for each in proposal.isr),
        leader_recovery_state=proposal.recovery,
    )


def settle_isr(partition: PartitionReplica, proposal: IsrProposal, result: AlterPartitionResult) -> bool:
    """Handle the controller's result. Return False to propose again."""
    if result.error is ErrorCode.NONE:
        if result.leader_epoch != proposal.leader_epoch or result.partition_epoch < proposal.partition_epoch:
            return True  # another epoch has begun; metadata tells
        log.info(
            "the ISR is now",
            partition=str(partition),
            isr=list(result.isr),
            leader_epoch=result.leader_epoch,
            partition_epoch=result.partition_epoch,
        )
        partition.granted(proposal, result)
        return True
    log.warning(
        "an ISR change was refused", partition=str(partition), isr=list(proposal.isr), error=result.error.name
    )
    if result.error in _REFUSED:
        partition.refused(proposal)
        return True
    # NOT_CONTROLLER and the like: somebody else is (KAFKA-14154).
    return result.error in _SETTLED_BY_METADATA


AlterPartition: TypeAlias = Callable[[AlterPartitionRequest], Awaitable[AlterPartitionResponse]]
"""Sends to the active controller. An exception is a failure whose outcome is unknown."""

_ASKED_AT_ONCE: Final = 500
"""Partitions in one request: a few milliseconds to make, and to read."""


class IsrUpdater:
    """Keeps asking until the controller answers or metadata makes the question moot."""

    def __init__(
        self,
        broker_id: int,
        metadata: CurrentMetadata,
        *,
        alter_partition: AlterPartition,
        retry_s: float,
    ) -> None:
        self._broker_id = broker_id
        self._metadata = metadata
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
            broker_epoch=self._metadata.broker_epoch,
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
