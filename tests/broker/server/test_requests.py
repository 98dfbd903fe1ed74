"""Answers of one node, as Kafka's own tools and clients expect them, to quorate's client and to others."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
import trio
from confluent_kafka import KafkaException, Producer
from kio.schema.errors import ErrorCode

from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.kafka_client import WireClient
from tests.broker.server.client_requests import ask, create
from tests.broker.server.conftest import MakeNodes, Nodes

TOPIC, BROKER = 2, 4


async def test_metadata_uses_the_topic_id_and_ignores_the_name_beside_it(
    nodes: Nodes, client: WireClient
) -> None:
    topic_id = (await create(client)).topic_id
    for name in ("", None, "another"):
        asked: Any = await ask(client, ApiKey.METADATA, 12, topics=[{"topic_id": topic_id, "name": name}])
        (found,) = asked.topics
        assert (found.error_code, found.name) == (ErrorCode.none, "t"), f"asked with name {name!r}"
        assert len(found.partitions) == 1
    unknown: Any = await ask(
        client,
        ApiKey.METADATA,
        12,
        topics=[{"topic_id": uuid.UUID(int=99), "name": ""}],
        allow_auto_topic_creation=True,
    )
    assert unknown.topics[0].error_code is ErrorCode.unknown_topic_id
    assert unknown.topics[0].name is None
    assert nodes.servers[1].metadata.image.topic("another") is None, "a name beside an id creates nothing"


async def test_metadata_of_a_topic_with_neither_name_nor_id_is_answered_in_each_version(
    client: WireClient,
) -> None:
    """A name may be null from version 10 of the request on, and from 12 of the answer: in between the answer
    could not be encoded, and the connection was closed."""
    for version, name in (10, ""), (11, ""), (12, None):
        answer = await ask(
            client, ApiKey.METADATA, version, topics=[{"name": None}], allow_auto_topic_creation=True
        )
        (topic,) = answer.topics
        assert (topic.error_code, topic.name) == (ErrorCode.invalid_topic_exception, name)


async def described(client: WireClient, kind: int, name: str, *, synonyms: bool = True) -> dict[str, Any]:
    response: Any = await client.call(
        ApiKey.DESCRIBE_CONFIGS,
        resources=[{"resource_type": kind, "resource_name": name, "configuration_keys": None}],
        include_synonyms=synonyms,
        include_documentation=False,
    )
    (result,) = response.results
    assert result.error_code is ErrorCode.none
    return {each.name: each for each in result.configs}


def places(entry: Any) -> list[tuple[str, str, int]]:
    return [(each.name, each.value, each.source) for each in entry.synonyms]


async def test_configs_say_where_their_values_come_from(make_nodes: MakeNodes) -> None:
    nodes = await make_nodes(
        1, {"log.retention.hours": "2", "min.insync.replicas": "1", "num.partitions": "3"}
    )
    async with nodes.client(1) as client:
        await create(client, retention_ms="7")
        topic = await described(client, TOPIC, "t")
        assert places(topic["retention.ms"]) == [
            ("retention.ms", "7", 1),
            ("log.retention.hours", "2", 4),
            ("log.retention.ms", "604800000", 5),
        ]
        assert (topic["min.insync.replicas"].config_source, topic["min.insync.replicas"].value) == (4, "1")
        assert places(topic["segment.bytes"]) == [("log.segment.bytes", "1073741824", 5)]
        assert places(topic["remote.storage.enable"]) == [("remote.storage.enable", "false", 5)]
        broker = await described(client, BROKER, "1")
        assert places(broker["log.retention.hours"]) == [
            ("log.retention.hours", "2", 4),
            ("log.retention.hours", "168", 5),
        ]
        assert places(broker["num.partitions"]) == [("num.partitions", "3", 4), ("num.partitions", "1", 5)]
        assert broker["num.partitions"].config_source == 4
        for entry in (*topic.values(), *broker.values()):
            assert entry.config_source == places(entry)[0][2], entry.name
        assert "zookeeper.connect" not in broker, "what can't be set is not shown"
        plain = await described(client, TOPIC, "t", synonyms=False)
        assert plain["retention.ms"].synonyms == ()


async def test_a_broker_shows_its_id_and_its_listeners(nodes: Nodes, client: WireClient) -> None:
    shown = await described(client, BROKER, "1")
    assert (shown["broker.id"].value, shown["broker.id"].config_source) == ("1", 4)
    assert shown["advertised.listeners"].value == f"PLAINTEXT://{nodes.address(1)}"
    assert shown["advertised.listeners"].config_source == 5


async def test_advertised_listeners_of_the_file_are_static(make_nodes: MakeNodes) -> None:
    nodes = await make_nodes(1, start=False)
    nodes.override("advertised.listeners", f"PLAINTEXT://localhost:{nodes.address(1).port}")
    await nodes.start_all()
    async with nodes.client(1) as client:
        entry = (await described(client, BROKER, "1"))["advertised.listeners"]
        assert entry.value == f"PLAINTEXT://localhost:{nodes.address(1).port}"
        assert entry.config_source == 4


async def test_api_versions_names_the_features_and_their_levels(nodes: Nodes, client: WireClient) -> None:
    newest: Any = await ask(
        client, ApiKey.API_VERSIONS, 4, client_software_name="t", client_software_version="1"
    )
    supported = {each.name: (each.min_version, each.max_version) for each in newest.supported_features}
    assert supported == {
        "metadata.version": (1, 1),
        "kraft.version": (0, 1),
        "group.version": (0, 0),
        "transaction.version": (0, 0),
    }
    assert [
        (each.name, each.min_version_level, each.max_version_level) for each in newest.finalized_features
    ] == [("metadata.version", 1, 1)]
    assert newest.finalized_features_epoch == nodes.servers[1].metadata.offset
    third: Any = await ask(
        client, ApiKey.API_VERSIONS, 3, client_software_name="t", client_software_version="1"
    )
    assert [each.name for each in third.supported_features] == ["metadata.version"], "a level 0 is unreadable"
    await create(client)
    later: Any = await ask(
        client, ApiKey.API_VERSIONS, 4, client_software_name="t", client_software_version="1"
    )
    assert later.finalized_features_epoch > newest.finalized_features_epoch


@pytest.mark.parametrize("version", range(1, 5))
async def test_transactions_are_refused_for_good(client: WireClient, version: int) -> None:
    asked = {"coordinator_keys": ["x"]} if version >= 4 else {"key": "x"}
    found: Any = await ask(client, ApiKey.FIND_COORDINATOR, version, key_type=1, **asked)
    answer = found.coordinators[0] if version >= 4 else found
    assert answer.error_code is ErrorCode.transactional_id_authorization_failed
    assert "transactions are not served" in answer.error_message
    drawn: Any = await ask(
        client,
        ApiKey.INIT_PRODUCER_ID,
        version,
        transactional_id="x",
        transaction_timeout=timedelta(seconds=5),
    )
    assert drawn.error_code is ErrorCode.transactional_id_authorization_failed


@pytest.mark.parametrize("version", range(1, 7))
async def test_a_coordinator_of_an_unknown_kind_is_refused(client: WireClient, version: int) -> None:
    asked = {"coordinator_keys": ["x", "y"]} if version >= 4 else {"key": "x"}
    found: Any = await ask(client, ApiKey.FIND_COORDINATOR, version, key_type=2, **asked)
    answers = found.coordinators if version >= 4 else [found]
    assert {each.error_code for each in answers} == {ErrorCode.invalid_request}


def init_transactions(bootstrap: str) -> KafkaException:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "x"})
    with pytest.raises(KafkaException) as caught:
        producer.init_transactions(30)
    return caught.value


async def test_a_transactional_producer_of_librdkafka_fails_at_once_and_says_why(nodes: Nodes) -> None:
    with trio.fail_after(20):
        error = (await trio.to_thread.run_sync(init_transactions, nodes.bootstrap)).args[0]
    assert error.fatal()
    assert not error.retriable()
    assert "transactions are not served" in error.str()
