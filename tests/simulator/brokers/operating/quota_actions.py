"""Operators alter the quotas of clients: of such as are at work, of nobody, and those of all who have none of
their own. Some slow clients down, and none for as long as a run is patient."""

from typing import Final

from quorate.broker.metadata import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaEntity,
)
from tests.simulator.administration import alter_quota
from tests.simulator.brokers.operating import operator_requests as requests
from tests.simulator.brokers.operating.operator_client import OperatorClient

_CLIENTS: Final = ("idempotent-0-0", "consumer-0-0", "keyed-0")
"""Some of the clients that runs have."""
_EVERYBODY: Final = ""
"""Who has no quota of its own."""
_USER: Final = "ANONYMOUS"
"""Who all clients are."""
_AMPLE_BYTES_PER_S: Final = 100_000_000
_SCARCE: Final = {
    PRODUCER_BYTE_RATE: 200,
    CONSUMER_BYTE_RATE: 1_000,
    REQUEST_PERCENTAGE: 10,
    CONTROLLER_MUTATION_RATE: 0.5,
}
"""What a busy client exceeds, but for the time of requests, which take none here. At the end of a run each
partition is read whole, faster than that by what may be used at once."""


async def set_quotas(operator: OperatorClient) -> None:
    """Set one or two quotas of an entity, or remove one that was set, or both."""
    source = operator.random
    if operator.quotas and source.random() < 0.4:
        entity, key = operator.quotas.pop(source.randrange(len(operator.quotas)))
        changes: dict[str, float | None] = {key: None}
        if source.random() < 0.3:
            changes[source.choice(list(_SCARCE))] = None
    else:
        entity = _entity(operator)
        keys = source.sample(list(_SCARCE), source.choice((1, 1, 2)))
        changes = {key: _quota(operator, key) for key in keys}
        operator.quotas += [(entity, key) for key in keys if (entity, key) not in operator.quotas]
    await operator.ask(
        alter_quota(entity, changes), lambda connection: requests.alter_quota(connection, entity, changes)
    )


def _entity(operator: OperatorClient) -> QuotaEntity:
    source = operator.random
    client_id = source.choice((*_CLIENTS, operator.name, _EVERYBODY, operator.new_name()))
    user = source.choice((_USER, _EVERYBODY, operator.new_name()))
    return source.choice(
        (
            QuotaEntity(client_id=client_id),
            QuotaEntity(client_id=client_id),
            QuotaEntity(user=user),
            QuotaEntity(user=user, client_id=client_id),
        )
    )


def _quota(operator: OperatorClient, key: str) -> float:
    """A value that is seldom drawn twice, scarce half of the time."""
    number = operator.serial()
    if operator.random.random() < 0.5:
        return float(_AMPLE_BYTES_PER_S + number)
    if key in (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE):
        # Almost alike: a quota that shrinks has its client wait for the difference.
        return float(_SCARCE[key] + number // 100)
    return _SCARCE[key] + number / 100_000
