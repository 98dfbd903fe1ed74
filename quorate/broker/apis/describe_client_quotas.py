"""DescribeClientQuotas, from this broker's metadata (KIP-546)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker, respond_in_slices
from quorate.broker.metadata import MetadataImage, QuotaEntity
from quorate.broker.wire import Answer, KafkaError, RequestContext

if TYPE_CHECKING:
    from kio.schema.describe_client_quotas.v1.request import ComponentData, DescribeClientQuotasRequest

_EXACT, _DEFAULT, _ANY = 0, 1, 2
_PARTS: Final[tuple[tuple[str, Callable[[QuotaEntity], str | None]], ...]] = (
    ("user", lambda entity: entity.user),
    ("client-id", lambda entity: entity.client_id),
    ("ip", lambda entity: entity.ip),
)
"""The parts of an entity by Kafka's types; empty: the default, None: it has no such part."""
_TYPES: Final = frozenset(kind for kind, _ in _PARTS)


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


def handle(broker: Broker, context: RequestContext, request: "DescribeClientQuotasRequest") -> Answer:
    """Raises `KafkaError` for a filter that is none."""
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
        wanted[kind] = _wanted(component)
    if "ip" in wanted and len(wanted) > 1:
        raise KafkaError(ErrorCode.invalid_request, "An ip can't be combined with other entity types.")
    chosen = _Filter(wanted, request.strict)
    return respond_in_slices(
        context,
        error_code=ErrorCode.none,
        error_message=None,
        entries=_entries(broker.image, chosen),
    )


def _wanted(component: "ComponentData") -> str | None:
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


def _entries(image: MetadataImage, chosen: _Filter) -> Iterator[dict[str, object]]:
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
