"""AlterClientQuotas, passed on to the controller (KIP-546)."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker, encoded_in_slices
from quorate.broker.controller.rpc import (
    AlterClientQuotasRequest,
    QuotaAlteration,
    QuotaAlterationResult,
    QuotaEntityPart,
    QuotaOperation,
)
from quorate.broker.wire import Answer, KafkaError, RequestContext, Response, wire_code
from quorate.runtime import Steps, in_slices

if TYPE_CHECKING:
    from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest as WireRequest
    from kio.schema.alter_client_quotas.v1.request import EntryData

_TIMEOUT_SECONDS: Final = 30
"""The request names none."""
_MOST_ENTRIES: Final = 10_000
_MOST_IN_ENTRY: Final = 100


def handle(broker: Broker, context: RequestContext, request: "WireRequest") -> Answer:
    """Each entity wholly or not at all. Raises `KafkaError` for what the controller can't be asked."""
    if len(request.entries) > _MOST_ENTRIES:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"The request has {len(request.entries)} entities; at most {_MOST_ENTRIES} are taken.",
        )
    return broker.later(lambda: _alter(broker, context, request))


async def _alter(broker: Broker, context: RequestContext, request: "WireRequest") -> Response:
    asked = AlterClientQuotasRequest(
        alterations=await in_slices(_alterations(request.entries)), validate_only=request.validate_only
    )
    answer = await broker.channel.ask(asked, timeout_seconds=_TIMEOUT_SECONDS)
    results = answer.results
    if answer.error:
        refused = QuotaAlterationResult(error=answer.error, error_message=answer.error_message)
        results = (refused,) * len(request.entries)
    return await encoded_in_slices(
        context,
        entries=(
            {
                "error_code": wire_code(result.error),
                "error_message": result.error_message,
                "entity": [
                    {"entity_type": part.entity_type, "entity_name": part.entity_name}
                    for part in entry.entity
                ],
            }
            for entry, result in zip(request.entries, results, strict=True)
        ),
    )


def _alterations(entries: Sequence["EntryData"]) -> Steps[tuple[QuotaAlteration, ...]]:
    alterations: list[QuotaAlteration] = []
    for entry in entries:
        alterations.append(_alteration(entry))
        yield
    return tuple(alterations)


def _alteration(entry: "EntryData") -> QuotaAlteration:
    if len(entry.entity) > _MOST_IN_ENTRY or len(entry.ops) > _MOST_IN_ENTRY:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"An entity has {len(entry.entity)} parts and {len(entry.ops)} operations; at most "
            f"{_MOST_IN_ENTRY} of each are taken.",
        )
    for each in entry.ops:
        if not each.remove and not math.isfinite(each.value):
            raise KafkaError(
                ErrorCode.invalid_request, f"{each.key!r:.60} is {each.value}; it must be finite."
            )
    return QuotaAlteration(
        entity=tuple(QuotaEntityPart(type=part.entity_type, name=part.entity_name) for part in entry.entity),
        operations=tuple(
            QuotaOperation(key=each.key, value=None if each.remove else float(each.value))
            for each in entry.ops
        ),
    )
