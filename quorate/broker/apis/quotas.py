"""Quotas of clients: AlterClientQuotas, passed on to the controller, and DescribeClientQuotas, from this
broker's metadata (KIP-546).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from quorate.broker.access.needs import whole
from quorate.broker.apis import answers
from quorate.broker.apis.api_row import ApiRow
from quorate.broker.apis.context import (
    Broker,
    answer_later,
    check_answer,
    encoded_in_slices,
    respond_in_slices,
)
from quorate.broker.controller.permits import NEEDS
from quorate.broker.controller.rpc import (
    AlterClientQuotasRequest,
    QuotaAlteration,
    QuotaEntityPart,
    QuotaOperation,
)
from quorate.broker.metadata.acls import AclOperation
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import QuotaEntity
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.exchanges import Answer, Refusal, RequestContext, Response
from quorate.broker.wire.wire_errors import KafkaError, wire_code
from quorate.runtime import Steps, in_slices

if TYPE_CHECKING:
    from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest as WireAlterQuotas
    from kio.schema.alter_client_quotas.v1.request import EntryData
    from kio.schema.describe_client_quotas.v1.request import ComponentData, DescribeClientQuotasRequest

_TIMEOUT_SECONDS: Final = 30
"""The request names none."""
_MOST_ENTRIES: Final = 10_000
_MOST_IN_ENTRY: Final = 100
_EXACT, _DEFAULT, _ANY = 0, 1, 2
_PARTS: Final[tuple[tuple[str, Callable[[QuotaEntity], str | None]], ...]] = (
    ("user", lambda entity: entity.user),
    ("client-id", lambda entity: entity.client_id),
    ("ip", lambda entity: entity.ip),
)
"""The parts of an entity by Kafka's types; empty: the default, None: it has no such part."""
_TYPES: Final = frozenset(kind for kind, _ in _PARTS)


@answer_later
async def handle_alter_client_quotas(
    broker: Broker, context: RequestContext, request: "WireAlterQuotas"
) -> Response:
    """Alter each entity wholly or not at all. Raises `KafkaError` for a request that is too large for the
    controller."""
    if len(request.entries) > _MOST_ENTRIES:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"The request has {len(request.entries)} entities; at most {_MOST_ENTRIES} are taken.",
        )
    asked = AlterClientQuotasRequest(
        alterations=await in_slices(_alterations(request.entries)), validate_only=request.validate_only
    )
    answer = await broker.ask_controller(context, asked, timeout_seconds=_TIMEOUT_SECONDS)
    check_answer(answer)
    return await encoded_in_slices(
        context,
        answers.AlterClientQuotasResponse(
            entries=(
                _altered(entry, wire_code(result.error), result.error_message)
                for entry, result in zip(request.entries, answer.results, strict=True)
            )
        ),
    )


def _altered(entry: "EntryData", error: ErrorCode, message: str | None) -> answers.AlterClientQuotasEntryData:
    return {
        "error_code": error,
        "error_message": message,
        "entity": [
            {"entity_type": part.entity_type, "entity_name": part.entity_name} for part in entry.entity
        ],
    }


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


@dataclass(frozen=True, slots=True)
class _Filter:
    wanted: dict[str, str | None]
    """By type, the name; None: any."""
    strict: bool

    def takes(self, entity: QuotaEntity) -> bool:
        for kind, read in _PARTS:
            part = read(entity)
            if kind in self.wanted:
                if part is None or self.wanted[kind] not in (None, part):
                    return False
            elif self.strict and part is not None:
                return False
        return True


def handle_describe_client_quotas(
    broker: Broker, context: RequestContext, request: "DescribeClientQuotasRequest"
) -> Answer:
    """Describe the quotas that a filter takes. Raises `KafkaError` for an invalid filter."""
    wanted: dict[str, str | None] = {}
    for component in request.components:
        kind = component.entity_type
        if not kind:
            raise KafkaError(ErrorCode.invalid_request, "A component has no entity type.")
        if kind not in _TYPES:
            raise KafkaError(
                ErrorCode.unsupported_version, f"Entity type {kind!r:.60} is none of user, client-id and ip."
            )
        if kind in wanted:
            raise KafkaError(ErrorCode.invalid_request, f"Entity type {kind} appears more than once.")
        wanted[kind] = _wanted_name(component)
    if "ip" in wanted and len(wanted) > 1:
        raise KafkaError(ErrorCode.invalid_request, "An ip can't be combined with other entity types.")
    chosen = _Filter(wanted, request.strict)
    return respond_in_slices(
        context,
        answers.DescribeClientQuotasResponse(
            error_code=ErrorCode.none, error_message=None, entries=_quota_entries(broker.image, chosen)
        ),
    )


def _wanted_name(component: "ComponentData") -> str | None:
    match component.match_type, component.match:
        case 0, str(name) if name:
            return name
        case 1, None:
            return ""
        case 2, None:
            return None
        case kind, _ if kind in (_EXACT, _DEFAULT, _ANY):
            raise KafkaError(
                ErrorCode.invalid_request,
                f"{component.entity_type}: a match takes a name with match type 0, and none with 1 and 2.",
            )
        case kind, _:
            raise KafkaError(ErrorCode.invalid_request, f"{component.entity_type}: no match type is {kind}.")


def _quota_entries(image: MetadataImage, chosen: _Filter) -> Iterator[answers.DescribeClientQuotasEntryData]:
    for entity in tuple(image.quota_entities()):
        quotas = image.quotas(entity)
        if quotas and chosen.takes(entity):
            yield {
                "entity": [
                    {"entity_type": kind, "entity_name": part or None}
                    for kind, read in _PARTS
                    if (part := read(entity)) is not None
                ],
                "values": [{"key": key, "value": value} for key, value in quotas.items()],
            }


def _refuse_alteration(request: "WireAlterQuotas", refusal: Refusal) -> answers.AlterClientQuotasResponse:
    return {"entries": (_altered(each, refusal.code, refusal.message) for each in request.entries)}


def _refuse_description(request: object, refusal: Refusal) -> answers.DescribeClientQuotasResponse:
    return {"error_code": refusal.code, "error_message": refusal.message, "entries": None}


ROWS: Final = (
    ApiRow["DescribeClientQuotasRequest"](
        ApiKey.DESCRIBE_CLIENT_QUOTAS.api,
        _refuse_description,
        needs=(whole(AclOperation.DESCRIBE_CONFIGS),),
        brokers=handle_describe_client_quotas,
    ),
    ApiRow["WireAlterQuotas"](
        ApiKey.ALTER_CLIENT_QUOTAS.api,
        _refuse_alteration,
        needs=NEEDS[AlterClientQuotasRequest],
        brokers=handle_alter_client_quotas,
    ),
)
