"""Operators set configs of topics, brokers and groups, and features. Values are drawn once, and have
no effect on what other clients may expect."""

from typing import Final

from quorate.broker.metadata import (
    LATEST_METADATA_VERSION,
    METADATA_VERSION,
    ConfigResource,
    ConfigType,
)
from tests.simulator.administration import alter_config, update_feature
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
        lambda connection: requests.alter_configs(connection, resource, changes, replaces=replaces),
        to=to,
    )


async def upgrade(operator: OperatorClient) -> None:
    """To the level that the cluster has: every broker supports it, and nothing changes."""
    await operator.ask(
        update_feature(METADATA_VERSION, LATEST_METADATA_VERSION),
        lambda connection: requests.update_feature(connection, METADATA_VERSION, LATEST_METADATA_VERSION),
    )
