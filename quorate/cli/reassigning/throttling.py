"""The throttle of moves (KIP-73): the replicas are settings of topics, the rates of brokers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse
from kio.static.primitive import i8

from quorate.broker.wire import KafkaError, WireClient
from quorate.cli.console import connect_any
from quorate.cli.reassigning.assignment_files import Replica
from quorate.cli.reassigning.cluster_view import BrokerView, Move

_TOPIC: Final = 2
_BROKER: Final = 4
_SET: Final = 0
_DELETE: Final = 1
SIDES: Final = ("leader", "follower")


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """The throttled replicas of each topic, as its settings name them."""

    leaders: Mapping[str, str]
    followers: Mapping[str, str]

    @classmethod
    def of(cls, moves: Mapping[Replica, Move]) -> "Throttle":
        """Of all moves of these topics: the replicas that serve as leaders, those that are added as
        followers."""
        leaders: dict[str, list[str]] = {}
        followers: dict[str, list[str]] = {}
        for key, move in sorted(moves.items()):
            leaders.setdefault(key.topic, []).extend(f"{key.partition}:{each}" for each in move.original)
            followers.setdefault(key.topic, []).extend(f"{key.partition}:{each}" for each in move.adding)
        return cls(
            leaders={topic: ",".join(each) for topic, each in leaders.items()},
            followers={topic: ",".join(each) for topic, each in followers.items()},
        )


async def set_throttle(
    client: WireClient, throttle: Throttle, *, rate: int, brokers: Iterable[BrokerView]
) -> None:
    """Throttle the replicas on all brokers to `rate` (bytes per second). Raises `KafkaError`."""
    for topic in sorted(throttle.leaders):
        await _alter(
            client,
            _TOPIC,
            topic,
            {
                "leader.replication.throttled.replicas": throttle.leaders[topic] or None,
                "follower.replication.throttled.replicas": throttle.followers[topic] or None,
            },
        )
    await _set_rates({f"{side}.replication.throttled.rate": str(rate) for side in SIDES}, brokers)


async def end_throttle(client: WireClient, topics: Iterable[str], *, brokers: Iterable[BrokerView]) -> None:
    """Remove every throttle of these topics, and the rates of the brokers. Raises `KafkaError`."""
    for topic in sorted(topics):
        await _alter(
            client, _TOPIC, topic, dict.fromkeys(f"{side}.replication.throttled.replicas" for side in SIDES)
        )
    await _set_rates(dict.fromkeys(f"{side}.replication.throttled.rate" for side in SIDES), brokers)


async def _set_rates(values: Mapping[str, str | None], brokers: Iterable[BrokerView]) -> None:
    for broker in brokers:
        # A broker takes the settings of its own id only.
        async with connect_any([broker.address]) as own:
            await _alter(own, _BROKER, str(broker.broker_id), values)


async def _alter(client: WireClient, kind: int, name: str, values: Mapping[str, str | None]) -> None:
    resource = AlterConfigsResource(
        resource_type=i8(kind),
        resource_name=name,
        configs=tuple(
            AlterableConfig(name=key, config_operation=i8(_DELETE if value is None else _SET), value=value)
            for key, value in values.items()
        ),
    )
    answer = await client.send(
        IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False),
        IncrementalAlterConfigsResponse,
    )
    for result in answer.responses:
        if result.error_code is not ErrorCode.none:
            raise KafkaError(
                result.error_code,
                f"the throttle of {'topic' if kind == _TOPIC else 'broker'} {name} was refused: "
                f"{result.error_message or result.error_code.name.upper()}",
            )
