"""Quotas of users, client ids and addresses."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from quorate.broker.admin.admin_client import AdminClient, check
from quorate.broker.wire.api import ApiKey

if TYPE_CHECKING:
    from kio.schema.alter_client_quotas.v1.response import AlterClientQuotasResponse
    from kio.schema.describe_client_quotas.v1.response import DescribeClientQuotasResponse

_EXACT: Final = 0
_DEFAULT: Final = 1
ENTITY_TYPES: Final = ("user", "client-id", "ip")


@dataclass(frozen=True, slots=True)
class QuotaOwner:
    """The clients that a quota is for: names by the type of entity. None: every client of the type without a
    quota of its own."""

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
        """Return them for programs. An owner's name of None: the default."""
        return {"entity": dict(self.owner.names), "quotas": dict(self.quotas)}


async def list_quotas(admin: AdminClient, owner: QuotaOwner) -> list[OwnedQuotas]:
    """Return the quotas of all whose entity has these names, and maybe more."""
    answer = cast(
        "DescribeClientQuotasResponse",
        await admin.call(
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
            components=[
                {"entity_type": kind, "match_type": _DEFAULT if name is None else _EXACT, "match": name}
                for kind, name in owner.names.items()
            ],
            strict=False,
        ),
    )
    check(answer.error_code, answer.error_message)
    found = [
        OwnedQuotas(
            QuotaOwner({part.entity_type: part.entity_name for part in entry.entity}),
            {each.key: float(each.value) for each in sorted(entry.values, key=lambda each: each.key)},
        )
        for entry in answer.entries or ()
    ]
    return sorted(found, key=lambda each: str(each.owner))


async def alter_quotas(
    admin: AdminClient,
    owner: QuotaOwner,
    changes: Mapping[str, float | None],
    *,
    validate_only: bool = False,
) -> None:
    """Set quotas of an owner, and remove those with None, all or none."""
    answer = await admin.call(
        ApiKey.ALTER_CLIENT_QUOTAS,
        entries=[
            {
                "entity": [{"entity_type": kind, "entity_name": name} for kind, name in owner.names.items()],
                "ops": [
                    {"key": key, "value": value or 0.0, "remove": value is None}
                    for key, value in changes.items()
                ],
            }
        ],
        validate_only=validate_only,
    )
    (result,) = cast("AlterClientQuotasResponse", answer).entries
    check(result.error_code, result.error_message, of=str(owner))
