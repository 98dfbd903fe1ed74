"""confluent-kafka's AdminClient alters and describes configs of a cluster of real processes."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)

from quorate.cli.node.local_cluster import LocalCluster

pytestmark = pytest.mark.clients
SET, DELETE = AlterConfigOpType.SET, AlterConfigOpType.DELETE
APPEND, SUBTRACT = AlterConfigOpType.APPEND, AlterConfigOpType.SUBTRACT
Alter = Callable[..., None]


@pytest.fixture
def admin(client_cluster: LocalCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": client_cluster.bootstrap})


def resource(kind: ResourceType, name: str, *changes: tuple[str, AlterConfigOpType, str]) -> ConfigResource:
    entries = [ConfigEntry(key, value, incremental_operation=how) for key, how, value in changes]
    return ConfigResource(kind, name, incremental_configs=entries)


def alter(admin: AdminClient, *resources: ConfigResource, validate_only: bool = False) -> list[str]:
    """Return the names of the errors in the order of the request. "" stands for none."""
    answers = admin.incremental_alter_configs(list(resources), validate_only=validate_only)
    return [error_of(answers[each]) for each in resources]


def error_of(answer: Any) -> str:
    try:
        answer.result(timeout=30)
    except KafkaException as error:
        return str(error.args[0].name())
    return ""


def described(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    (answer,) = admin.describe_configs([ConfigResource(kind, name)]).values()
    found: dict[str, ConfigEntry] = answer.result(timeout=30)
    return found


@pytest.mark.slow
def test_a_topics_configs_are_set_appended_to_subtracted_from_and_deleted(admin: AdminClient) -> None:
    admin.create_topics([NewTopic("altered", 1, 3)])["altered"].result(timeout=30)
    topic = ResourceType.TOPIC

    def change(*changes: tuple[str, AlterConfigOpType, str], **options: bool) -> list[str]:
        return alter(admin, resource(topic, "altered", *changes), **options)

    assert change(("retention.ms", SET, "7"), ("cleanup.policy", APPEND, "compact"), validate_only=True) == [
        ""
    ]
    assert described(admin, topic, "altered")["retention.ms"].value == "604800000"
    assert change(("retention.ms", SET, "7"), ("cleanup.policy", APPEND, "compact")) == [""]
    shown = described(admin, topic, "altered")
    assert (shown["retention.ms"].value, shown["cleanup.policy"].value) == ("7", "delete,compact")
    assert shown["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert not shown["retention.ms"].is_default
    assert list(shown["retention.ms"].synonyms) == ["retention.ms", "log.retention.ms"]
    assert change(("cleanup.policy", SUBTRACT, "delete"), ("retention.ms", DELETE, "")) == [""]
    shown = described(admin, topic, "altered")
    assert (shown["retention.ms"].value, shown["cleanup.policy"].value) == ("604800000", "compact")
    assert shown["retention.ms"].is_default
    assert change(("retention.ms", SET, "soon")) == ["INVALID_CONFIG"]
    assert change(("retention.ms", APPEND, "1")) == ["INVALID_CONFIG"]


def test_each_resource_of_a_request_has_its_answer(admin: AdminClient) -> None:
    admin.create_topics([NewTopic("answered", 1, 1)])["answered"].result(timeout=30)
    assert alter(
        admin,
        resource(ResourceType.TOPIC, "unheard-of", ("retention.ms", SET, "7")),
        resource(ResourceType.TOPIC, "answered", ("retention.ms", SET, "7")),
        resource(ResourceType.TOPIC, "answered-too", ("retention.ms", SET, "soon")),
    ) == ["UNKNOWN_TOPIC_OR_PART", "", "INVALID_CONFIG"]


def test_alter_configs_replaces_what_it_does_not_name(admin: AdminClient) -> None:
    admin.create_topics([NewTopic("replaced", 1, 1)])["replaced"].result(timeout=30)
    topic = ResourceType.TOPIC
    alter(admin, resource(topic, "replaced", ("retention.ms", SET, "7"), ("segment.ms", SET, "8")))
    asked = ConfigResource(topic, "replaced", set_config={"segment.ms": "9"})
    admin.alter_configs([asked])[asked].result(timeout=30)
    shown = described(admin, topic, "replaced")
    assert (shown["segment.ms"].value, shown["retention.ms"].value) == ("9", "604800000")


def test_a_broker_and_all_brokers_are_configured_while_they_run(admin: AdminClient) -> None:
    """librdkafka sends requests that concern a broker to that broker."""
    broker = ResourceType.BROKER
    for name in ("2", "3"):
        assert alter(admin, resource(broker, name, ("log.segment.bytes", SET, f"{name}000000"))) == [""]
        shown = described(admin, broker, name)["log.segment.bytes"]
        assert (shown.value, shown.source) == (f"{name}000000", ConfigSource.DYNAMIC_BROKER_CONFIG.value)
        assert not shown.is_read_only and described(admin, broker, name)["node.id"].is_read_only
        assert alter(admin, resource(broker, name, ("num.partitions", SET, "4"))) == ["INVALID_REQUEST"]
        assert alter(admin, resource(broker, name, ("log.segment.bytes", DELETE, ""))) == [""]
        assert described(admin, broker, name)["log.segment.bytes"].is_default
