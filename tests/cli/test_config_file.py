"""A server.properties that can't work is named with its line and its remedy."""

import pytest

from quorate.cli.console.cli_errors import ExitCode
from tests.cli.command import Node, Quorate


def problem_of(quorate: Quorate, node: Node) -> str:
    said = quorate.error("storage", "info", "-c", node.config, code=ExitCode.USAGE)
    assert str(node.config) in said
    return said


def test_an_unknown_key_is_named_with_its_line_and_what_was_probably_meant(
    quorate: Quorate, node: Node
) -> None:
    with node.config.open("a") as file:
        file.write("# mine\nlog.retention.hour=24\n")
    said = problem_of(quorate, node)
    assert "line 8" in said
    assert "log.retention.hour is not a known key; did you mean log.retention.hours?" in said


def test_a_missing_key_is_named_with_a_line_to_add(quorate: Quorate, node: Node) -> None:
    node.write(node_id=None)
    assert "node.id is missing; add a line such as node.id=1" in problem_of(quorate, node)


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
    quorate: Quorate, node: Node, key: str, value: str, said: str
) -> None:
    node.write(**{key: value})
    problem = problem_of(quorate, node)
    assert said in problem
    assert "line " in problem


def test_a_file_that_is_no_text_is_said_to_be_none(quorate: Quorate, node: Node) -> None:
    node.config.write_bytes(b"\x80\x02binary")
    assert "byte 0: it is not text" in problem_of(quorate, node)


def test_a_file_that_is_not_there_is_named(quorate: Quorate, node: Node) -> None:
    node.config.unlink()
    said = quorate.error("storage", "info", "-c", node.config, code=ExitCode.USAGE)
    assert "does not exist" in said
