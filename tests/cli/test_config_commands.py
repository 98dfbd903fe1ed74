"""`quorate configs`, on a node that runs."""

from pathlib import Path

import pytest

from quorate.cli.commands.config_commands import _parse_added
from quorate.cli.console.cli_errors import ExitCode
from tests.cli.command import Quorate

ON_TOPIC = ("--entity-type", "topics", "--entity-name", "configured")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=1", {"a": "1"}),
        ("a=1,b=[x,y],c=z", {"a": "1", "b": "x,y", "c": "z"}),
        (" a = 1 , b = [x] ", {"a": "1", "b": "x"}),
        ("a=", {"a": ""}),
        ("a=[]", {"a": ""}),
        ("a=1,", {"a": "1"}),
        ("a=k=v", {"a": "k=v"}),
    ],
)
def test_configs_are_parsed_as_kafkas_tool_parses_them(text: str, found: dict[str, str]) -> None:
    assert _parse_added(text) == found


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--entity-type", "users"), "'users' is none of"),
        (("--entity-type", "topics"), "name what is altered"),
        (("--entity-type", "topics", "--entity-default"), "only brokers have defaults"),
        (("--entity-type", "brokers", "--entity-name", ""), "--entity-default"),
        (("--entity-type", "brokers", "--entity-name", "1", "--entity-default"), "exclude one another"),
        (ON_TOPIC, "nothing is altered"),
        ((*ON_TOPIC, "--add-config", "a"), "is not key=value"),
        ((*ON_TOPIC, "--add-config", "a=1,b"), "'b' is not key=value"),
        ((*ON_TOPIC, "--add-config", "a=[1"), "is not key=value"),
        ((*ON_TOPIC, "--add-config", "a=1,a=2"), "names a twice"),
        ((*ON_TOPIC, "--add-config", "a=1", "--delete-config", "a"), "both set and deleted"),
        ((*ON_TOPIC, "--add-config", "a=1", "--add-config-file", "x"), "exclude one another"),
        ((*ON_TOPIC, "--add-config-file", "/nowhere/at/all"), "can't be read"),
    ],
)
def test_a_command_that_contradicts_itself_is_refused(
    quorate: Quorate, arguments: tuple[str, ...], says: str
) -> None:
    assert says in quorate.error("configs", "alter", *arguments, code=ExitCode.USAGE)


@pytest.mark.slow
@pytest.mark.system
def test_a_topics_configs_are_altered_and_described(ask: Quorate, tmp_path: Path) -> None:
    ask.output("topics", "create", "-t", "configured")
    alter = ("configs", "alter", *ON_TOPIC)

    def own() -> dict[str, str]:
        (described,) = ask.json("configs", "describe", *ON_TOPIC)
        return {each["name"]: each["value"] for each in described["configs"]}

    added = (*alter, "--add-config", "retention.ms=7,cleanup.policy=[delete,compact]")
    assert ask.output(*added, "--validate-only") == "would alter topics configured\n"
    assert own() == {}
    assert ask.output(*added) == "altered topics configured\n"
    assert own() == {"retention.ms": "7", "cleanup.policy": "delete,compact"}
    file = tmp_path / "more.properties"
    file.write_text("# more\nsegment.ms = 8\n")
    ask.output(*alter, "--add-config-file", file, "--delete-config", "retention.ms,cleanup.policy")
    assert own() == {"segment.ms": "8"}
    refused = ask.error(*alter, "--add-config", "segment.bytes=100,retention.ms=soon")
    assert "topics configured: Invalid value soon for configuration retention.ms" in refused
    assert own() == {"segment.ms": "8"}, "all or none"
    (everything,) = ask.json("configs", "describe", *ON_TOPIC, "--all")
    assert len(everything["configs"]) > 30
    segment = next(each for each in everything["configs"] if each["name"] == "segment.ms")
    assert segment == {
        "name": "segment.ms", "value": "8", "source": "DYNAMIC_TOPIC_CONFIG", "readOnly": False,
        "sensitive": False,
        "synonyms": [
            {"name": "segment.ms", "value": "8", "source": "DYNAMIC_TOPIC_CONFIG"},
            {"name": "log.roll.ms", "value": "604800000", "source": "DEFAULT_CONFIG"},
        ],
    }  # fmt: skip
    table = ask("configs", "describe", "--entity-type", "topics").output
    assert "configured" in table and "DYNAMIC_TOPIC_CONFIG" in table and "log.roll.ms=604800000" in table
    ask("topics", "delete", "-t", "configured")
    gone = ask.error("configs", "describe", *ON_TOPIC)
    assert "topics configured: UNKNOWN_TOPIC_OR_PARTITION" in gone


@pytest.mark.slow
@pytest.mark.system
def test_brokers_their_defaults_their_loggers_and_groups_have_configs(ask: Quorate) -> None:
    def alter(kind: str, *arguments: str) -> None:
        ask.output("configs", "alter", "--entity-type", kind, *arguments)

    def names(kind: str) -> list[tuple[str | None, list[str]]]:
        described = ask.json("configs", "describe", "--entity-type", kind)
        return [(each["entityName"], [config["name"] for config in each["configs"]]) for each in described]

    assert names("brokers") == [("1", []), (None, [])]
    alter("brokers", "--entity-default", "--add-config", "log.retention.ms=5000000")
    alter("brokers", "--entity-name", "1", "--add-config", "message.max.bytes=2000000")
    assert names("brokers") == [("1", ["message.max.bytes"]), (None, ["log.retention.ms"])]
    (broker,) = ask.json("configs", "describe", "--entity-type", "brokers", "--entity-name", "1", "--all")
    retention = next(each for each in broker["configs"] if each["name"] == "log.retention.ms")
    assert (retention["value"], retention["source"]) == ("5000000", "DYNAMIC_DEFAULT_BROKER_CONFIG")
    alter("brokers", "--entity-default", "--delete-config", "log.retention.ms")
    alter("brokers", "--entity-name", "1", "--delete-config", "message.max.bytes")
    assert names("brokers") == [("1", []), (None, [])]
    assert names("groups") == []
    alter("groups", "--entity-name", "g", "--add-config", "consumer.session.timeout.ms=50000")
    assert names("groups") == [("g", ["consumer.session.timeout.ms"])]
    alter("groups", "--entity-name", "g", "--delete-config", "consumer.session.timeout.ms")
    logger = "quorate.broker.lifecycle"
    alter("broker-loggers", "--entity-name", "1", "--add-config", f"{logger}=DEBUG")
    (loggers,) = ask.json("configs", "describe", "--entity-type", "broker-loggers")
    assert {each["name"]: each["value"] for each in loggers["configs"]}[logger] == "DEBUG"
    alter("broker-loggers", "--entity-name", "1", "--delete-config", logger)


@pytest.mark.system
@pytest.mark.parametrize(
    ("broker", "added", "says"),
    [
        ("1", "num.partitions=4", "set it in server.properties, and restart the broker"),
        ("9", "log.retention.ms=4", "brokers 9: no broker that runs has the id 9"),
    ],
)
def test_a_config_that_a_broker_cannot_change_while_it_runs_is_refused_with_the_remedy(
    ask: Quorate, broker: str, added: str, says: str
) -> None:
    entity = ("--entity-type", "brokers", "--entity-name", broker)
    assert says in ask.error("configs", "alter", *entity, "--add-config", added)
