"""AlterConfigs, IncrementalAlterConfigs, DescribeConfigs and ListConfigResources of a running cluster."""

from collections.abc import Mapping
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode

from quorate.broker.metadata.metadata_records import ConfigType
from quorate.broker.metadata.states import ConfigResource
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.kafka_client import WireClient
from quorate.runtime.event_log import log_levels, set_log_level
from quorate.runtime.network import NetworkError
from tests.broker.server.client_requests import ask, create
from tests.broker.server.conftest import MakeNodes, Nodes

TOPIC, BROKER, LOGGERS, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
Entry = tuple[str, int, str | None]
SESSION = "consumer.session.timeout.ms"


def resource(kind: int, name: str, *entries: Entry) -> dict[str, object]:
    return {
        "resource_type": kind,
        "resource_name": name,
        "configs": [
            {"name": key, "config_operation": operation, "value": value} for key, operation, value in entries
        ],
    }


async def alter(
    client: WireClient, *resources: Mapping[str, object], validate_only: bool = False
) -> list[int]:
    """The codes of the answer, in its order."""
    answer: Any = await client.call(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=resources, validate_only=validate_only
    )
    asked = [(each["resource_type"], each["resource_name"]) for each in resources]
    assert [(each.resource_type, each.resource_name) for each in answer.responses] == asked
    assert all((each.error_message is None) == (each.error_code == 0) for each in answer.responses)
    return [int(each.error_code) for each in answer.responses]


async def describe(client: WireClient, kind: int, name: str, **options: object) -> Any:
    keys = options.pop("keys", None)
    answer: Any = await client.call(
        ApiKey.DESCRIBE_CONFIGS,
        resources=[{"resource_type": kind, "resource_name": name, "configuration_keys": keys}],
        **({"include_synonyms": True, "include_documentation": False} | options),
    )
    (result,) = answer.results
    return result


async def entries(client: WireClient, kind: int, name: str, **options: object) -> dict[str, Any]:
    result = await describe(client, kind, name, **options)
    assert result.error_code is ErrorCode.none, result.error_message
    return {each.name: each for each in result.configs}


@pytest.mark.slow
async def test_configs_are_altered_where_the_cluster_is_asked_and_shown_everywhere(
    make_nodes: MakeNodes,
) -> None:
    nodes = await make_nodes(3)
    async with nodes.client(1) as one, nodes.client(2) as two:
        await create(one)
        for client in (one, two):
            # One of the two has to forward to the leader of the quorum.
            assert await alter(client, resource(TOPIC, "t", ("retention.ms", SET, "7"))) == [0]
            shown = (await entries(client, TOPIC, "t"))["retention.ms"]
            assert (shown.value, shown.config_source, shown.read_only) == ("7", 1, False)
            assert await alter(client, resource(TOPIC, "t", ("retention.ms", DELETE, ""))) == [0]
            assert (await entries(client, TOPIC, "t"))["retention.ms"].config_source == 5
        assert await alter(two, resource(BROKER, "", ("log.retention.ms", SET, "5"))) == [0]
        assert await alter(two, resource(BROKER, "2", ("log.retention.ms", SET, "6"))) == [0]
        shown = (await entries(two, TOPIC, "t"))["retention.ms"]
        assert [(each.name, each.value, each.source) for each in shown.synonyms] == [
            ("log.retention.ms", "6", 2), ("log.retention.ms", "5", 3), ("log.retention.ms", "604800000", 5)
        ]  # fmt: skip
        own, everyones = await entries(two, BROKER, "2"), await entries(two, BROKER, "")
        assert (own["log.retention.ms"].value, own["log.retention.ms"].config_source) == ("6", 2)
        assert [(each.name, each.value, each.config_source) for each in everyones.values()] == [
            ("log.retention.ms", "5", 3)
        ]
        assert own["log.retention.hours"].read_only and own["num.partitions"].read_only
        assert not own["log.retention.ms"].read_only
        with trio.fail_after(5):
            await nodes.servers[1].metadata.wait_until(
                lambda image: image.offset >= nodes.servers[2].metadata.image.offset
            )
        assert (await entries(one, BROKER, "1"))["log.retention.ms"].value == "5"


@pytest.mark.slow
async def test_a_request_is_answered_in_order_and_what_was_refused_is_not_in_the_image(
    nodes: Nodes, client: WireClient
) -> None:
    """2,600 resources, three portions of a request to the controller, every fifth of them wrong."""
    good = [resource(GROUP, f"g{number}", (SESSION, SET, "50000")) for number in range(2600)]
    bad = {number: resource(GROUP, f"g{number}", (SESSION, SET, "1")) for number in range(0, 2600, 5)}
    image = nodes.servers[1].metadata.image
    asked = [bad.get(number, each) for number, each in enumerate(good)]
    expected = [40 if number in bad else 0 for number in range(2600)]
    assert await alter(client, *asked, validate_only=True) == expected
    assert not [each for each in image.configured() if each.type is ConfigType.GROUP]
    assert await alter(client, *asked) == expected
    for number in range(2600):
        held = image.configs(ConfigResource(ConfigType.GROUP, f"g{number}"))
        assert dict(held) == ({} if number in bad else {SESSION: "50000"})
    assert await alter(client, *good) == [0] * 2600
    assert (await entries(client, GROUP, "g5"))[SESSION].config_source == 8


async def test_one_request_has_each_kind_of_answer(client: WireClient) -> None:
    await create(client)
    assert await alter(
        client,
        resource(TOPIC, "u", ("retention.ms", SET, "x")),
        resource(TOPIC, "v", ("retention.ms", SET, "1")),
        resource(TOPIC, "t", ("retention.ms", SET, "1")),
        resource(BROKER, "7", ("log.retention.ms", SET, "1")),
        resource(METRICS, "m", ("interval.ms", SET, "1")),
        resource(99, "x", ("a", SET, "1")),
        resource(TOPIC, "a/b", ("retention.ms", SET, "1")),
    ) == [40, 3, 0, 42, 42, 42, 17]
    assert await alter(client) == []


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_alter_configs_replaces_all_of_a_resource(client: WireClient, version: int) -> None:
    await create(client)
    await alter(client, resource(TOPIC, "t", ("retention.ms", SET, "7"), ("segment.ms", SET, "8")))
    asked = [
        {"resource_type": kind, "resource_name": name, "configs": configs}
        for kind, name, configs in (
            (TOPIC, "t", [{"name": "segment.ms", "value": "9"}]),
            (TOPIC, "u", [{"name": "segment.ms", "value": "9"}]),
            (LOGGERS, "1", []),
            (BROKER, "1", [{"name": "node.id", "value": None}]),
        )
    ]
    answer = await ask(client, ApiKey.ALTER_CONFIGS, version, resources=asked, validate_only=False)
    assert [int(each.error_code) for each in answer.responses] == [0, 3, 42, 42]
    own = {
        name: each.value
        for name, each in (await entries(client, TOPIC, "t")).items()
        if each.config_source == 1
    }
    assert own == {"segment.ms": "9"}


async def test_describe_configs_has_kafkas_checks(client: WireClient) -> None:
    await create(client)
    for kind, name, code, says in (
        (TOPIC, "a/b", 17, True),
        (TOPIC, "u", 3, False),
        (BROKER, "2", 42, True),
        (BROKER, "x", 42, True),
        (GROUP, "", 42, True),
        (LOGGERS, "2", 42, True),
        (METRICS, "m", 42, True),
    ):
        result = await describe(client, kind, name)
        assert (int(result.error_code), result.error_message is not None) == (code, says), (kind, name)
        assert result.configs == ()
    answer: Any = await client.call(
        ApiKey.DESCRIBE_CONFIGS,
        resources=[
            {"resource_type": kind, "resource_name": "t", "configuration_keys": None} for kind in (TOPIC, 3)
        ],
    )
    assert [int(each.error_code) for each in answer.results] == [42, 42], "an unknown type is everybody's"
    everything = await entries(client, TOPIC, "t", keys=())
    assert len(everything) > 30, "no keys: all"
    assert list(await entries(client, TOPIC, "t", keys=("retention.ms", "no.such"))) == ["retention.ms"]
    told = await entries(client, TOPIC, "t", include_synonyms=False, include_documentation=True)
    assert told["retention.ms"].synonyms == () and told["retention.ms"].documentation
    assert (told["retention.ms"].config_type, told["cleanup.policy"].config_type) == (5, 7)
    assert everything["retention.ms"].documentation is None
    group = await entries(client, GROUP, "nobody")
    assert (group[SESSION].value, group[SESSION].config_source) == ("45000", 5)


@pytest.mark.slow
async def test_resources_with_configs_are_listed(make_nodes: MakeNodes) -> None:
    nodes = await make_nodes(2)
    async with nodes.client(1) as client:
        for name in ("t", "u"):
            await create(client, name)
        assert await alter(client, resource(GROUP, "g", (SESSION, SET, "50000"))) == [0]

        async def listed(*types: int) -> list[tuple[int, str]]:
            answer: Any = await client.call(ApiKey.LIST_CONFIG_RESOURCES, resource_types=types)
            assert answer.error_code is ErrorCode.none
            return [(each.resource_type, each.resource_name) for each in answer.config_resources]

        assert sorted(await listed()) == [
            (TOPIC, "t"), (TOPIC, "u"), (BROKER, "1"), (BROKER, "2"), (LOGGERS, "1"), (LOGGERS, "2"),
            (GROUP, "g"),
        ]  # fmt: skip
        assert await listed(GROUP) == [(GROUP, "g")]
        assert await listed(METRICS) == []
        assert sorted(await listed(BROKER, TOPIC)) == [
            (TOPIC, "t"),
            (TOPIC, "u"),
            (BROKER, "1"),
            (BROKER, "2"),
        ]
        refused: Any = await client.call(ApiKey.LIST_CONFIG_RESOURCES, resource_types=[TOPIC, 3])
        assert (refused.error_code, refused.config_resources) == (ErrorCode.unsupported_version, ())
        old = await ask(client, ApiKey.LIST_CONFIG_RESOURCES, 0)
        assert (old.error_code, old.config_resources) == (ErrorCode.none, ()), "client metrics alone"


async def test_a_brokers_loggers_are_shown_and_set(client: WireClient) -> None:
    name = "quorate.broker.lifecycle"
    try:
        shown = await entries(client, LOGGERS, "1")
        assert {"quorate", name} <= set(shown)
        assert (shown[name].config_source, shown[name].config_type, shown[name].read_only) == (
            6,
            2,
            False,
        )
        assert await alter(client, resource(LOGGERS, "1", (name, SET, "DEBUG"))) == [0]
        assert (await entries(client, LOGGERS, "1"))[name].value == log_levels()[name] == "DEBUG"
        assert await alter(client, resource(LOGGERS, "1", (name, SET, "LOUD"))) == [40]
        assert await alter(client, resource(LOGGERS, "1", (name, DELETE, ""))) == [0]
        assert (await entries(client, LOGGERS, "1"))[name].value == shown["quorate"].value
    finally:
        set_log_level(name, None)


async def test_connection_limits_change_while_brokers_run(nodes: Nodes) -> None:
    """Per broker before all brokers; a broker that starts has what was set before."""

    async def refused() -> bool:
        try:
            async with nodes.client(1):
                return False
        except NetworkError:
            return True

    for round_number in range(2):
        async with nodes.client(1) as client:
            if not round_number:
                assert not await refused()
                limits = resource(
                    BROKER, "", ("max.connections", SET, "50"), ("max.connections.per.ip", SET, "1")
                )
                assert await alter(client, limits) == [0]
            assert await refused()
            assert await alter(client, resource(BROKER, "1", ("max.connections.per.ip", SET, "2"))) == [0]
            assert not await refused()
            assert await alter(client, resource(BROKER, "1", ("max.connections.per.ip", DELETE, ""))) == [0]
            assert await refused()
        if not round_number:
            await nodes.stop(1)
            await nodes.start(1)
            with trio.fail_after(20):
                await nodes.servers[1].wait_ready()


async def test_a_key_without_effect_is_set_and_described_as_any_other(client: WireClient) -> None:
    """Kafka's tools and operators tune threads; each broker says in its documentation that it has none."""
    for key in ("num.network.threads", "num.io.threads", "log.cleaner.io.buffer.size"):
        assert await alter(client, resource(BROKER, "", (key, SET, "2"))) == [0]
        (shown,) = (await entries(client, BROKER, "1", keys=(key,))).values()
        assert (shown.value, shown.config_source, shown.read_only) == ("2", 3, False), key
        assert list(await entries(client, BROKER, "", keys=(key,))) == [key]
        assert await alter(client, resource(BROKER, "1", (key, SET, "3"))) == [0]
        (shown,) = (await entries(client, BROKER, "1", keys=(key,))).values()
        assert (shown.value, shown.config_source) == ("3", 2)
        assert await alter(client, resource(BROKER, "1", (key, SET, "-5"))) == [42], "the value is checked"


async def test_an_address_may_have_another_number_of_connections(nodes: Nodes, client: WireClient) -> None:
    overrides = "max.connections.per.ip.overrides"
    assert await alter(client, resource(BROKER, "", (overrides, SET, "10.0.0.1:7, 127.0.0.1:1"))) == [0]
    with pytest.raises(NetworkError):
        async with nodes.client(1):
            pass
    for wrong in ("localhost:5", "127.0.0.1", "127.0.0.1:-1", "10.0.0.1:1,10.0.0.1:2"):
        assert await alter(client, resource(BROKER, "", (overrides, SET, wrong))) == [42], wrong
    assert await alter(client, resource(BROKER, "", (overrides, DELETE, ""))) == [0]
    async with nodes.client(1):
        pass


async def test_the_expiration_of_producers_reaches_the_partitions(nodes: Nodes, client: WireClient) -> None:
    upkeep = nodes.servers[1].broker._manager._parts.storage.upkeep
    assert await alter(client, resource(BROKER, "", ("producer.id.expiration.ms", SET, "1234"))) == [0]
    assert upkeep.producer_id_expiration_ms == 1234
    assert await alter(client, resource(BROKER, "1", ("producer.id.expiration.ms", SET, "99"))) == [0]
    assert upkeep.producer_id_expiration_ms == 99
    assert await alter(client, resource(BROKER, "1", ("producer.id.expiration.ms", SET, "x"))) == [42]
    assert await alter(client, resource(BROKER, "1", ("producer.id.expiration.ms", DELETE, ""))) == [0]
    assert upkeep.producer_id_expiration_ms == 1234
