"""OffsetCommit and OffsetFetch in every version, by names of topics and by their ids."""

import uuid
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.kafka_client import WireClient
from tests.broker.server.client_requests import ask, create, versions, wait_coordinated

BY_ID = 10


async def commit(
    client: WireClient, version: int, topic: dict[str, object], offset: int, **rest: object
) -> ErrorCode:
    part = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    values = {"group_id": "g", "member_id": ""} | rest
    answer = await ask(
        client, ApiKey.OFFSET_COMMIT, version, topics=[topic | {"partitions": [part]}], **values
    )
    (told,) = answer.topics
    assert {name: getattr(told, name) for name in topic} == topic
    return ErrorCode(told.partitions[0].error_code)


async def fetch(client: WireClient, version: int, topic: dict[str, object] | None) -> Any:
    """The answer's partition; None for no topic."""
    topics = None if topic is None else [topic | {"partition_indexes": [0]}]
    if version >= 8:
        answer = await ask(client, ApiKey.OFFSET_FETCH, version, groups=[{"group_id": "g", "topics": topics}])
        (answer,) = answer.groups
    else:
        answer = await ask(client, ApiKey.OFFSET_FETCH, version, group_id="g", topics=topics)
    for told in answer.topics:
        if topic is not None:
            assert {name: getattr(told, name) for name in topic} == topic
        (part,) = told.partitions
        return part
    return None


async def ready(client: WireClient) -> uuid.UUID:
    """Create a topic, wait for the coordinator of the group, and return the topic's id."""
    created = await create(client)
    await wait_coordinated(client, "g")
    return uuid.UUID(str(created.topic_id))


@pytest.mark.slow
async def test_offsets_are_committed_and_fetched_in_every_version(client: WireClient) -> None:
    topic_id = await ready(client)

    def topic(version: int) -> dict[str, object]:
        return {"topic_id": topic_id} if version >= BY_ID else {"name": "t"}

    for written in versions(ApiKey.OFFSET_COMMIT):
        assert await commit(client, written, topic(written), written) is ErrorCode.none
        for read in versions(ApiKey.OFFSET_FETCH):
            for asked in (topic(read), None) if read >= 2 else (topic(read),):
                found = await fetch(client, read, asked)
                assert (found.committed_offset, found.error_code) == (written, ErrorCode.none)


async def test_an_id_that_no_topic_has_is_named_in_the_answer(client: WireClient) -> None:
    await ready(client)
    for unknown in (uuid.UUID(int=77), None):
        asked: dict[str, object] = {"topic_id": unknown}
        assert await commit(client, BY_ID, asked, 3) is ErrorCode.unknown_topic_id
        found = await fetch(client, BY_ID, asked)
        assert (found.error_code, found.committed_offset) == (ErrorCode.unknown_topic_id, -1)
    assert await commit(client, 9, {"name": "no"}, 3) is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize(
    ("version", "expected"), [(8, ErrorCode.illegal_generation), (9, ErrorCode.group_id_not_found)]
)
async def test_a_member_of_a_group_that_is_gone_is_told_so_if_it_can_understand(
    client: WireClient, version: int, expected: ErrorCode
) -> None:
    await ready(client)
    refused = await commit(client, version, {"name": "t"}, 3, member_id="m", generation_id_or_member_epoch=4)
    assert refused is expected
