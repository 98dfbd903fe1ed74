"""ElectLeaders between a broker and the active controller."""

import enum
from dataclasses import dataclass

from quorate.broker.controller.rpc.rpc import ControllerRequest, ControllerResponse
from quorate.error_code import ErrorCode


class ElectionType(enum.IntEnum):
    """Kafka's numbers of the elections that an administrator may ask for."""

    PREFERRED = 0
    """The first replica leads again."""
    UNCLEAN = 1
    """Somebody leads where nobody does, records or not, whatever the topic's setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersItem:
    topic: str
    partition_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersRequest(ControllerRequest["ElectLeadersResponse"]):
    election_type: ElectionType
    partitions: tuple[ElectLeadersItem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersResult:
    topic: str
    partition_id: int
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersResponse(ControllerResponse):
    results: tuple[ElectLeadersResult, ...] = ()
    """In the order of the request."""
