"""Consumer groups, at their coordinators: members, committed offsets and lag."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.admin.admin_client import AdminClient, TopicPartition, by_topic
from quorate.broker.admin.records import LATEST, offsets_at
from quorate.broker.groups.consumer_protocol import CONSUMER_PROTOCOL_TYPE, assigned_partitions
from quorate.broker.groups.group_administration import ListedGroup
from quorate.broker.groups.group_messages import MemberDescription
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.kafka_client import WireClient
from quorate.broker.wire.newest_version import BY_NAME
from quorate.broker.wire.wire_errors import KafkaError
from quorate.kafka_bytes.varints import MalformedError
from quorate.runtime import Address

if TYPE_CHECKING:
    from kio.schema.delete_groups.v2.response import DeleteGroupsResponse
    from kio.schema.describe_groups.v6.response import DescribedGroup as GroupAnswer
    from kio.schema.describe_groups.v6.response import DescribeGroupsResponse
    from kio.schema.list_groups.v5.response import ListGroupsResponse
    from kio.schema.offset_commit.v9.response import OffsetCommitResponse
    from kio.schema.offset_delete.v0.response import OffsetDeleteResponse
    from kio.schema.offset_fetch.v9.response import OffsetFetchResponse, OffsetFetchResponseGroup

_DEAD: Final = "Dead"
_PAUSE_S: Final = 0.1
_REMEDIES: Final = {
    ErrorCode.group_id_not_found: "there is no such group",
    ErrorCode.non_empty_group: "it has members; stop them first",
    ErrorCode.group_subscribed_to_topic: "a member subscribes to this topic; stop the members first",
    ErrorCode.unknown_topic_or_partition: "there is no such partition",
}


def reason_of(error: ErrorCode) -> str:
    """Return the meaning of an error of a group, for people."""
    return _REMEDIES.get(error, error.name.upper())


def _check(error: ErrorCode, group: str) -> None:
    if error is not ErrorCode.none:
        raise KafkaError(error, f"group {group}: {reason_of(error)}")


async def list_groups(
    admin: AdminClient, *, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[ListedGroup]:
    """Return the groups of all brokers in the order of their ids. Raises `KafkaError` if a broker can't list
    its own: the list would look complete."""
    found: dict[str, ListedGroup] = {}
    for broker_id, address in (await admin.addresses()).items():
        for each in (await _list(admin, await admin.to(address), broker_id, states, types)).groups:
            found[each.group_id] = ListedGroup(
                each.group_id, each.protocol_type, each.group_state, each.group_type
            )
    return [found[group_id] for group_id in sorted(found)]


async def _list(
    admin: AdminClient, broker: WireClient, broker_id: int, states: Sequence[str], types: Sequence[str]
) -> "ListGroupsResponse":
    with trio.move_on_after(admin.timeout_s):
        while True:
            answer = cast(
                "ListGroupsResponse",
                await broker.call(ApiKey.LIST_GROUPS, states_filter=tuple(states), types_filter=tuple(types)),
            )
            if answer.error_code is ErrorCode.none:
                return answer
            if answer.error_code is not ErrorCode.coordinator_load_in_progress:
                break
            await trio.sleep(_PAUSE_S)
    raise KafkaError(
        ErrorCode.coordinator_load_in_progress,
        f"broker {broker_id} can't list its groups, so the list would lack some; try again in a moment",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """A member and its partitions; no partitions if its assignment is not a consumer's."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """A group as its coordinator describes it. `protocol`: the assignor of a stable group, else ""."""

    group_id: str
    coordinator: Address
    state: str
    protocol_type: str
    protocol: str
    members: tuple[MemberView, ...]
    """In the order of their ids."""


async def describe_group(admin: AdminClient, group: str) -> DescribedGroup | None:
    """Describe a group, or return None if there is none of this id."""

    async def ask(client: WireClient) -> "tuple[ErrorCode, tuple[Address, GroupAnswer]]":
        answer = await client.call(
            ApiKey.DESCRIBE_GROUPS, groups=[group], include_authorized_operations=False
        )
        (described,) = cast("DescribeGroupsResponse", answer).groups
        return described.error_code, (Address.parse(client.peer), described)

    error, (coordinator, described) = await admin.ask_coordinator(group, ask)
    if error is ErrorCode.group_id_not_found or (error is ErrorCode.none and described.group_state == _DEAD):
        return None
    _check(error, group)
    members = sorted(
        MemberDescription(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            bytes(each.member_metadata),
            bytes(each.member_assignment),
        )
        for each in described.members
    )
    return DescribedGroup(
        group_id=group,
        coordinator=coordinator,
        state=described.group_state,
        protocol_type=described.protocol_type,
        protocol=described.protocol_data,
        members=tuple(_member(described.protocol_type, each) for each in members),
    )


def _member(protocol_type: str, member: MemberDescription) -> MemberView:
    assigned: list[tuple[str, list[int]]] = []
    if protocol_type == CONSUMER_PROTOCOL_TYPE:
        with suppress(MalformedError):  # a consumer of an unknown kind
            assigned = assigned_partitions(member.assignment)
    return MemberView(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        partitions=tuple(sorted(TopicPartition(topic, each) for topic, parts in assigned for each in parts)),
    )


async def committed_offsets(admin: AdminClient, group: str) -> dict[TopicPartition, int]:
    """Return everything that the group has committed."""

    async def ask(client: WireClient) -> "tuple[ErrorCode, OffsetFetchResponseGroup]":
        answer = await client.call(
            ApiKey.OFFSET_FETCH,
            at_most=BY_NAME[ApiKey.OFFSET_FETCH],
            groups=[{"group_id": group, "topics": None}],
            require_stable=False,
        )
        (fetched,) = cast("OffsetFetchResponse", answer).groups
        return fetched.error_code, fetched

    error, fetched = await admin.ask_coordinator(group, ask)
    _check(error, group)
    return {
        TopicPartition(str(topic.name), int(part.partition_index)): part.committed_offset
        for topic in fetched.topics
        for part in topic.partitions
        if part.error_code is ErrorCode.none and part.committed_offset >= 0
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """A partition that a group has committed or a member has. None: unknown, or there is none."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    member: MemberView | None

    @property
    def lag(self) -> int | None:
        """Return the number of records that the group has not committed yet. A committed offset beyond the
        end, of a topic that was deleted and created again, is no negative lag."""
        if self.committed is None or self.end is None:
            return None
        return max(self.end - self.committed, 0)


async def partition_views(admin: AdminClient, group: DescribedGroup) -> list[PartitionView]:
    """Return the partitions of a group with offsets as of now."""
    committed = await committed_offsets(admin, group.group_id)
    assigned = {partition for member in group.members for partition in member.partitions}
    ends = await offsets_at(admin, assigned | committed.keys(), LATEST)
    return partition_views_of(group.members, committed, ends)


def partition_views_of(
    members: Sequence[MemberView],
    committed: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> list[PartitionView]:
    """Return a row for each partition that is committed or assigned, in order."""
    owners = {partition: member for member in members for partition in member.partitions}
    return [
        PartitionView(
            topic=each[0],
            partition=each[1],
            committed=committed.get(each),
            end=ends.get(each),
            member=owners.get(each),
        )
        for each in sorted(owners.keys() | committed.keys())
    ]


async def delete_groups(admin: AdminClient, groups: Sequence[str]) -> dict[str, ErrorCode]:
    """Delete each group. Return the error of each."""
    outcomes: dict[str, ErrorCode] = {}
    for group in dict.fromkeys(groups):

        async def ask(client: WireClient, group: str = group) -> tuple[ErrorCode, None]:
            answer = await client.call(ApiKey.DELETE_GROUPS, groups_names=[group])
            return cast("DeleteGroupsResponse", answer).results[0].error_code, None

        outcomes[group], _ = await admin.ask_coordinator(group, ask)
    return outcomes


async def delete_offsets(
    admin: AdminClient, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Delete committed offsets. Return the error of each. Raises `KafkaError` if the group refuses."""
    topics = by_topic({each: {} for each in partitions})

    async def ask(client: WireClient) -> "tuple[ErrorCode, OffsetDeleteResponse]":
        answer = await client.call(ApiKey.OFFSET_DELETE, group_id=group, topics=topics)
        answered = cast("OffsetDeleteResponse", answer)
        return answered.error_code, answered

    error, answer = await admin.ask_coordinator(group, ask)
    _check(error, group)
    return {
        TopicPartition(str(topic.name), int(part.partition_index)): part.error_code
        for topic in answer.topics
        for part in topic.partitions
    }


async def commit_offsets(admin: AdminClient, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets for a group without members. Raises `KafkaError` if one is refused."""
    topics = by_topic(
        {key: {"committed_offset": offset, "committed_metadata": ""} for key, offset in offsets.items()}
    )

    async def ask(client: WireClient) -> tuple[ErrorCode, None]:
        answer = await client.call(
            ApiKey.OFFSET_COMMIT,
            at_most=BY_NAME[ApiKey.OFFSET_COMMIT],
            group_id=group,
            member_id="",
            topics=topics,
        )
        errors = (
            part.error_code
            for topic in cast("OffsetCommitResponse", answer).topics
            for part in topic.partitions
        )
        return next((each for each in errors if each is not ErrorCode.none), ErrorCode.none), None

    error, _ = await admin.ask_coordinator(group, ask)
    if error is ErrorCode.unknown_member_id:
        raise KafkaError(error, f"group {group} got members meanwhile; stop them and try again")
    _check(error, group)
