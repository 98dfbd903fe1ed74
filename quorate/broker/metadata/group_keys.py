"""The keys of groups: Kafka's names, values and bounds (KIP-848)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from quorate.broker.metadata.config_key import ConfigKey, Effect, ValueType, number

_CLASSIC: Final = (
    "groups have the classic protocol, in which each member brings its own value; set it in the consumers."
)


def _key(name: str, default: int, low: int, high: int, doc: str) -> ConfigKey:
    return ConfigKey(
        name=name,
        type=ValueType.INT,
        default=str(default),
        check=number(low, high),
        doc=doc,
        effect=Effect.NONE,
        why=_CLASSIC,
    )


GROUP_KEYS: Final[Mapping[str, ConfigKey]] = MappingProxyType(
    {
        key.name: key
        for key in (
            _key(
                "consumer.heartbeat.interval.ms",
                5000,
                5000,
                15_000,
                "The time between two heartbeats of a member of a consumer group.",
            ),
            _key(
                "consumer.session.timeout.ms",
                45_000,
                45_000,
                60_000,
                "The time without a heartbeat after which a member leaves a consumer group.",
            ),
        )
    }
)
"""Every key of a group by its name."""
