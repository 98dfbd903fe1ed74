"""The quotas of clients and addresses, and the precedence of their entities (KIP-55, KIP-124, KIP-257,
KIP-546, KIP-599, KIP-612)."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import QuotaEntity

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaKey:
    """`most`: the highest value (inclusive). `whole`: it has no fraction. `of_addresses`: addresses have it,
    and no users and client ids."""

    most: float
    whole: bool = True
    of_addresses: bool = False


CLIENT_QUOTAS: Final[Mapping[str, QuotaKey]] = MappingProxyType(
    {
        PRODUCER_BYTE_RATE: QuotaKey(most=float((1 << 63) - 1)),
        CONSUMER_BYTE_RATE: QuotaKey(most=float((1 << 63) - 1)),
        REQUEST_PERCENTAGE: QuotaKey(most=math.inf, whole=False),
        CONTROLLER_MUTATION_RATE: QuotaKey(most=math.inf, whole=False),
        CONNECTION_CREATION_RATE: QuotaKey(most=float((1 << 31) - 1), of_addresses=True),
    }
)
"""Bytes per second; the share of the time of a broker's event loop, in percent; partitions per second that
the controller creates or deletes; new connections per second. Each broker gives a client that much, and of
the partitions the controller."""


def quota_of(
    image: MetadataImage, key: str, *, user: str, client_id: str
) -> tuple[QuotaEntity, float] | None:
    """Return the quota that counts for the client, and the entity that shares it; None for no limit. The
    entity of a default is not shared: each user or client that it stands for has a quota of its own."""
    for entity, shared in _candidates(user, client_id):
        quota = image.quotas(entity).get(key)
        if quota is not None:
            return shared, quota
    return None


def connection_rate_of(image: MetadataImage, address: str) -> float | None:
    """Return how many connections per second the address may open; None for no limit. Those that the default
    stands for have a quota each."""
    for entity in (QuotaEntity(ip=address), QuotaEntity(ip="")):
        quota = image.quotas(entity).get(CONNECTION_CREATION_RATE)
        if quota is not None:
            return quota
    return None


def _candidates(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, QuotaEntity]]:
    """Yield the entity of a quota and the one that shares it, in the order of precedence."""
    both = QuotaEntity(user=user, client_id=client_id)
    yield both, both
    yield QuotaEntity(user=user, client_id=""), both
    yield QuotaEntity(user=user), QuotaEntity(user=user)
    yield QuotaEntity(user="", client_id=client_id), both
    yield QuotaEntity(user="", client_id=""), both
    yield QuotaEntity(user=""), QuotaEntity(user=user)
    yield QuotaEntity(client_id=client_id), QuotaEntity(client_id=client_id)
    yield QuotaEntity(client_id=""), QuotaEntity(client_id=client_id)
