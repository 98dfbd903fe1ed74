"""The log directories of brokers: their replicas, moves between them, and damaged replicas."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import trio
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32

from quorate.broker.admin.admin_client import AdminClient, TopicPartition, check
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.own_messages import (
    DescribeDamageRequest,
    DescribeDamageResponse,
    RefetchReplicaRequest,
    RefetchReplicaResponse,
)
from quorate.broker.wire.wire_errors import KafkaError
from quorate.runtime import Address

if TYPE_CHECKING:
    from kio.schema.alter_replica_log_dirs.v2.response import AlterReplicaLogDirsResponse
    from kio.schema.describe_log_dirs.v5.response import DescribeLogDirsResponse, DescribeLogDirsResult

_RETRY_S: Final = 0.1
_PATIENCE_S: Final = 10.0
"""The time for which a broker is asked again that has no such replica yet."""
_DAMAGE_TIMEOUT_S: Final = 30.0
_LEFT: Final = " records left"
_HINTS: Final = {
    ErrorCode.log_dir_not_found: "the broker has no such directory; quorate log-dirs describe lists them",
    ErrorCode.kafka_storage_error: "a directory of the broker is offline, or the replica is",
    ErrorCode.replica_not_available: "the broker has no such replica; if it gets one, it is made there",
    ErrorCode.unknown_topic_or_partition: "there is no such partition",
    ErrorCode.invalid_topic_exception: "the topic's name is too long for the folder of a replica that moves",
}


class PlacedReplica(NamedTuple):
    """A replica by its partition and its broker."""

    topic: str
    partition: int
    broker: int

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}:{self.broker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDirectories:
    """The log directories of one broker."""

    broker_id: int
    directories: "tuple[DescribeLogDirsResult, ...]"


async def describe_log_dirs(
    admin: AdminClient, *, brokers: Sequence[int] = (), topics: Sequence[str] = ()
) -> list[BrokerDirectories]:
    """Ask these brokers, or all that are live, for their directories, with these topics' replicas or all."""
    known = await admin.addresses()
    missing = sorted(set(brokers) - set(known))
    if missing:
        raise KafkaError(
            ErrorCode.broker_not_available,
            f"broker {missing[0]} is not there; those that are live: {', '.join(map(str, sorted(known)))}",
        )
    wanted = None
    if topics:
        metadata = await admin.metadata(topics)
        for topic in metadata.topics:
            check(topic.error_code, None, of=f"topic {topic.name}")
        wanted = [
            {"topic": topic.name, "partitions": [part.partition_index for part in topic.partitions]}
            for topic in metadata.topics
        ]
    found: list[BrokerDirectories] = []
    for broker_id in sorted(set(brokers) or set(known)):
        broker = await admin.to(known[broker_id])
        answer = cast("DescribeLogDirsResponse", await broker.call(ApiKey.DESCRIBE_LOG_DIRS, topics=wanted))
        # Version 2 of the answer has no code of its own.
        check(getattr(answer, "error_code", ErrorCode.none), None, of=f"broker {broker_id}")
        found.append(BrokerDirectories(broker_id=broker_id, directories=answer.results))
    return found


def replica_sizes(
    broker_id: int, directories: "Sequence[DescribeLogDirsResult]"
) -> dict[tuple[TopicPartition, int], int]:
    """Return the bytes of a broker's replicas, by partition and broker, without copies that are made in
    another directory, and without failed directories."""
    return {
        (TopicPartition(str(topic.name), int(part.partition_index)), broker_id): int(part.partition_size)
        for directory in directories
        if directory.error_code is ErrorCode.none
        for topic in directory.topics
        for part in topic.partitions
        if not part.is_future_key
    }


# Moves between the directories of a broker


async def move_replicas(
    admin: AdminClient, wanted: Mapping[PlacedReplica, str], *, patient: bool = False
) -> dict[PlacedReplica, str]:
    """Begin to move replicas to the directories at these paths. Return those that were refused, each with the
    reason. `patient`: replicas that are just being made are asked for again."""
    brokers = await admin.addresses()
    missing = sorted({each.broker for each in wanted} - set(brokers))
    if missing:
        raise KafkaError(ErrorCode.broker_not_available, f"broker {missing[0]} is not live")
    refused: dict[PlacedReplica, ErrorCode] = {}
    deadline = trio.current_time() + (_PATIENCE_S if patient else 0)
    left = dict(wanted)
    while True:
        for broker_id in sorted({each.broker for each in left}):
            own = {key: path for key, path in left.items() if key.broker == broker_id}
            refused.update(await _begin(admin, brokers[broker_id], own))
        left = {key: left[key] for key in left if refused[key] is ErrorCode.replica_not_available}
        if not left or trio.current_time() >= deadline:
            break
        await trio.sleep(_RETRY_S)
    return {
        key: f"{code.name.upper()}: {_HINTS.get(code, 'refused')}"
        for key, code in refused.items()
        if code is not ErrorCode.none
    }


async def _begin(
    admin: AdminClient, address: Address, wanted: Mapping[PlacedReplica, str]
) -> dict[PlacedReplica, ErrorCode]:
    by_path: dict[str, dict[str, list[int]]] = {}
    for key, path in wanted.items():
        by_path.setdefault(path, {}).setdefault(key.topic, []).append(key.partition)
    broker = await admin.to(address)
    if ApiKey.ALTER_REPLICA_LOG_DIRS not in broker.versions:
        raise KafkaError(ErrorCode.unsupported_version, f"{address} can't move replicas between directories")
    answer = await broker.call(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        timeout_s=_PATIENCE_S,
        dirs=[
            {
                "path": path,
                "topics": [{"name": name, "partitions": parts} for name, parts in topics.items()],
            }
            for path, topics in by_path.items()
        ],
    )
    codes = {
        (str(topic.topic_name), int(part.partition_index)): part.error_code
        for topic in cast("AlterReplicaLogDirsResponse", answer).results
        for part in topic.partitions
    }
    return {key: codes.get((key.topic, key.partition), ErrorCode.unknown_server_error) for key in wanted}


async def states_of_moves(
    admin: AdminClient, wanted: Mapping[PlacedReplica, str]
) -> dict[PlacedReplica, str]:
    """Return the rest of each of these moves, for people. "": the replica is in its directory."""
    found = await describe_log_dirs(
        admin,
        brokers=sorted({each.broker for each in wanted}),
        topics=sorted({each.topic for each in wanted}),
    )
    return {key: _state_of_move(found, key, path) for key, path in wanted.items()}


def is_under_way(left: str) -> bool:
    """Return whether the rest of a move (`states_of_moves`) becomes less."""
    return left.endswith(_LEFT)


def _state_of_move(found: Sequence[BrokerDirectories], key: PlacedReplica, path: str) -> str:
    places = {
        (directory.log_dir, part.is_future_key): part.offset_lag
        for each in found
        if each.broker_id == key.broker
        for directory in each.directories
        for described in directory.topics
        if described.name == key.topic
        for part in described.partitions
        if part.partition_index == key.partition
    }
    if (path, False) in places:
        return ""
    if (path, True) in places:
        return f"{places[path, True]}{_LEFT}"
    elsewhere = [directory for directory, future in places if future]
    if elsewhere:
        return f"it moves to {elsewhere[0]}"
    return "it does not move" if places else f"broker {key.broker} has no such replica"


# Damaged replicas


async def describe_damage(admin: AdminClient) -> dict[int, DescribeDamageResponse]:
    """Return the damage of the replicas of each live broker."""
    return {
        broker_id: await (await admin.to(address)).send(
            DescribeDamageRequest(), DescribeDamageResponse, timeout_s=_DAMAGE_TIMEOUT_S
        )
        for broker_id, address in sorted((await admin.addresses()).items())
    }


async def refetch_replica(admin: AdminClient, replica: PlacedReplica) -> str:
    """Have a broker fetch its replica again from the leader. Return where the damaged log is."""
    address = (await admin.addresses()).get(replica.broker)
    if address is None:
        raise KafkaError(ErrorCode.broker_not_available, f"broker {replica.broker} is not live")
    answer = await (await admin.to(address)).send(
        RefetchReplicaRequest(topic_name=TopicName(replica.topic), partition_index=i32(replica.partition)),
        RefetchReplicaResponse,
        timeout_s=_DAMAGE_TIMEOUT_S,
    )
    check(answer.error_code, answer.error_message or answer.error_code.name)
    return answer.path or ""
