"""Quotas of clients over the wire, and clients that are slowed down to them."""

from datetime import timedelta
from typing import Any

import pytest
import trio
from confluent_kafka import Consumer, Producer
from kio.schema.errors import ErrorCode

from quorate.broker.metadata.quota_precedence import CONTROLLER_MUTATION_RATE
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs.fetch_codec import FetchPartition, FetchTopic, KafkaFetchRequest
from quorate.broker.wire.kafka_client import WireClient
from quorate.runtime import NetworkError
from tests.broker.server.client_requests import batch, create, produce, values_of
from tests.broker.server.conftest import MakeNodes, Nodes

EXACT, DEFAULT, ANY = 0, 1, 2


async def alter(client: WireClient, entity: dict[str, str | None], **quotas: float | None) -> Any:
    answer: Any = await client.call(
        ApiKey.ALTER_CLIENT_QUOTAS,
        entries=[
            {
                "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
                "ops": [
                    {"key": key, "value": value or 0.0, "remove": value is None}
                    for key, value in quotas.items()
                ],
            }
        ],
    )
    return answer.entries[0]


async def describe(
    client: WireClient, *components: tuple[str, int, str | None], strict: bool = False
) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
    answer: Any = await client.call(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        components=[
            {"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components
        ],
        strict=strict,
    )
    assert answer.error_code is ErrorCode.none, answer.error_message
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            each.key: each.value for each in entry.values
        }
        for entry in answer.entries
    }


async def test_quotas_are_described_as_the_filter_wants_them(client: WireClient) -> None:
    for entity in (
        {"user": "ann"},
        {"user": "ann", "client-id": "app"},
        {"user": None},
        {"client-id": "app"},
    ):
        altered = await alter(client, entity, producer_byte_rate=10.0, consumer_byte_rate=50.0)
        assert altered.error_code is ErrorCode.none, altered.error_message
    ann, both, anybody, app = (
        (("user", "ann"),),
        (("user", "ann"), ("client-id", "app")),
        (("user", None),),
        (("client-id", "app"),),
    )
    everything = await describe(client)
    assert set(everything) == {ann, both, anybody, app}
    assert everything[both] == {"producer_byte_rate": 10.0, "consumer_byte_rate": 50.0}
    assert set(await describe(client, ("user", EXACT, "ann"))) == {ann, both}
    assert set(await describe(client, ("user", EXACT, "ann"), strict=True)) == {ann}
    assert set(await describe(client, ("user", DEFAULT, None))) == {anybody}
    assert set(await describe(client, ("user", ANY, None), ("client-id", ANY, None))) == {both}
    await alter(client, {"user": "ann"}, producer_byte_rate=None, consumer_byte_rate=None)
    assert set(await describe(client, ("user", EXACT, "ann"))) == {both}


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", ANY, None)], ErrorCode.invalid_request),
        ([("group", ANY, None)], ErrorCode.unsupported_version),
        ([("user", ANY, None), ("user", EXACT, "a")], ErrorCode.invalid_request),
        ([("user", EXACT, None)], ErrorCode.invalid_request),
        ([("user", DEFAULT, "a")], ErrorCode.invalid_request),
        ([("user", 7, None)], ErrorCode.invalid_request),
        ([("ip", ANY, None), ("user", ANY, None)], ErrorCode.invalid_request),
    ],
)
async def test_a_filter_that_is_none_is_refused_whole(
    client: WireClient, components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    answer: Any = await client.call(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        components=[
            {"entity_type": kind, "match_type": how, "match": name} for kind, how, name in components
        ],
    )
    assert (answer.error_code, answer.entries) == (code, None)
    assert answer.error_message


async def test_a_refused_quota_says_why(client: WireClient) -> None:
    refused = await alter(client, {"user": "ann"}, producer_byte_rate=-1.0)
    assert refused.error_code is ErrorCode.invalid_request
    assert refused.error_message == (
        "producer_byte_rate is -1; it must be greater than 0. Remove it for no limit."
    )
    assert [(part.entity_type, part.entity_name) for part in refused.entity] == [("user", "ann")]
    infinite = await alter(client, {"user": "ann"}, producer_byte_rate=float("inf"))
    assert infinite.error_code is ErrorCode.invalid_request


async def test_an_address_that_connects_too_quickly_is_closed(nodes: Nodes, client: WireClient) -> None:
    altered = await alter(client, {"ip": "127.0.0.1"}, connection_creation_rate=1)
    assert altered.error_code is ErrorCode.none, altered.error_message
    assert await describe(client, ("ip", ANY, None)) == {
        (("ip", "127.0.0.1"),): {"connection_creation_rate": 1.0}
    }
    opened = 0
    with pytest.raises(NetworkError):
        for _ in range(20):
            async with nodes.client(1):
                opened += 1
    assert 10 <= opened <= 12, f"{opened} connections at once, of 10"
    await alter(client, {"ip": "127.0.0.1"}, connection_creation_rate=None)
    async with nodes.client(1):
        pass


async def test_topics_above_a_clients_rate_are_refused_with_the_time_to_wait(client: WireClient) -> None:
    """An older version of the request is granted, and its connection waits."""

    async def create_topic(client: WireClient, name: str, *, at_most: int) -> tuple[ErrorCode, float]:
        answer: Any = await client.call(
            ApiKey.CREATE_TOPICS,
            at_most=at_most,
            topics=[{"name": name, "num_partitions": 12, "replication_factor": 1}],
            timeout=timedelta(seconds=10),
        )
        return answer.topics[0].error_code, answer.throttle_time.total_seconds()

    altered = await alter(client, {"user": "ANONYMOUS"}, controller_mutation_rate=1)
    assert altered.error_code is ErrorCode.none, altered.error_message
    code, told = await create_topic(client, "a", at_most=7)
    assert (code, told) == (ErrorCode.none, 0.0), "the one that goes over the burst of 11"
    code, told = await create_topic(client, "b", at_most=7)
    assert code is ErrorCode.throttling_quota_exceeded and 0 < told <= 1
    began = trio.current_time()
    code, waited = await create_topic(client, "c", at_most=5)
    assert trio.current_time() - began >= told - 0.1, "the connection waits as the client was told"
    assert code is ErrorCode.none and waited > 10, "an older client has its wish, and waits"


async def ask_for_topics(client: WireClient, *names: str) -> tuple[dict[str, ErrorCode], float]:
    answer: Any = await client.call(
        ApiKey.METADATA, topics=[{"name": name} for name in names], allow_auto_topic_creation=True
    )
    return {each.name: each.error_code for each in answer.topics}, answer.throttle_time.total_seconds()


@pytest.mark.slow
async def test_the_client_that_asks_for_a_topic_is_charged_for_its_creation(make_nodes: MakeNodes) -> None:
    """Any broker creates it in the client's name, as in Kafka."""
    nodes = await make_nodes(2, {"num.partitions": "12", "default.replication.factor": "1"})
    unknown = ErrorCode.unknown_topic_or_partition
    async with nodes.client(1) as admin:
        altered = await alter(admin, {"client-id": "app"}, controller_mutation_rate=1)
        assert altered.error_code is ErrorCode.none, altered.error_message
    async with nodes.client(1, client_id="app") as first:
        codes, told = await ask_for_topics(first, "a")
        assert codes["a"] is not unknown and told == 0.0, "the one that goes over the burst of 11"
    async with nodes.client(2, client_id="app") as second:
        codes, told = await ask_for_topics(second, "b", "a")
        assert codes["b"] is unknown, "refused with an error that every client retries on"
        assert codes["a"] is not unknown, "a topic that is there is described all the same"
        assert 0 < told <= 1, f"the client is told to wait {told} s"
        assert nodes.servers[2].broker.throttles.throttled[CONTROLLER_MUTATION_RATE] == 1
        async with nodes.client(2, client_id="other") as other:
            codes, told = await ask_for_topics(other, "c")
            assert codes["c"] is not unknown and told == 0.0, "another client is not charged for it"
        with trio.fail_after(10):
            while codes.get("b", unknown) is unknown:
                codes, told = await ask_for_topics(second, "b")


def auto_created(bootstrap: str, *topics: str) -> None:
    """Produce one record to each topic with a stock client, one after the other."""
    client = Producer({"bootstrap.servers": bootstrap, "client.id": "app", "linger.ms": 0})
    for topic in topics:
        client.produce(topic, b"x")
        assert client.flush(20) == 0, f"nothing was written to {topic}"


async def test_a_stock_producer_waits_for_a_topic_above_its_rate_and_then_has_it(
    make_nodes: MakeNodes,
) -> None:
    nodes = await make_nodes(1, {"num.partitions": "12"})
    async with nodes.client(1) as admin:
        await alter(admin, {"client-id": "app"}, controller_mutation_rate=1)
        began = trio.current_time()
        await trio.to_thread.run_sync(auto_created, nodes.bootstrap, "a", "b")
        assert trio.current_time() - began > 0.8, "12 partitions of a burst of 11 cost a second"
        assert nodes.servers[1].broker.throttles.throttled[CONTROLLER_MUTATION_RATE] >= 1


def time_of_asking(bootstrap: str, times: int) -> float:
    """Ask for the metadata so often with kafka-python, and return how long it took (s)."""
    import time

    from kafka import KafkaAdminClient
    from kafka.errors import NodeNotReadyError

    client = KafkaAdminClient(bootstrap_servers=bootstrap, client_id="busy")
    try:
        began, answered = time.monotonic(), 0
        while answered < times and time.monotonic() - began < 30:
            try:
                client.describe_topics()
                answered += 1
            except NodeNotReadyError:  # It pauses the connection, and tells its caller.
                time.sleep(0.02)
        assert answered == times
        return time.monotonic() - began
    finally:
        client.close()


@pytest.mark.slow
async def test_a_client_that_takes_more_than_its_share_of_the_loop_is_slowed_down(
    nodes: Nodes, client: WireClient
) -> None:
    await create(client)
    quick = await trio.to_thread.run_sync(time_of_asking, nodes.bootstrap, 10)
    altered = await alter(client, {"client-id": "busy"}, request_percentage=0.001)
    assert altered.error_code is ErrorCode.none, altered.error_message
    slow = await trio.to_thread.run_sync(time_of_asking, nodes.bootstrap, 4)
    throttles = nodes.servers[1].broker.throttles
    assert throttles.throttled["request_percentage"] >= 3
    assert 2 < throttles.throttled_s["request_percentage"] <= throttles.throttled["request_percentage"]
    assert slow > 2.0, f"4 requests took {slow:.2f} s, 10 without the quota {quick:.2f} s"
    began = trio.current_time()
    for _ in range(10):
        await describe(client)
    assert trio.current_time() - began < 1, "others are not"


QUOTA = 20_000
BURST = 10 * QUOTA


def produced(bootstrap: str) -> tuple[list[float], float]:
    """Produce a burst and a second's worth more, then one record. The throttle times (s) that the client was
    told, and how long the last record took."""
    import time

    told: list[float] = []
    client = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": "greedy",
            "linger.ms": 0,
            "throttle_cb": lambda event: told.append(event.throttle_time),
        }
    )
    client.produce("t", b"x" * (BURST + QUOTA))
    assert client.flush(10) == 0
    began = time.monotonic()
    client.produce("t", b"one more")
    assert client.flush(10) == 0
    took = time.monotonic() - began
    client.poll(0.1)
    return told, took


async def test_a_producer_above_its_quota_is_told_and_waits(nodes: Nodes, client: WireClient) -> None:
    await create(client)
    await alter(client, {"client-id": "greedy"}, producer_byte_rate=QUOTA)
    told, took = await trio.to_thread.run_sync(produced, nodes.bootstrap)
    assert any(0.5 < each < 1.1 for each in told), f"told {told}"
    assert took > 0.5, f"the next record took {took:.2f} s"
    await alter(client, {"client-id": "greedy"}, producer_byte_rate=None)
    told, took = await trio.to_thread.run_sync(produced, nodes.bootstrap)
    assert not any(told), f"told {told} without a quota"


def consumed(bootstrap: str, size: int) -> float:
    """Read that many bytes; how long it took (s)."""
    import time

    client = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": "reader",
            "group.id": "unused",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "check.crcs": True,
        }
    )
    try:
        from confluent_kafka import TopicPartition

        client.assign([TopicPartition("t", 0, 0)])
        began = time.monotonic()
        got = 0
        while got < size and time.monotonic() - began < 20:
            message = client.poll(0.5)
            if message is not None:
                assert message.error() is None, message.error()
                got += len(message.value())
        assert got == size, f"read {got} of {size} bytes"
        return time.monotonic() - began
    finally:
        client.close()


async def test_a_consumer_above_its_quota_waits_and_gets_everything(nodes: Nodes, client: WireClient) -> None:
    records = 12
    await create(client)
    writer = Producer({"bootstrap.servers": nodes.bootstrap, "linger.ms": 0, "batch.size": 1})
    for _ in range(records):
        writer.produce("t", b"x" * QUOTA)
    assert await trio.to_thread.run_sync(writer.flush, 10) == 0
    quick = await trio.to_thread.run_sync(consumed, nodes.bootstrap, records * QUOTA)
    await alter(client, {"client-id": "reader"}, consumer_byte_rate=QUOTA)
    slow = await trio.to_thread.run_sync(consumed, nodes.bootstrap, records * QUOTA)
    assert slow > 1.0, (
        f"{records} s worth of quota, of which 10 at once, took {slow:.2f} s ({quick:.2f} s without)"
    )


async def fetched(client: WireClient, offset: int) -> tuple[list[bytes | None], float]:
    """Ask for far more than a quota's window. The values, and for how long the client is told to wait (s)."""
    request = KafkaFetchRequest(
        version=12,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=50 << 20,
        topics=[FetchTopic("t", None, [FetchPartition(0, -1, offset, max_bytes=50 << 20)])],
    )
    answer = await client.fetch(request)
    values = [value for topic in answer.topics for part in topic.partitions for value in values_of(part)]
    return values, answer.throttle_ms / 1000


@pytest.mark.bug("KAFKA-9677")
async def test_an_answer_is_no_larger_than_the_window_of_the_quota(nodes: Nodes) -> None:
    """It was what the client asked for, and its throttle time grew with that for ever."""
    batches = 13
    async with nodes.client(1) as client, nodes.client(1, client_id="reader") as reader:
        await create(client)
        for _ in range(batches):
            assert (await produce(client, "t", batch(b"x" * QUOTA))).error is ErrorCode.none
        await alter(client, {"client-id": "reader"}, consumer_byte_rate=QUOTA)
        began = trio.current_time()
        counts: list[int] = []
        waits: list[float] = []
        with trio.fail_after(20):
            while sum(counts) < batches:
                values, told = await fetched(reader, sum(counts))
                counts.append(len(values))
                waits.append(told)
        took = trio.current_time() - began
    assert 5 < max(counts) <= 10, f"{counts} records of a second each in answers, of a window of 10 s"
    assert max(waits) < 2, f"told to wait {waits} s"
    assert 1 < took < 8, f"{batches} s worth of quota, of which 10 at once, took {took:.1f} s"


@pytest.mark.bug("redpanda PR 18218")
async def test_a_client_that_has_waited_as_told_waits_no_more_and_one_that_has_not_waits_the_rest(
    nodes: Nodes,
) -> None:
    async with nodes.client(1) as client:
        await create(client)
        for _ in range(14):
            await produce(client, "t", batch(b"x" * QUOTA))
        for name in ("patient", "hasty"):
            await alter(client, {"client-id": name}, consumer_byte_rate=QUOTA)
    async with (
        nodes.client(1, client_id="patient") as patient,
        nodes.client(1, client_id="hasty") as hasty,
    ):
        for reader in (patient, hasty):
            offset, told = 0, 0.0
            with trio.fail_after(20):
                while told < 0.5:
                    values, told = await fetched(reader, offset)
                    offset += len(values)
            assert told < 1.1, "of a record of a second's worth"
            asked = trio.current_time()
            if reader is patient:
                await trio.sleep(told)
            began = trio.current_time()
            await fetched(reader, offset)
            answered = trio.current_time()
            assert answered - asked >= told - 0.1, "the connection is not read meanwhile"
            assert answered - began < 0.4 or reader is hasty, "it has waited"


@pytest.mark.slow
@pytest.mark.bug("KAFKA-14215")
async def test_a_request_that_is_passed_on_to_the_controller_waits_for_the_longer_of_both_quotas(
    make_nodes: MakeNodes,
) -> None:
    nodes = await make_nodes(2)

    async def create_topic(client: WireClient, name: str) -> float:
        answer: Any = await client.call(
            ApiKey.CREATE_TOPICS,
            at_most=5,
            topics=[{"name": name, "num_partitions": 12, "replication_factor": 1}],
            timeout=timedelta(seconds=10),
        )
        assert answer.topics[0].error_code is ErrorCode.none
        told: float = answer.throttle_time.total_seconds()
        return told

    async with nodes.client(1) as client:
        await alter(client, {"client-id": "app"}, request_percentage=0.001)
        with trio.fail_after(5):
            while not all(server.broker.throttles.counts for server in nodes.servers.values()):  # noqa: ASYNC110
                await trio.sleep(0.01)
        # One of the two brokers passes it on.
        for node in (1, 2):
            async with nodes.client(node, client_id="app") as app:
                assert await create_topic(app, f"first-{node}") == 1.0, "the most for request time"
        await alter(client, {"client-id": "app"}, controller_mutation_rate=1)
        told = [1.0]
        for node in (1, 2):
            async with nodes.client(node, client_id="app") as app:
                told.append(await create_topic(app, f"second-{node}"))
        assert told[0] <= told[1] <= told[2], f"told {told} s"
        assert told[2] > 2, "24 partitions at one a second, of which 11 at once"
