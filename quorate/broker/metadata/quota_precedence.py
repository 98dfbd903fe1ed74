"""The quotas of clients, and which entity's counts for whom (KIP-55, KIP-257, KIP-546)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import QuotaEntity

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaKey:
    """`most`: the highest value (inclusive)."""

    most: float


CLIENT_QUOTAS: Final[Mapping[str, QuotaKey]] = MappingProxyType(
    {
        PRODUCER_BYTE_RATE: QuotaKey(most=float((1 << 63) - 1)),
        CONSUMER_BYTE_RATE: QuotaKey(most=float((1 << 63) - 1)),
    }
)
"""Bytes per second. Kafka has three more, `request_percentage`, `controller_mutation_rate` and
`connection_creation_rate`, which nothing here would enforce: they are refused."""


def quota_of(
    image: MetadataImage, key: str, *, user: str, client_id: str
) -> tuple[QuotaEntity, float] | None:
    """Return the quota that counts for the client, and the entity that it is shared by; None for no limit.
    An entity of a default is shared by nobody: each user or client that it stands for has a quota of its
    own."""
    for entity, shared in _candidates(user, client_id):
        quota = image.quotas(entity).get(key)
        if quota is not None:
            return shared, quota
    return None


def _candidates(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, QuotaEntity]]:
    """In the order of precedence, whose quota it is and who shares it."""
    both = QuotaEntity(user=user, client_id=client_id)
    yield both, both
    yield QuotaEntity(user=user, client_id=""), both
    yield QuotaEntity(user=user), QuotaEntity(user=user)
    yield QuotaEntity(user="", client_id=client_id), both
    yield QuotaEntity(user="", client_id=""), both
    yield QuotaEntity(user=""), QuotaEntity(user=user)
    yield QuotaEntity(client_id=client_id), QuotaEntity(client_id=client_id)
    yield QuotaEntity(client_id=""), QuotaEntity(client_id=client_id)
