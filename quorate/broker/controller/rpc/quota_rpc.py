"""AlterClientQuotas between a broker and the active controller."""

from dataclasses import dataclass

from quorate.broker.controller.rpc.rpc import ControllerRequest, ControllerResponse
from quorate.error_code import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEntityPart:
    """A part of an entity as the client wrote it. `name`: None for the default of its type."""

    type: str
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaOperation:
    """`value`: None removes the quota."""

    key: str
    value: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaAlteration:
    entity: tuple[QuotaEntityPart, ...]
    operations: tuple[QuotaOperation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasRequest(ControllerRequest["AlterClientQuotasResponse"]):
    alterations: tuple[QuotaAlteration, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaAlterationResult:
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasResponse(ControllerResponse):
    results: tuple[QuotaAlterationResult, ...] = ()
    """In the order of the alterations."""
