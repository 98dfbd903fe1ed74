"""The request for other replicas (KIP-455), and its answer."""

from dataclasses import dataclass

from quorate.broker.controller.rpc.rpc import ControllerRequest, ControllerResponse
from quorate.error_code import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentItem:
    """The replicas that a partition is to have. None: what is under way is cancelled."""

    topic: str
    partition_id: int
    replicas: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsRequest(ControllerRequest["AlterPartitionReassignmentsResponse"]):
    partitions: tuple[ReassignmentItem, ...]
    allow_factor_change: bool = True
    """False: a target that is longer or shorter than the present one is refused (KIP-860)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentResult:
    topic: str
    partition_id: int
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsResponse(ControllerResponse):
    partitions: tuple[ReassignmentResult, ...] = ()
