"""The requests about damaged replicas."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32

from quorate.broker.wire import KafkaError, open_client
from quorate.broker.wire.codecs import (
    DescribeDamageRequest,
    DescribeDamageResponse,
    RefetchReplicaRequest,
    RefetchReplicaResponse,
)
from quorate.cli.kafka_requests.directory_requests import PlacedReplica
from quorate.runtime import Address
from quorate.runtime.real import RealNetwork

_TIMEOUT_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDamage:
    """One broker's answer."""

    broker_id: int
    answer: DescribeDamageResponse


async def describe_damage(brokers: Mapping[int, Address]) -> list[BrokerDamage]:
    """Ask each broker for the damage of its replicas. Raises `NetworkError`, `KafkaError`."""
    found: list[BrokerDamage] = []
    for broker_id, address in sorted(brokers.items()):
        async with open_client(
            RealNetwork(), address, client_id="quorate-cli", timeout_s=_TIMEOUT_SECONDS, negotiate=False
        ) as client:
            answer = await client.send(DescribeDamageRequest(), DescribeDamageResponse)
        found.append(BrokerDamage(broker_id=broker_id, answer=answer))
    return found


async def refetch_replica(brokers: Mapping[int, Address], replica: PlacedReplica) -> str:
    """Have a broker fetch its replica anew. Return where the damaged log is. Raises `KafkaError`,
    `NetworkError`."""
    topic, partition, broker_id = replica
    if broker_id not in brokers:
        raise KafkaError(ErrorCode.broker_not_available, f"broker {broker_id} is not live")
    request = RefetchReplicaRequest(topic_name=TopicName(topic), partition_index=i32(partition))
    async with open_client(
        RealNetwork(),
        brokers[broker_id],
        client_id="quorate-cli",
        timeout_s=_TIMEOUT_SECONDS,
        negotiate=False,
    ) as client:
        answer = await client.send(request, RefetchReplicaResponse)
    if answer.error_code is not ErrorCode.none:
        raise KafkaError(answer.error_code, answer.error_message or answer.error_code.name)
    return answer.path or ""


def damage_as_dict(found: Sequence[BrokerDamage]) -> dict[str, list[dict[str, object]]]:
    """Return what is damaged and what was set aside, as `--json` shows it."""
    return {
        "damaged": [
            {
                "broker": each.broker_id,
                "topic": str(one.topic_name),
                "partition": int(one.partition_index),
                "segment": one.segment,
                "position": None if one.segment is None else int(one.position),
                "startOffset": None if one.segment is None else int(one.start_offset),
                "endOffset": None if one.segment is None else int(one.end_offset),
                "problem": one.problem,
            }
            for each in found
            for one in each.answer.damaged
        ],
        "setAside": [
            {"broker": each.broker_id, "path": one.path} for each in found for one in each.answer.set_aside
        ],
    }
