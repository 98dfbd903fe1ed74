"""The broker's checks of AlterConfigs and IncrementalAlterConfigs, which come before the controller's."""

from typing import Any, cast

import pytest

from quorate.broker.apis.alter_configs import MAX_CHANGES, AlteredConfig, Change, checked
from quorate.broker.controller.rpc import AlterConfigsItem, ConfigOperation
from quorate.broker.settings.all_keys import CONFIG_KEYS
from quorate.broker.settings.config_key import Effect, UpdateMode
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs.entities import build, request_type
from quorate.broker.wire.wire_errors import KafkaError
from quorate.runtime.event_log import get_logger, log_levels, set_log_level
from quorate.runtime.slices import at_once

get_logger("quorate.tests.levels").info("so that it is there")
LOGGER = "quorate.tests.levels"
TOPIC, BROKER, LOGGERS, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
Entry = tuple[str, int, str | None]
Named = tuple[int, str, list[Entry]]


def run(
    *resources: Named, validate_only: bool = False, replace_all: bool = False
) -> tuple[list[AlteredConfig], list[AlterConfigsItem]]:
    request = cast(
        Any,
        build(
            request_type(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1),
            resources=[
                {
                    "resource_type": kind,
                    "resource_name": name,
                    "configs": [
                        {"name": key, "config_operation": operation, "value": value}
                        for key, operation, value in entries
                    ],
                }
                for kind, name, entries in resources
            ],
        ),
    )
    results, forwarded = at_once(
        checked(
            1,
            request.resources,
            lambda each: [Change(entry.name, entry.config_operation, entry.value) for entry in each.configs],
            lambda kind, name: None,
            validate_only=validate_only,
            replace_all=replace_all,
        )
    )
    return results, [item for _, item in forwarded]


RETENTION: Entry = ("log.retention.ms", SET, "1")
RULES: list[tuple[str, Named, int]] = [
    ("a key twice", (TOPIC, "t", [("a", SET, "1"), ("a", DELETE, None)]), 42),
    ("a value of null", (TOPIC, "t", [("retention.ms", SET, None)]), 42),
    ("null to append", (TOPIC, "t", [("cleanup.policy", APPEND, None)]), 42),
    ("a deletion has no value", (TOPIC, "t", [("retention.ms", DELETE, None)]), 0),
    ("a deletion of Kafka's tools", (TOPIC, "t", [("retention.ms", DELETE, "")]), 0),
    ("another broker", (BROKER, "2", [RETENTION]), 42),
    ("no broker", (BROKER, "x", [RETENTION]), 42),
    ("this broker", (BROKER, "1", [RETENTION]), 0),
    ("all brokers", (BROKER, "", [RETENTION]), 0),
    ("an unknown operation", (BROKER, "1", [("log.retention.ms", 9, "1")]), 42),
    ("an unknown operation on a topic", (TOPIC, "t", [("retention.ms", 9, "1")]), 42),
    ("append to what is no list", (BROKER, "1", [("log.retention.ms", APPEND, "1")]), 40),
    ("subtract from what is unknown", (BROKER, "1", [("no.such", SUBTRACT, "1")]), 40),
    ("append to a list", (BROKER, "", [("log.cleanup.policy", APPEND, "compact")]), 0),
    ("append to a list that is not dynamic", (BROKER, "", [("log.dirs", APPEND, "/x")]), 42),
    ("an unknown key", (BROKER, "1", [("no.such", SET, "1")]), 42),
    ("a bad value", (BROKER, "1", [("log.retention.ms", SET, "x")]), 42),
    ("the other broker comes before the value", (BROKER, "2", [("log.retention.ms", APPEND, "x")]), 42),
    ("what is not dynamic may be deleted", (BROKER, "1", [("replica.fetch.max.bytes", DELETE, "")]), 0),
    ("client metrics", (METRICS, "m", [("interval.ms", SET, "1")]), 42),
    ("an unknown type", (3, "t", [("a", SET, "1")]), 42),
    ("a group", (GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")]), 0),
    ("too long a value", (TOPIC, "t", [("retention.ms", SET, "1" * 32_768)]), 40),
    ("too long a topic's name", (TOPIC, "t" * 5000, [("retention.ms", SET, "1")]), 17),
    ("too long a group's name", (GROUP, "g" * 5000, [("consumer.session.timeout.ms", SET, "50000")]), 42),
    ("more keys than anything has", (TOPIC, "t", [(f"k{number}", DELETE, "") for number in range(1001)]), 44),
    ("another broker's loggers", (LOGGERS, "2", [(LOGGER, SET, "INFO")]), 42),
    ("all brokers' loggers", (LOGGERS, "", [(LOGGER, SET, "INFO")]), 42),
    ("an unknown logger", (LOGGERS, "1", [("kafka.log", SET, "INFO")]), 40),
    ("an unknown level", (LOGGERS, "1", [(LOGGER, SET, "LOUD")]), 40),
    ("a level is no list", (LOGGERS, "1", [(LOGGER, APPEND, "INFO")]), 42),
    ("an unknown operation on a logger", (LOGGERS, "1", [(LOGGER, 7, "INFO")]), 42),
    ("the root keeps a level", (LOGGERS, "1", [("quorate", DELETE, "")]), 42),
]  # fmt: skip


@pytest.mark.parametrize(("resource", "code"), [rule[1:] for rule in RULES], ids=[rule[0] for rule in RULES])
def test_a_resource_is_checked_by_kafkas_rules(resource: Named, code: int) -> None:
    (result,), forwarded = run(resource)
    assert (int(result.error), bool(result.message)) == (code, code != 0)
    assert len(forwarded) == (0 if code else 1)


def test_a_resource_that_is_there_twice_is_refused_each_time_and_no_other() -> None:
    results, forwarded = run(
        (TOPIC, "t", [("retention.ms", SET, "1")]),
        (TOPIC, "u", [("retention.ms", SET, "1")]),
        (TOPIC, "t", [("retention.ms", SET, "2")]),
    )
    assert [int(each.error) for each in results] == [42, 0, 42]
    assert [each.resource_name for each in forwarded] == ["u"]


NOT_DYNAMIC = [
    key.name
    for key in CONFIG_KEYS.values()
    if key.update is UpdateMode.READ_ONLY and not (key.effect is Effect.EFFECTIVE and key.default is None)
]


@pytest.mark.parametrize("name", NOT_DYNAMIC)
def test_a_key_that_is_not_dynamic_is_refused_with_a_sentence(name: str) -> None:
    (result,), forwarded = run((BROKER, "1", [(name, SET, CONFIG_KEYS[name].initial)]))
    assert (int(result.error), forwarded) == (42, [])
    assert result.message is not None
    assert result.message.startswith(f"Cannot update {name} dynamically: ")
    assert result.message.endswith("."), "a whole sentence"


def test_more_keys_than_one_operation_may_change_are_refused_as_a_whole() -> None:
    entries: list[Entry] = [(f"k{number}", DELETE, "") for number in range(900)]
    with pytest.raises(KafkaError, match=str(MAX_CHANGES)):
        run(*((TOPIC, f"t{number}", entries) for number in range(12)))
    results, _ = run(*((TOPIC, f"t{number}", entries) for number in range(11)))
    assert {int(each.error) for each in results} == {0}
    with pytest.raises(KafkaError, match=str(MAX_CHANGES)):
        run(*((TOPIC, f"t{number}", []) for number in range(MAX_CHANGES + 1)))


def test_a_deletion_is_forwarded_without_a_value() -> None:
    _, (item,) = run((TOPIC, "t", [("retention.ms", DELETE, ""), ("segment.ms", SET, "1")]))
    assert [(each.operation, each.value) for each in item.alterations] == [
        (ConfigOperation.DELETE, None),
        (ConfigOperation.SET, "1"),
    ]


def test_levels_are_set_and_unset_all_or_none() -> None:
    assert log_levels()["quorate"] == log_levels()[LOGGER]
    try:
        (result,), forwarded = run((LOGGERS, "1", [(LOGGER, SET, "FATAL")]))
        assert (int(result.error), forwarded) == (0, []), "no other broker hears of it"
        assert log_levels()[LOGGER] == "FATAL"
        run((LOGGERS, "1", [(LOGGER, SET, "DEBUG")]), validate_only=True)
        run((LOGGERS, "1", [(LOGGER, SET, "DEBUG"), ("no.such", SET, "DEBUG")]))
        assert log_levels()[LOGGER] == "FATAL"
        for level in ("TRACE", "DEBUG", "INFO", "WARN", "ERROR"):
            run((LOGGERS, "1", [(LOGGER, SET, level)]))
            assert log_levels()[LOGGER] == level
        run((LOGGERS, "1", [(LOGGER, DELETE, "")]))
        assert log_levels()["quorate"] == log_levels()[LOGGER]
    finally:
        set_log_level(LOGGER, None)


def test_alter_configs_has_no_loggers() -> None:
    (result,), forwarded = run((LOGGERS, "1", [(LOGGER, SET, "INFO")]), replace_all=True)
    assert (int(result.error), forwarded) == (42, [])
