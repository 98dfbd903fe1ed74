"""A server.properties that can't work is named with its line and its remedy."""

from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import Result

from quorate.cli.console.cli_errors import ExitCode

Quorate = Callable[..., Result]


def info(quorate: Quorate, node: Any) -> Result:
    result = quorate("storage", "info", "-c", node.config)
    assert result.exit_code == ExitCode.USAGE
    assert "Traceback" not in result.stderr
    assert str(node.config) in result.stderr
    return result


def test_an_unknown_key_is_named_with_its_line_and_what_was_probably_meant(
    quorate: Quorate, node: Any
) -> None:
    with node.config.open("a") as file:
        file.write("# mine\nlog.retention.hour=24\n")
    result = info(quorate, node)
    assert "line 8" in result.stderr
    assert "log.retention.hour is not a known key; did you mean log.retention.hours?" in result.stderr


def test_a_missing_key_is_named_with_a_line_to_add(quorate: Quorate, node: Any) -> None:
    node.write(node_id=None)
    assert "node.id is missing; add a line such as node.id=1" in info(quorate, node).stderr


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("num_partitions", "many", "num.partitions is 'many'; it must be a whole number"),
        ("node_id", "-4", "node.id is '-4'; it must be between 0"),
        ("process_roles", "leader", "it must be broker, controller or broker,controller"),
        ("listeners", "localhost:9092", "'localhost:9092' is not NAME://host:port"),
        ("controller_quorum_voters", "1@localhost", "write id@host:port"),
        ("controller_quorum_voters", "2@localhost:9", "node 1 is a controller but not in it; add it"),
    ],
)
def test_a_bad_value_is_named_with_what_is_allowed(
    quorate: Quorate, node: Any, key: str, value: str, said: str
) -> None:
    node.write(**{key: value})
    result = info(quorate, node)
    assert said in result.stderr
    assert "line " in result.stderr


def test_a_file_that_is_no_text_is_said_to_be_none(quorate: Quorate, node: Any) -> None:
    node.config.write_bytes(b"\x80\x02binary")
    assert "byte 0: it is not text" in info(quorate, node).stderr


def test_a_file_that_is_not_there_is_named(quorate: Quorate, node: Any) -> None:
    node.config.unlink()
    result = quorate("storage", "info", "-c", node.config)
    assert result.exit_code == ExitCode.USAGE
    assert "does not exist" in result.stderr
