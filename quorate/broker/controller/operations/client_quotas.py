"""AlterClientQuotas: each entity wholly or not at all (KIP-546)."""

import ipaddress
import math
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from quorate.broker.controller.operations.outcome import Outcome, decide_each
from quorate.broker.controller.rpc import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    QuotaAlteration,
    QuotaAlterationResult,
    QuotaEntityPart,
    QuotaOperation,
)
from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import ClientQuota, QuotaEntity
from quorate.broker.metadata.quota_precedence import CLIENT_QUOTAS, QuotaKey
from quorate.error_code import ErrorCode

_TYPES: Final[Mapping[str, str]] = MappingProxyType({"user": "user", "client-id": "client_id", "ip": "ip"})
"""The fields of a `QuotaEntity` by Kafka's names."""
_MAX_NAME: Final = 1 << 12


def alter_client_quotas(
    image: MetadataImage,
    request: AlterClientQuotasRequest,
    *,
    asked: Mapping[frozenset[QuotaEntityPart], int] | None = None,
) -> Outcome[AlterClientQuotasResponse]:
    """Alter each entity as a whole or not at all. `asked`: how often the whole request names each entity, if
    this is a portion of it. One that is named twice keeps its quotas: Kafka refuses the second only."""
    asked = entities_asked(request) if asked is None else asked
    results, groups = decide_each(
        request.alterations,
        lambda alteration: _records(image, alteration, asked=asked),
        lambda _, error, message: QuotaAlterationResult(error=error, error_message=message),
    )
    response = AlterClientQuotasResponse(results=results)
    return Outcome(response=response, groups=() if request.validate_only else groups)


def entities_asked(request: AlterClientQuotasRequest) -> Mapping[frozenset[QuotaEntityPart], int]:
    """Return how often the request names each entity."""
    return Counter(frozenset(each.entity) for each in request.alterations)


def _records(
    image: MetadataImage, alteration: QuotaAlteration, *, asked: Mapping[frozenset[QuotaEntityPart], int]
) -> tuple[ClientQuota, ...]:
    """Return the records of the changes to the quotas of the entity. Raises `ApiError`."""
    entity = _entity(alteration.entity)
    if asked[frozenset(alteration.entity)] > 1:
        raise _invalid("The entity appears more than once in the request.")
    keys = [operation.key for operation in alteration.operations]
    if len(set(keys)) < len(keys):
        raise _invalid("A quota appears more than once in the entity's operations.")
    for operation in alteration.operations:
        _check(operation, entity)
    held = image.quotas(entity)
    return tuple(
        ClientQuota(entity=entity, key=operation.key, value=operation.value)
        for operation in alteration.operations
        if held.get(operation.key) != operation.value
    )


def _entity(parts: tuple[QuotaEntityPart, ...]) -> QuotaEntity:
    if not parts:
        raise _invalid("The entity has no parts; name a user, a client-id, both, or an ip.")
    named: dict[str, str] = {}
    for part in parts:
        field = _TYPES.get(part.type)
        if field is None:
            raise _invalid(f"Entity type {part.type!r:.60} is none of user, client-id and ip.")
        if field in named:
            raise _invalid(f"Entity type {part.type} appears more than once.")
        if part.name == "":
            raise _invalid(f"The {part.type} has an empty name; the default of its type has none (null).")
        if part.name is not None and len(part.name) > _MAX_NAME:
            raise _invalid(f"The {part.type}'s name has more than {_MAX_NAME} characters.")
        named[field] = part.name or ""
    if "ip" in named:
        if len(named) > 1:
            raise _invalid("An ip can't be combined with other entity types.")
        named["ip"] = _address(named["ip"])
    return QuotaEntity(**named)


def _address(text: str) -> str:
    """Return the address in one form, so that a connection's address is found. A host name isn't resolved:
    its address may be another one tomorrow."""
    if not text:
        return text
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise _invalid(f"{text!r:.60} is no IP address.") from None


def _check(operation: QuotaOperation, entity: QuotaEntity) -> None:
    quota = CLIENT_QUOTAS.get(operation.key)
    of_address = entity.ip is not None
    if quota is None or quota.of_addresses is not of_address:
        allowed = ", ".join(
            sorted(name for name, each in CLIENT_QUOTAS.items() if each.of_addresses is of_address)
        )
        raise _invalid(f"{operation.key!r:.60} is no quota of this entity; it may have {allowed}.")
    if operation.value is not None:
        _check_value(operation.key, operation.value, quota)


def _check_value(key: str, number: float, quota: QuotaKey) -> None:
    if not math.isfinite(number) or number <= 0:
        raise _invalid(f"{key} is {number:g}; it must be greater than 0. Remove it for no limit.")
    if quota.whole and number != math.floor(number):
        raise _invalid(f"{key} is {number:g}; it must be a whole number.")
    if number > quota.most:
        raise _invalid(f"{key} is {number:g}; it must be at most {quota.most:g}.")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
