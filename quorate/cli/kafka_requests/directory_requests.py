"""The Kafka requests that move replicas between the directories of their brokers."""

from collections.abc import Mapping, Sequence
from typing import Final

import trio
from kio.schema.alter_replica_log_dirs.v1.request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kio.schema.alter_replica_log_dirs.v1.response import AlterReplicaLogDirsResponse
from kio.schema.describe_cluster.v1.request import DescribeClusterRequest
from kio.schema.describe_cluster.v1.response import DescribeClusterResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32

from quorate.broker.wire import KafkaError, WireClient, open_client
from quorate.cli.kafka_requests.data_requests import BrokerDirectories, describe_log_dirs
from quorate.runtime import Address
from quorate.runtime.real import RealNetwork

PlacedReplica = tuple[str, int, int]
"""Topic, partition and broker."""

_ALTER_REPLICA_LOG_DIRS: Final = 34
_RETRY_SECONDS: Final = 0.1
_LEFT: Final = " records left"
_TIMEOUT_SECONDS: Final = 10.0
"""The time for which a broker is asked again that has no such replica yet."""
_HINTS: Final = {
    ErrorCode.log_dir_not_found: "the broker has no such directory; quorate log-dirs describe lists them",
    ErrorCode.kafka_storage_error: "a directory of the broker is offline, or the replica is",
    ErrorCode.replica_not_available: "the broker has no such replica; if it gets one, it is made there",
    ErrorCode.unknown_topic_or_partition: "there is no such partition",
    ErrorCode.invalid_topic_exception: "the topic's name is too long for the folder of a replica that moves",
}


async def move_replicas(
    brokers: Mapping[int, Address], wanted: Mapping[PlacedReplica, str], *, patient: bool = False
) -> dict[PlacedReplica, str]:
    """Begin to move replicas to the directories at these paths. Return those that were refused, each with the
    reason. `patient`: replicas that are just being made are asked for again. Raises `KafkaError`,
    `NetworkError`."""
    missing = sorted({each[2] for each in wanted} - set(brokers))
    if missing:
        raise KafkaError(ErrorCode.broker_not_available, f"broker {missing[0]} is not live")
    refused: dict[PlacedReplica, ErrorCode] = {}
    deadline = trio.current_time() + (_TIMEOUT_SECONDS if patient else 0)
    left = dict(wanted)
    while True:
        for broker_id in sorted({each[2] for each in left}):
            own = {key: path for key, path in left.items() if key[2] == broker_id}
            refused.update(await _ask(brokers[broker_id], own))
        left = {key: left[key] for key in left if refused[key] is ErrorCode.replica_not_available}
        if not left or trio.current_time() >= deadline:
            break
        await trio.sleep(_RETRY_SECONDS)
    return {
        key: f"{code.name.upper()}: {_HINTS.get(code, 'refused')}"
        for key, code in refused.items()
        if code is not ErrorCode.none
    }


async def _ask(address: Address, wanted: Mapping[PlacedReplica, str]) -> dict[PlacedReplica, ErrorCode]:
    by_path: dict[str, dict[str, list[i32]]] = {}
    for (topic, partition, _), path in wanted.items():
        by_path.setdefault(path, {}).setdefault(topic, []).append(i32(partition))
    request = AlterReplicaLogDirsRequest(
        dirs=tuple(
            AlterReplicaLogDir(
                path=path,
                topics=tuple(
                    AlterReplicaLogDirTopic(name=TopicName(topic), partitions=tuple(partitions))
                    for topic, partitions in topics.items()
                ),
            )
            for path, topics in by_path.items()
        )
    )
    async with open_client(
        RealNetwork(), address, client_id="quorate-cli", timeout_s=_TIMEOUT_SECONDS
    ) as broker:
        if _ALTER_REPLICA_LOG_DIRS not in broker.versions:
            raise KafkaError(
                ErrorCode.unsupported_version, f"{address} can't move replicas between directories"
            )
        response = await broker.send(request, AlterReplicaLogDirsResponse)
    codes = {
        (str(topic.topic_name), int(part.partition_index)): part.error_code
        for topic in response.results
        for part in topic.partitions
    }
    return {key: codes.get((key[0], key[1]), ErrorCode.unknown_server_error) for key in wanted}


async def addresses_of_brokers(client: WireClient) -> dict[int, Address]:
    """Return where each live broker listens. Raises `KafkaError`."""
    response = await client.send(
        DescribeClusterRequest(include_cluster_authorized_operations=False), DescribeClusterResponse
    )
    if response.error_code is not ErrorCode.none:
        raise KafkaError(response.error_code, response.error_message or "the cluster can't be described")
    return {int(each.broker_id): Address(each.host, each.port) for each in response.brokers}


async def states_of_moves(
    client: WireClient, wanted: Mapping[PlacedReplica, str]
) -> dict[PlacedReplica, str]:
    """Return what is left of each of these moves, for people. "": the replica is where it should be. Raises
    `KafkaError`, `NetworkError`."""
    found = await describe_log_dirs(
        client,
        brokers=sorted({broker for _, _, broker in wanted}),
        topics=sorted({topic for topic, _, _ in wanted}),
    )
    return {key: state_of_move(found, key, path) for key, path in wanted.items()}


def is_under_way(left: str) -> bool:
    """Return whether what is left of a move (`states_of_moves`) becomes less."""
    return left.endswith(_LEFT)


def state_of_move(found: Sequence[BrokerDirectories], key: PlacedReplica, path: str) -> str:
    """Return what of a move to `path` is left. Nothing: ""."""
    topic, partition, broker_id = key
    places = {
        (directory.log_dir, part.is_future_key): part.offset_lag
        for each in found
        if each.broker_id == broker_id
        for directory in each.directories
        for described in directory.topics
        if described.name == topic
        for part in described.partitions
        if part.partition_index == partition
    }
    if (path, False) in places:
        return ""
    if (path, True) in places:
        return f"{places[path, True]}{_LEFT}"
    elsewhere = [directory for directory, future in places if future]
    if elsewhere:
        return f"it moves to {elsewhere[0]}"
    return "it does not move" if places else f"broker {broker_id} has no such replica"
