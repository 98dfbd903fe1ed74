"""The question for another ISR, as the controller is asked, and what its answer means."""

from quorate.broker.controller.rpc import AlterPartitionItem, AlterPartitionResult, IsrMember
from quorate.broker.replication.replica.isr import IsrProposal
from quorate.broker.replication.replica.partition_replica import PartitionReplica
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
"""The controller is ahead of us; what we miss is on its way. Until it is here the change stays pending."""


def isr_question(partition: PartitionReplica, proposal: IsrProposal) -> AlterPartitionItem:
    """Return what the controller is asked for."""
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
        partition.granted(
            proposal,
            isr=result.isr,
            elr=result.eligible_leader_replicas,
            partition_epoch=result.partition_epoch,
            recovery=result.leader_recovery_state,
        )
        return True
    log.warning(
        "an ISR change was refused", partition=str(partition), isr=list(proposal.isr), error=result.error.name
    )
    if result.error in _REFUSED:
        partition.refused(proposal)
        return True
    # NOT_CONTROLLER and the like: somebody else is (KAFKA-14154).
    return result.error in _SETTLED_BY_METADATA
