"""The requests of `quorate groups`, to every broker, the coordinator of a group, or leaders of partitions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.groups import ListedGroup, MemberDescription
from quorate.broker.wire import BY_NAME, ApiKey, KafkaError, WireClient
from quorate.cli.groups.broker_connections import BrokerConnections
from quorate.runtime import Address

if TYPE_CHECKING:
    from kio.schema.delete_groups.v2.response import DeleteGroupsResponse
    from kio.schema.describe_groups.v6.response import DescribeGroupsResponse
    from kio.schema.list_groups.v5.response import ListGroupsResponse
    from kio.schema.list_offsets.v11.response import ListOffsetsResponse
    from kio.schema.offset_commit.v9.response import OffsetCommitResponse
    from kio.schema.offset_delete.v0.response import OffsetDeleteResponse
    from kio.schema.offset_fetch.v9.response import OffsetFetchResponse

Partition = tuple[str, int]
"""Topic and partition."""
LATEST: Final = -1
EARLIEST: Final = -2
_DEAD: Final = "Dead"
_LOADING_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 0.1


async def list_groups(
    brokers: BrokerConnections, *, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[ListedGroup]:
    """Return the groups of all brokers in the order of their ids. Raises `KafkaError` if a broker can't list
    its own: the list would look complete."""
    found: dict[str, ListedGroup] = {}
    for broker, address in (await brokers.addresses()).items():
        for each in (await _list(await brokers.to(address), broker, states, types)).groups:
            found[each.group_id] = ListedGroup(
                each.group_id, each.protocol_type, each.group_state, each.group_type
            )
    return [found[group_id] for group_id in sorted(found)]


async def _list(
    client: WireClient, broker: int, states: Sequence[str], types: Sequence[str]
) -> "ListGroupsResponse":
    with trio.move_on_after(_LOADING_SECONDS):
        while True:
            answer = cast(
                "ListGroupsResponse",
                await client.call(ApiKey.LIST_GROUPS, states_filter=tuple(states), types_filter=tuple(types)),
            )
            if answer.error_code is ErrorCode.none:
                return answer
            if answer.error_code is not ErrorCode.coordinator_load_in_progress:
                break
            await trio.sleep(_PAUSE_SECONDS)
    raise KafkaError(
        ErrorCode.coordinator_load_in_progress,
        f"broker {broker} can't list its groups, so the list would lack some; try again in a moment",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """A group as its coordinator describes it. `protocol`: the assignor of a stable group, else ""."""

    group_id: str
    coordinator: Address
    state: str
    protocol_type: str
    protocol: str
    members: tuple[MemberDescription, ...]


async def describe_group(brokers: BrokerConnections, group: str) -> DescribedGroup | None:
    """Describe a group, or return None if there is none of this id. Raises `KafkaError`."""
    asked: list[Address] = []

    async def ask(client: WireClient) -> tuple[ErrorCode, "DescribeGroupsResponse"]:
        answer = await client.call(
            ApiKey.DESCRIBE_GROUPS, groups=[group], include_authorized_operations=False
        )
        asked[:] = [Address.parse(client.peer)]
        answered = cast("DescribeGroupsResponse", answer)
        return answered.groups[0].error_code, answered

    error, answer = await brokers.ask_coordinator(group, ask)
    described = answer.groups[0]
    if error is ErrorCode.group_id_not_found or (error is ErrorCode.none and described.group_state == _DEAD):
        return None
    if error is not ErrorCode.none:
        raise _refused(error, group)
    return DescribedGroup(
        group_id=group,
        coordinator=asked[0],
        state=described.group_state,
        protocol_type=described.protocol_type,
        protocol=described.protocol_data,
        members=tuple(
            MemberDescription(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                bytes(each.member_metadata),
                bytes(each.member_assignment),
            )
            for each in described.members
        ),
    )


async def committed_offsets(brokers: BrokerConnections, group: str) -> dict[Partition, int]:
    """Return everything that the group has committed. Raises `KafkaError`."""

    async def ask(client: WireClient) -> tuple[ErrorCode, "OffsetFetchResponse"]:
        answer = await client.call(
            ApiKey.OFFSET_FETCH,
            at_most=BY_NAME[ApiKey.OFFSET_FETCH],
            groups=[{"group_id": group, "topics": None}],
            require_stable=False,
        )
        answered = cast("OffsetFetchResponse", answer)
        return answered.groups[0].error_code, answered

    error, answer = await brokers.ask_coordinator(group, ask)
    if error is not ErrorCode.none:
        raise _refused(error, group)
    return {
        (str(topic.name), part.partition_index): part.committed_offset
        for topic in answer.groups[0].topics
        for part in topic.partitions
        if part.error_code is ErrorCode.none and part.committed_offset >= 0
    }


async def offsets_at(
    brokers: BrokerConnections, partitions: Iterable[Partition], timestamp: int
) -> dict[Partition, int]:
    """Return each partition's first offset of that time (ms since the epoch), `EARLIEST` or `LATEST`. One
    without an answer is missing: it has no leader, no record so late, or does not exist."""
    wanted = set(partitions)
    addresses = await brokers.addresses()
    held = await brokers.partitions(sorted({topic for topic, _ in wanted}))
    by_leader: dict[int, list[tuple[str, int, int]]] = {}
    for topic, parts in held.items():
        for part in parts:
            if (topic, part.partition_index) in wanted and part.leader_id in addresses:
                asked = (topic, int(part.partition_index), int(part.leader_epoch))
                by_leader.setdefault(int(part.leader_id), []).append(asked)
    found: dict[Partition, int] = {}
    for leader, asked_of in by_leader.items():
        client = await brokers.to(addresses[leader])
        found |= await _list_offsets(client, asked_of, timestamp)
    return found


async def _list_offsets(
    client: WireClient, asked: Sequence[tuple[str, int, int]], timestamp: int
) -> dict[Partition, int]:
    topics: dict[str, list[dict[str, object]]] = {}
    for topic, partition, epoch in asked:
        part: dict[str, object] = {
            "partition_index": partition,
            "current_leader_epoch": epoch,
            "timestamp": timestamp,
        }
        topics.setdefault(topic, []).append(part)
    answer = await client.call(
        ApiKey.LIST_OFFSETS,
        replica_id=-1,
        isolation_level=0,
        topics=[{"name": name, "partitions": parts} for name, parts in topics.items()],
    )
    return {
        (str(topic.name), int(part.partition_index)): int(part.offset)
        for topic in cast("ListOffsetsResponse", answer).topics
        for part in topic.partitions
        if part.error_code is ErrorCode.none and part.offset >= 0
    }


async def delete_groups(brokers: BrokerConnections, groups: Sequence[str]) -> dict[str, ErrorCode]:
    """Delete each group. Return the error of each."""
    outcomes: dict[str, ErrorCode] = {}
    for group in dict.fromkeys(groups):

        async def ask(client: WireClient, group: str = group) -> tuple[ErrorCode, None]:
            answer = await client.call(ApiKey.DELETE_GROUPS, groups_names=[group])
            return cast("DeleteGroupsResponse", answer).results[0].error_code, None

        outcomes[group], _ = await brokers.ask_coordinator(group, ask)
    return outcomes


async def delete_offsets(
    brokers: BrokerConnections, group: str, partitions: Iterable[Partition]
) -> dict[Partition, ErrorCode]:
    """Delete committed offsets. Return the error of each. Raises `KafkaError` if the group refuses."""
    topics = _by_topic((topic, {"partition_index": partition}) for topic, partition in partitions)

    async def ask(client: WireClient) -> tuple[ErrorCode, "OffsetDeleteResponse"]:
        answer = await client.call(ApiKey.OFFSET_DELETE, group_id=group, topics=topics)
        answered = cast("OffsetDeleteResponse", answer)
        return answered.error_code, answered

    error, answer = await brokers.ask_coordinator(group, ask)
    if error is not ErrorCode.none:
        raise _refused(error, group)
    return {
        (str(topic.name), int(part.partition_index)): part.error_code
        for topic in answer.topics
        for part in topic.partitions
    }


async def commit_offsets(brokers: BrokerConnections, group: str, offsets: Mapping[Partition, int]) -> None:
    """Commit offsets for a group without members. Raises `KafkaError` if one is refused."""
    topics = _by_topic(
        (topic, {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""})
        for (topic, partition), offset in offsets.items()
    )

    async def ask(client: WireClient) -> tuple[ErrorCode, "OffsetCommitResponse"]:
        answer = await client.call(
            ApiKey.OFFSET_COMMIT,
            at_most=BY_NAME[ApiKey.OFFSET_COMMIT],
            group_id=group,
            member_id="",
            topics=topics,
        )
        answered = cast("OffsetCommitResponse", answer)
        errors = [part.error_code for topic in answered.topics for part in topic.partitions]
        return next((each for each in errors if each is not ErrorCode.none), ErrorCode.none), answered

    error, _ = await brokers.ask_coordinator(group, ask)
    if error is ErrorCode.unknown_member_id:
        raise KafkaError(error, f"group {group} got members meanwhile; stop them and try again")
    if error is not ErrorCode.none:
        raise _refused(error, group)


def _by_topic(parts: Iterable[tuple[str, dict[str, object]]]) -> list[dict[str, object]]:
    topics: dict[str, list[dict[str, object]]] = {}
    for topic, part in parts:
        topics.setdefault(topic, []).append(part)
    return [{"name": name, "partitions": held} for name, held in topics.items()]


_REMEDIES: Final = {
    ErrorCode.group_id_not_found: "there is no such group",
    ErrorCode.non_empty_group: "it has members; stop them first",
    ErrorCode.group_subscribed_to_topic: "a member subscribes to this topic; stop the members first",
    ErrorCode.unknown_topic_or_partition: "there is no such partition",
}


def reason_of(error: ErrorCode) -> str:
    """Return what an error of a group means, for people."""
    return _REMEDIES.get(error, error.name.upper())


def _refused(error: ErrorCode, group: str) -> KafkaError:
    return KafkaError(error, f"group {group}: {reason_of(error)}")
