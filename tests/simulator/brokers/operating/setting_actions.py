"""Operators set configs of topics, brokers and groups, features, and the quotas of clients.

Values are drawn once, and have no effect on what other clients may expect. Some quotas slow clients down, but
none for as long as a run is patient.
"""

from typing import Final

from quorate.broker.metadata.metadata_records import ConfigType, QuotaEntity
from quorate.broker.metadata.quota_precedence import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from quorate.broker.metadata.states import ConfigResource
from quorate.broker.metadata.supported_features import LATEST_METADATA_VERSION, METADATA_VERSION
from tests.simulator.administration.intents import alter_config, alter_quota, update_feature
from tests.simulator.brokers.broker_cluster import BrokerHost
from tests.simulator.brokers.operating import operator_requests as requests
from tests.simulator.brokers.operating.operator_client import OperatorClient

_MONTH_MS: Final = 30 * 86_400_000
"""Longer than clocks jump: retention deletes nothing."""


async def alter_topic_config(operator: OperatorClient) -> None:
    topic = operator.some_topic()
    if topic is None:
        return
    random = operator.random
    key = random.choice(("retention.ms", "segment.ms"))
    replaces = random.random() < 0.3
    deletes = not replaces and random.random() < 0.2
    value = None if deletes else str(_MONTH_MS + operator.serial())
    await _alter(operator, ConfigResource(ConfigType.TOPIC, topic.name), {key: value}, replaces=replaces)


async def alter_broker_config(operator: OperatorClient) -> None:
    """The settings of one broker are asked of that broker, those of all of any."""
    random = operator.random
    brokers = operator.cluster.settings.brokers
    name = "" if random.random() < 0.3 else str(random.randint(1, brokers))
    value = None if random.random() < 0.2 else str(86_400_000 + operator.serial())
    replaces = value is not None and random.random() < 0.2
    await _alter(
        operator,
        ConfigResource(ConfigType.BROKER, name),
        {"producer.id.expiration.ms": value},
        replaces=replaces,
        to=operator.cluster.nodes[int(name) - 1] if name else None,
    )


async def alter_group_config(operator: OperatorClient) -> None:
    resource = ConfigResource(ConfigType.GROUP, operator.new_name())
    for _ in range(operator.random.choice((1, 2))):
        value = str(45_000 + operator.serial() % 15_000)
        await _alter(operator, resource, {"consumer.session.timeout.ms": value})


async def _alter(
    operator: OperatorClient,
    resource: ConfigResource,
    changes: dict[str, str | None],
    *,
    replaces: bool = False,
    to: BrokerHost | None = None,
) -> None:
    await operator.ask(
        alter_config(resource, changes, replaces=replaces),
        lambda admin: requests.alter_configs(admin, resource, changes, replaces=replaces),
        to=to,
    )


async def upgrade(operator: OperatorClient) -> None:
    """Set the level that the cluster has: every broker supports it, and nothing changes."""
    await operator.ask(
        update_feature(METADATA_VERSION, LATEST_METADATA_VERSION),
        lambda admin: requests.update_feature(admin, METADATA_VERSION, LATEST_METADATA_VERSION),
    )


_CLIENTS: Final = ("idempotent-0-0", "consumer-0-0", "keyed-0")
"""Some of the clients that runs have."""
_EVERYBODY: Final = ""
"""The default quota, for clients that have none of their own."""
_USER: Final = "ANONYMOUS"
"""The user of all clients."""
_AMPLE_BYTES_PER_S: Final = 100_000_000
_SCARCE: Final = {
    PRODUCER_BYTE_RATE: 200,
    CONSUMER_BYTE_RATE: 1_000,
    REQUEST_PERCENTAGE: 10,
    CONTROLLER_MUTATION_RATE: 0.5,
}
"""Quotas that a busy client exceeds, except for the time of requests, which take none here. At the end of a
run each partition is read whole, within one burst."""


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
        alter_quota(entity, changes), lambda admin: requests.alter_quota(admin, entity, changes)
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
