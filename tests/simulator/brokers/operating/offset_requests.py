"""The requests of a simulated operator about consumer groups without members, in Kafka's protocol. Each
returns the error code that was answered, or what was asked for."""

from typing import TYPE_CHECKING, Final, cast

from kio.schema.errors import ErrorCode

from quorate.broker.wire import BY_NAME, ApiKey, WireClient

if TYPE_CHECKING:
    from kio.schema.delete_groups.v2.response import DeleteGroupsResponse
    from kio.schema.find_coordinator.v6.response import FindCoordinatorResponse
    from kio.schema.offset_commit.v10.response import OffsetCommitResponse
    from kio.schema.offset_delete.v0.response import OffsetDeleteResponse
    from kio.schema.offset_fetch.v10.response import OffsetFetchResponse

NO_OFFSET: Final = -1


async def coordinator_of(connection: WireClient, group: str) -> int:
    """Return the id of the group's coordinator, by the broker that is asked; -1 for none."""
    received = await connection.call(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=[group])
    found = cast("FindCoordinatorResponse", received).coordinators[0]
    return int(found.node_id) if found.error_code is ErrorCode.none else -1


async def commit(connection: WireClient, group: str, topic: str, partition_id: int, offset: int) -> ErrorCode:
    received = await connection.call(
        ApiKey.OFFSET_COMMIT,
        at_most=BY_NAME[ApiKey.OFFSET_COMMIT],
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": partition_id,
                        "committed_offset": offset,
                        "committed_leader_epoch": -1,
                        "committed_metadata": "",
                    }
                ],
            }
        ],
    )
    return cast("OffsetCommitResponse", received).topics[0].partitions[0].error_code


async def delete_offset(connection: WireClient, group: str, topic: str, partition_id: int) -> ErrorCode:
    received = await connection.call(
        ApiKey.OFFSET_DELETE,
        group_id=group,
        topics=[{"name": topic, "partitions": [{"partition_index": partition_id}]}],
    )
    answer = cast("OffsetDeleteResponse", received)
    if answer.error_code is not ErrorCode.none:
        return answer.error_code
    return answer.topics[0].partitions[0].error_code


async def delete_group(connection: WireClient, group: str) -> ErrorCode:
    received = await connection.call(ApiKey.DELETE_GROUPS, groups_names=[group])
    return cast("DeleteGroupsResponse", received).results[0].error_code


async def committed(connection: WireClient, group: str, topic: str, partition_id: int) -> int | None:
    """Return the group's offset; `NO_OFFSET` for none, None if the broker could not say."""
    received = await connection.call(
        ApiKey.OFFSET_FETCH,
        at_most=BY_NAME[ApiKey.OFFSET_FETCH],
        groups=[{"group_id": group, "topics": [{"name": topic, "partition_indexes": [partition_id]}]}],
        require_stable=False,
    )
    answer = cast("OffsetFetchResponse", received).groups[0]
    if answer.error_code is not ErrorCode.none:
        return None
    return int(answer.topics[0].partitions[0].committed_offset)
