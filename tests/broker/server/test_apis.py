"""One broker's APIs, through our own client."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode

from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs.fetch_codec import (
    FetchedPartition,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    KafkaFetchRequest,
)
from quorate.broker.wire.kafka_client import WireClient
from quorate.log.batches.batch import HEADER_BYTES, read_batches, read_header, seal
from quorate.log.compression import Codec, compress
from tests.broker.server.client_requests import ask, batch, create, fetch, produce, values_of
from tests.broker.server.conftest import MakeNodes, Nodes


def compressed(codec: Codec) -> bytes:
    """A batch of one record."""
    plain = batch(b"x" * 100)
    header = read_header(plain)
    return seal(
        compress(codec, plain[HEADER_BYTES:]),
        base_offset=0,
        epoch=0,
        attributes=int(codec),
        last_offset_delta=0,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=1,
    )


async def test_produced_records_are_fetched_in_order(client: WireClient) -> None:
    await create(client)
    produced = await produce(client, "t", batch(b"a", b"b"))
    assert (produced.error, produced.base_offset) == (ErrorCode.none, 0)
    assert (await produce(client, "t", batch(b"c"))).base_offset == 2
    part = await fetch(client, "t", 0)
    assert values_of(part) == [b"a", b"b", b"c"]
    assert part.high_watermark == part.last_stable_offset == 3


async def test_a_fetch_waits_for_the_next_record(nodes: Nodes) -> None:
    async with nodes.client(1) as client, nodes.client(1) as other:
        await create(client)
        await produce(client, "t", batch(b"a"))
        began = trio.current_time()
        assert (await fetch(client, "t", 1, max_wait_ms=150)).records == ()
        assert trio.current_time() - began >= 0.15
        parts: list[FetchedPartition] = []

        async def wait() -> None:
            parts.append(await fetch(client, "t", 1, max_wait_ms=20_000))

        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                await trio.sleep(0.05)
                await produce(other, "t", batch(b"b"))
        assert values_of(parts[0]) == [b"b"]


async def test_a_topic_that_was_created_is_in_the_next_metadata_and_gone_after_deletion(
    make_nodes: MakeNodes,
) -> None:
    nodes = await make_nodes(3)
    # Not the controller, which hears of a commit before the others.
    follower = next(node for node in (1, 2, 3) if node != nodes.servers[1].quorum.leader)
    async with nodes.client(follower) as client:
        created = await create(client, partitions=3)
        listed: Any = await client.call(ApiKey.METADATA, topics=None)
        assert [(topic.name, len(topic.partitions)) for topic in listed.topics] == [("t", 3)]
        assert listed.topics[0].topic_id == created.topic_id
        assert listed.controller_id == follower, "changes go to who answers"
        deleted: Any = await client.call(
            ApiKey.DELETE_TOPICS, topics=[{"name": "t", "topic_id": None}], timeout=timedelta(seconds=5)
        )
        assert deleted.responses[0].error_code is ErrorCode.none
        listed = await client.call(ApiKey.METADATA, topics=None)
        assert listed.topics == ()


@pytest.mark.slow
async def test_added_partitions_are_in_the_next_metadata(make_nodes: MakeNodes) -> None:
    nodes = await make_nodes(3)
    follower = next(node for node in (1, 2, 3) if node != nodes.servers[1].quorum.leader)
    async with nodes.client(follower) as client:

        async def partitions() -> int:
            listed: Any = await client.call(ApiKey.METADATA, topics=[{"name": "t", "topic_id": None}])
            return len(listed.topics[0].partitions)

        async def extend(version: int, count: int, **values: object) -> dict[str, ErrorCode]:
            topics = [{"name": name, "count": count, "assignments": None} | values for name in ("t", "u")]
            answer = await ask(
                client,
                ApiKey.CREATE_PARTITIONS,
                version,
                topics=topics,
                timeout=timedelta(seconds=5),
                validate_only=count == 9,
            )
            return {each.name: each.error_code for each in answer.results}

        await create(client, partitions=1)
        for version, count in ((0, 2), (1, 3), (2, 4), (3, 5)):
            made = await extend(version, count)
            assert made == {"t": ErrorCode.none, "u": ErrorCode.unknown_topic_or_partition}
            assert await partitions() == count
        assert (await extend(3, 6, assignments=()))["t"] is ErrorCode.invalid_replica_assignment
        assert (await extend(3, 9))["t"] is ErrorCode.none, "only validated"
        assert await partitions() == 5


async def test_internal_topics_stay_whole(client: WireClient) -> None:
    await client.call(ApiKey.FIND_COORDINATOR, coordinator_keys=["g"])
    name, timeout = "__consumer_offsets", timedelta(seconds=5)
    deleted: Any = await client.call(
        ApiKey.DELETE_TOPICS, topics=[{"name": name, "topic_id": None}], timeout=timeout
    )
    more = {"name": name, "count": 99, "assignments": None}
    grown: Any = await client.call(ApiKey.CREATE_PARTITIONS, topics=[more], timeout=timeout)
    for refused in (deleted.responses[0], grown.results[0]):
        assert refused.error_code is ErrorCode.invalid_topic_exception
        assert "the cluster keeps its own state in it" in refused.error_message


@pytest.mark.bug("redpanda PR 26939")
async def test_asking_for_a_topic_creates_it_only_where_both_sides_want_that(client: WireClient) -> None:
    async def ask(client: WireClient, name: str, *, allow: bool) -> Any:
        answer: Any = await client.call(
            ApiKey.METADATA, topics=[{"name": name, "topic_id": None}], allow_auto_topic_creation=allow
        )
        return answer.topics[0]

    refused = await ask(client, "a", allow=False)
    assert refused.error_code is ErrorCode.unknown_topic_or_partition
    assert (await ask(client, "a", allow=True)).error_code is ErrorCode.none
    assert (await ask(client, "no/name", allow=True)).error_code is ErrorCode.invalid_topic_exception


async def test_internal_topics_are_not_for_clients_to_write(client: WireClient) -> None:
    await client.call(ApiKey.FIND_COORDINATOR, coordinator_keys=["g"])
    produced = await produce(client, "__consumer_offsets", batch(b"x"))
    assert produced.error is ErrorCode.invalid_topic_exception


async def test_offsets_are_listed_by_position_and_by_time(client: WireClient) -> None:
    await create(client)
    await produce(client, "t", batch(b"a", b"b"))

    async def listed(timestamp: int) -> int:
        answer: Any = await client.call(
            ApiKey.LIST_OFFSETS,
            replica_id=-1,
            topics=[{"name": "t", "partitions": [{"partition_index": 0, "timestamp": timestamp}]}],
        )
        return int(answer.topics[0].partitions[0].offset)

    assert [await listed(at) for at in (-2, -1, 500, 5000)] == [0, 2, 0, -1]


async def list_offsets(client: WireClient, version: int, topic: str, *timestamps: int) -> Any:
    """The answer for partition 0, asked as many times in one request."""
    asked = [{"partition_index": 0, "timestamp": at} for at in timestamps]
    topics = [{"name": topic, "partitions": asked}]
    answer = await ask(client, ApiKey.LIST_OFFSETS, version, replica_id=-1, topics=topics)
    return answer.topics[0].partitions


@pytest.mark.costly
@pytest.mark.parametrize("topic", ["t", "__cluster_metadata"])
async def test_a_special_timestamp_is_answered_from_the_version_on_that_knows_it(
    client: WireClient, topic: str
) -> None:
    """The answers are those of Kafka without tiered storage: -4 is the start, nothing is tiered (-5) or waits
    for it (-6)."""
    await create(client)
    await produce(client, "t", batch(b"a", b"b"))
    since = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11}
    offsets = {}
    for version in range(1, 12):
        for timestamp in range(-8, 0):
            (part,) = await list_offsets(client, version, topic, timestamp)
            served = version >= since.get(timestamp, 99)
            expected = ErrorCode.none if served else ErrorCode.unsupported_version
            assert part.error_code is expected, f"{timestamp} in version {version}"
            assert served or part.offset == -1
            offsets[timestamp] = part.offset
    latest, newest = offsets[-1], offsets[-3]
    assert offsets == {-1: latest, -2: 0, -3: newest, -4: 0, -5: -1, -6: -1, -7: -1, -8: -1}
    assert 0 <= newest < latest
    if topic == "t":
        assert (newest, latest) == (0, 2)


async def test_a_partition_that_list_offsets_names_twice_is_refused(client: WireClient) -> None:
    await create(client)
    parts = await list_offsets(client, 7, "t", -1, -2)
    assert [part.error_code for part in parts] == [ErrorCode.invalid_request] * 2


async def test_the_metadata_log_is_a_topic_to_read(nodes: Nodes, client: WireClient) -> None:
    answer: Any = await client.call(
        ApiKey.METADATA, topics=[{"name": "__cluster_metadata", "topic_id": None}]
    )
    assert answer.topics[0].partitions[0].leader_id == 1
    part = await fetch(client, "__cluster_metadata", 0)
    assert part.error is ErrorCode.none
    assert part.high_watermark == nodes.servers[1].quorum.high_watermark
    assert part.records
    parts: list[FetchedPartition] = []

    async def wait() -> None:
        parts.append(await fetch(client, "__cluster_metadata", part.high_watermark, max_wait_ms=20_000))

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery, nodes.client(1) as other:
            nursery.start_soon(wait)
            await trio.sleep(0.05)
            await create(other, "t")
    assert parts[0].records
    beyond = await fetch(client, "__cluster_metadata", 1_000_000)
    assert beyond.error is ErrorCode.offset_out_of_range


async def test_every_broker_describes_the_quorum_and_names_the_same_leader(make_nodes: MakeNodes) -> None:
    nodes = await make_nodes(3)
    leaders = set()
    for node in (1, 2, 3):
        async with nodes.client(node) as client:
            answer: Any = await client.call(
                ApiKey.DESCRIBE_QUORUM,
                topics=[{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}],
            )
            part = answer.topics[0].partitions[0]
            leaders.add(part.leader_id)
            assert sorted(each.replica_id for each in part.current_voters) == [1, 2, 3]
            # The configuration names no directories, the voters' fetches do.
            assert len({each.replica_directory_id for each in part.current_voters} - {None}) == 3
    assert leaders == {nodes.servers[1].quorum.leader}


@pytest.mark.slow
async def test_producer_ids_are_given_once_across_brokers(make_nodes: MakeNodes) -> None:
    nodes = await make_nodes(3)
    drawn = []
    for node in (1, 2, 3, 1):
        async with nodes.client(node) as client:
            answer: Any = await client.call(ApiKey.INIT_PRODUCER_ID, transactional_id=None)
            assert answer.error_code is ErrorCode.none
            drawn.append(answer.producer_id)
    assert len(set(drawn)) == 4


async def test_a_fetch_that_names_a_partition_20_000_times_gets_it_once(client: WireClient) -> None:
    """Its last naming counts. The answer was 58 MB, and the broker kept the memory."""
    await create(client, partitions=2)
    for number in range(3):
        await produce(client, "t", batch(b"%d" % number * 1000))
    await produce(client, "t", batch(b"other"), partition=1)
    ask = [FetchPartition(0, -1, 0)] * 20_000 + [FetchPartition(1, -1, 0), FetchPartition(0, -1, 2)]
    request = KafkaFetchRequest(
        version=12,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 30,
        topics=[FetchTopic("t", None, ask), FetchTopic("t", None, ask[-1:])],
    )
    answer = await client.fetch(request)
    assert [topic.name for topic in answer.topics] == ["t"]
    assert [part.index for part in answer.topics[0].partitions] == [0, 1]
    assert values_of(answer.topics[0].partitions[0]) == [b"2" * 1000]
    assert values_of(answer.topics[0].partitions[1]) == [b"other"]


async def test_a_consumer_fetches_in_a_session(client: WireClient) -> None:
    """KIP-227, on the wire: named once, told of what changes, and left when it is forgotten."""
    await create(client, partitions=3)

    async def fetch(session_id: int, epoch: int, *parts: FetchPartition, **fields: Any) -> Any:
        asked = KafkaFetchRequest(
            version=12,
            max_wait_ms=50,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=session_id,
            session_epoch=epoch,
            topics=[FetchTopic("t", None, parts)] if parts else [],
            **fields,
        )
        answer = await client.fetch(asked)
        assert answer.error is ErrorCode.none
        return answer

    def found(answer: Any) -> dict[int, list[bytes]]:
        return {part.index: values_of(part) for topic in answer.topics for part in topic.partitions}

    first = await fetch(0, 0, *(FetchPartition(number) for number in range(3)))
    session = first.session_id
    assert session > 0
    assert found(first) == {0: [], 1: [], 2: []}
    assert found(await fetch(session, 1)) == {}
    await produce(client, "t", batch(b"a"), partition=2)
    second = await fetch(session, 2)
    assert (second.session_id, found(second)) == (session, {2: [b"a"]})
    left = [ForgottenTopic("t", None, [1])]
    await fetch(session, 3, FetchPartition(2, fetch_offset=1), forgotten=left)
    await produce(client, "t", batch(b"b"), partition=1)
    assert found(await fetch(session, 4)) == {}
    # The metadata log has no sessions: a request for it is answered in full each time.
    both = [FetchTopic("t", None, [FetchPartition(1)])]
    both.append(FetchTopic("__cluster_metadata", None, [FetchPartition(0)]))
    asked = KafkaFetchRequest(
        version=12,
        max_wait_ms=50,
        min_bytes=1,
        max_bytes=1,
        session_id=session,
        session_epoch=0,
        topics=both,
    )
    assert (await client.fetch(asked)).session_id == 0
    asked = replace(asked, session_epoch=5)
    assert (await client.fetch(asked)).error is ErrorCode.fetch_session_id_not_found
    nothing = await fetch(0, 0)
    assert (nothing.session_id, found(nothing)) == (0, {})


async def test_an_unknown_fetch_session_is_refused(client: WireClient) -> None:
    request = KafkaFetchRequest(
        version=12, max_wait_ms=0, min_bytes=1, max_bytes=1, session_id=7, session_epoch=2, topics=[]
    )
    assert (await client.fetch(request)).error is ErrorCode.fetch_session_id_not_found


async def test_a_consumer_that_does_not_know_zstd_gets_what_is_before_it_and_is_refused_then(
    client: WireClient,
) -> None:
    """KIP-110: Fetch knows it from version 10 on."""
    await create(client)
    for data in (batch(b"a"), batch(b"b"), compressed(Codec.ZSTD), batch(b"c"), compressed(Codec.GZIP)):
        assert (await produce(client, "t", data)).error is ErrorCode.none
    none, refused = ErrorCode.none, ErrorCode.unsupported_compression_type
    for version, offset, error, end in (
        (9, 0, none, 2),
        (9, 2, refused, None),
        (9, 3, none, 5),
        (4, 1, none, 2),
        (4, 2, refused, None),
        (10, 0, none, 5),
        (12, 2, none, 5),
    ):
        with trio.fail_after(4):
            part = await fetch(client, "t", offset, version=version, max_wait_ms=5000)
        assert part.error is error, f"version {version} at offset {offset}"
        headers = [each.header for piece in part.records for each in read_batches(piece)]
        assert (headers[-1].end_offset if headers else None) == end, f"{version} at {offset}"


async def test_a_topic_in_zstd_is_refused_to_an_older_fetch_even_when_empty(client: WireClient) -> None:
    """So that an old consumer needn't wait for the first record to learn that it can read none (as Kafka)."""
    await create(client, compression_type="zstd")
    found = {
        version: (await fetch(client, "t", 0, version=version, max_bytes=1)).error for version in (9, 10)
    }
    assert found == {9: ErrorCode.unsupported_compression_type, 10: ErrorCode.none}


async def test_a_fetch_below_version_6_is_told_of_no_failed_disk(nodes: Nodes, client: WireClient) -> None:
    """It doesn't know KAFKA_STORAGE_ERROR, and would give up instead of looking for another leader."""
    await create(client)
    await produce(client, "t", batch(b"a"))
    nodes.servers[1].broker.replicas.lookups.partition("t", 0).fail("the disk failed")
    found = {each: (await fetch(client, "t", 0, version=each)).error for each in (4, 5, 6, 12)}
    older, newer = ErrorCode.not_leader_or_follower, ErrorCode.kafka_storage_error
    assert found == {4: older, 5: older, 6: newer, 12: newer}
