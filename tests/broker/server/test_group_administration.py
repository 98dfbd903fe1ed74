"""ListGroups, DescribeGroups, DeleteGroups and OffsetDelete of one broker, in every version."""

from datetime import timedelta
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode

from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.kafka_client import WireClient
from quorate.kafka_bytes.primitives import Pieces
from tests.broker.server.client_requests import ask, create, versions, wait_coordinated

NOT_ASKED = -(1 << 31)


def subscription(topic: str) -> bytes:
    out = Pieces(flexible=False)
    out.int16(0).int32(1).string(topic).int32(-1)
    return out.joined()


async def commit(client: WireClient, group: str, topic: str, offset: int) -> None:
    part = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    topics = [{"name": topic, "partitions": [part]}]
    answer: Any = await ask(client, ApiKey.OFFSET_COMMIT, 8, group_id=group, member_id="", topics=topics)
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none


async def join(client: WireClient, group: str, topic: str) -> str:
    """One member in a stable group."""
    joining = {
        "group_id": group,
        "session_timeout": timedelta(seconds=10),
        "rebalance_timeout": timedelta(seconds=10),
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": subscription(topic)}],
    }
    joined = await ask(client, ApiKey.JOIN_GROUP, 3, **joining)
    assert joined.error_code is ErrorCode.none
    synced = await ask(
        client,
        ApiKey.SYNC_GROUP,
        3,
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[{"member_id": joined.member_id, "assignment": b"mine"}],
    )
    assert synced.error_code is ErrorCode.none
    return str(joined.member_id)


@pytest.fixture
async def client(client: WireClient) -> WireClient:
    """A broker with the topics t and u, that coordinates the group `simple`."""
    for name in ("t", "u"):
        await create(client, name)
    await wait_coordinated(client, "simple")
    await commit(client, "simple", "t", 7)
    return client


async def test_every_version_lists_groups_with_what_it_has_room_for(client: WireClient) -> None:
    await join(client, "members", "t")
    for version in versions(ApiKey.LIST_GROUPS):
        listed = (await ask(client, ApiKey.LIST_GROUPS, version)).groups
        assert {(each.group_id, each.protocol_type) for each in listed} == {
            ("simple", ""),
            ("members", "consumer"),
        }
        if version >= 4:
            assert {each.group_id: each.group_state for each in listed} == {
                "simple": "Empty",
                "members": "Stable",
            }
            some = await ask(client, ApiKey.LIST_GROUPS, version, states_filter=["stable"])
            assert [each.group_id for each in some.groups] == ["members"]
        if version >= 5:
            assert {each.group_type for each in listed} == {"classic"}
            for types, count in ((["Classic"], 2), (["consumer"], 0), (["unheard of"], 0)):
                some = await ask(client, ApiKey.LIST_GROUPS, version, types_filter=types)
                assert len(some.groups) == count


async def test_every_version_describes_groups_and_the_newest_says_which_are_missing(
    client: WireClient,
) -> None:
    member = await join(client, "members", "t")
    for version in versions(ApiKey.DESCRIBE_GROUPS):
        asked = {"include_authorized_operations": True} if version >= 3 else {}
        answer = await ask(
            client, ApiKey.DESCRIBE_GROUPS, version, groups=["members", "simple", "gone", ""], **asked
        )
        members, simple, *gone = answer.groups
        assert (members.group_state, members.protocol_type, members.protocol_data) == (
            "Stable",
            "consumer",
            "range",
        )
        (only,) = members.members
        assert (only.member_id, bytes(only.member_metadata), bytes(only.member_assignment)) == (
            member,
            subscription("t"),
            b"mine",
        )
        assert only.client_host == "/127.0.0.1"
        assert (simple.group_state, simple.protocol_type, simple.members) == ("Empty", "", ())
        missing = ErrorCode.group_id_not_found if version >= 6 else ErrorCode.none
        for each in gone:
            assert (each.error_code, each.group_state, each.members) == (missing, "Dead", ())
        if version >= 6:
            assert [each.error_message for each in answer.groups] == [
                None,
                None,
                "Group gone not found.",
                "Group  not found.",
            ]
        if version >= 3:
            assert {each.authorized_operations for each in (members, simple)} == {3400}
            unasked = await ask(client, ApiKey.DESCRIBE_GROUPS, version, groups=["simple"])
            assert unasked.groups[0].authorized_operations == NOT_ASKED


async def test_the_new_kind_of_groups_is_off_and_says_so_of_each(client: WireClient) -> None:
    for version in versions(ApiKey.CONSUMER_GROUP_DESCRIBE):
        answer = await ask(client, ApiKey.CONSUMER_GROUP_DESCRIBE, version, group_ids=["simple", ""])
        assert [each.error_code for each in answer.groups] == [ErrorCode.unsupported_version] * 2
        assert "group.version" in answer.groups[0].error_message


async def test_every_version_deletes_groups_once_each(client: WireClient) -> None:
    await join(client, "members", "t")
    for version in versions(ApiKey.DELETE_GROUPS):
        await commit(client, "simple", "t", 7)
        answer = await ask(
            client, ApiKey.DELETE_GROUPS, version, groups_names=["simple", "members", "gone", "simple"]
        )
        assert [(each.group_id, each.error_code) for each in answer.results] == [
            ("simple", ErrorCode.none),
            ("members", ErrorCode.non_empty_group),
            ("gone", ErrorCode.group_id_not_found),
        ]
        listed = await ask(client, ApiKey.LIST_GROUPS, 0)
        assert [each.group_id for each in listed.groups] == ["members"]
    assert (await ask(client, ApiKey.DELETE_GROUPS, 2, groups_names=[])).results == ()


async def test_offsets_are_deleted_but_for_subscribed_and_unknown_partitions(client: WireClient) -> None:
    def asked(*names: str) -> list[dict[str, object]]:
        return [{"name": each, "partitions": [{"partition_index": 0}]} for each in names]

    async def delete(group: str, *names: str) -> tuple[ErrorCode, list[ErrorCode]]:
        answer = await ask(client, ApiKey.OFFSET_DELETE, 0, group_id=group, topics=asked(*names))
        assert [each.name for each in answer.topics] in ([], list(names))
        return answer.error_code, [each.partitions[0].error_code for each in answer.topics]

    await commit(client, "members", "u", 3)
    await join(client, "members", "t")
    assert await delete("members", "t", "no such topic", "u") == (
        ErrorCode.none,
        [ErrorCode.group_subscribed_to_topic, ErrorCode.unknown_topic_or_partition, ErrorCode.none],
    )
    fetched = await ask(client, ApiKey.OFFSET_FETCH, 8, groups=[{"group_id": "members", "topics": None}])
    assert fetched.groups[0].topics == ()
    assert await delete("gone", "t") == (ErrorCode.group_id_not_found, [])
    assert await delete("", "t") == (ErrorCode.invalid_group_id, [])
    assert await delete("gone", "nor this") == (ErrorCode.none, [ErrorCode.unknown_topic_or_partition])


async def test_the_offsets_of_a_deleted_topic_go_with_it(client: WireClient) -> None:
    """A topic of its name that is created at once has none of them."""
    await commit(client, "simple", "u", 8)
    deleted = await client.call(ApiKey.DELETE_TOPICS, topics=[{"name": "t"}], timeout=timedelta(seconds=5))
    assert deleted.responses[0].error_code is ErrorCode.none
    await create(client)

    async def committed(topic: str) -> int:
        asked = [{"name": topic, "partition_indexes": [0]}]
        answer = await ask(client, ApiKey.OFFSET_FETCH, 7, group_id="simple", topics=asked)
        return int(answer.topics[0].partitions[0].committed_offset)

    with trio.fail_after(5):
        while await committed("t") != -1:  # noqa: ASYNC110
            await trio.sleep(0.01)
    assert await committed("u") == 8
    await commit(client, "simple", "t", 1)
    await trio.sleep(0.3)
    assert await committed("t") == 1
