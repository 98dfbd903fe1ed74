"""The requests of `quorate quotas`, with answers for programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kio.schema.alter_client_quotas.v1.request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse
from kio.schema.describe_client_quotas.v1.request import ComponentData, DescribeClientQuotasRequest
from kio.schema.describe_client_quotas.v1.response import DescribeClientQuotasResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import f64, i8

from quorate.broker.wire import KafkaError, WireClient

_EXACT: Final = i8(0)
_DEFAULT: Final = i8(1)
ENTITY_TYPES: Final = ("user", "client-id", "ip")


@dataclass(frozen=True, slots=True)
class QuotaOwner:
    """Those who have a quota: names by the type of entity. None: everybody of the type without one."""

    names: Mapping[str, str | None]

    def __str__(self) -> str:
        return ", ".join(
            f"{kind} {'(default)' if self.names[kind] is None else self.names[kind]}"
            for kind in ENTITY_TYPES
            if kind in self.names
        )


@dataclass(frozen=True, slots=True)
class OwnedQuotas:
    """The quotas of an owner by their names in Kafka."""

    owner: QuotaOwner
    quotas: Mapping[str, float]

    def as_dict(self) -> dict[str, object]:
        """For programs. An owner's name of None: the default."""
        return {"entity": dict(self.owner.names), "quotas": dict(self.quotas)}


async def list_quotas(client: WireClient, owner: QuotaOwner) -> list[OwnedQuotas]:
    """Return the quotas of all whose entity has these names, and maybe more. Raises `KafkaError`."""
    answer = await client.send(
        DescribeClientQuotasRequest(
            components=tuple(
                ComponentData(entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name)
                for kind, name in owner.names.items()
            ),
            strict=False,
        ),
        DescribeClientQuotasResponse,
    )
    if answer.error_code is not ErrorCode.none:
        raise KafkaError(answer.error_code, answer.error_message or answer.error_code.name.upper())
    found = [
        OwnedQuotas(
            QuotaOwner({part.entity_type: part.entity_name for part in entry.entity}),
            {each.key: float(each.value) for each in sorted(entry.values, key=lambda each: each.key)},
        )
        for entry in answer.entries or ()
    ]
    return sorted(found, key=lambda each: str(each.owner))


async def alter_quotas(
    client: WireClient,
    owner: QuotaOwner,
    *,
    values: Mapping[str, float],
    remove: Sequence[str] = (),
    validate_only: bool = False,
) -> None:
    """Set and remove quotas of an owner, all or none. Raises `KafkaError`."""
    entity = tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in owner.names.items())
    ops = [OpData(key=key, value=f64(value), remove=False) for key, value in values.items()]
    ops += [OpData(key=key, value=f64(0.0), remove=True) for key in remove]
    answer = await client.send(
        AlterClientQuotasRequest(
            entries=(EntryData(entity=entity, ops=tuple(ops)),), validate_only=validate_only
        ),
        AlterClientQuotasResponse,
    )
    (result,) = answer.entries
    if result.error_code is not ErrorCode.none:
        message = result.error_message or result.error_code.name.upper()
        raise KafkaError(result.error_code, f"{owner}: {message}")
