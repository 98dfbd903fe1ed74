"""`quorate leader-election` against a cluster of one."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.local_cluster import LocalCluster

Quorate = Callable[..., Result]


def test_each_partition_of_a_file_is_answered_and_one_that_is_not_there_fails_the_command(
    quorate: Quorate, one_node: LocalCluster, tmp_path: Path
) -> None:
    reach = ("-b", one_node.bootstrap)
    assert quorate("topics", "create", "-t", "elected", "--partitions", "2", *reach).exit_code == 0
    file = tmp_path / "partitions.json"
    file.write_text(
        json.dumps({"partitions": [{"topic": "elected", "partition": each} for each in (0, 1, 2)]})
    )
    told = quorate(
        "leader-election", "--election-type", "preferred", "--path-to-json-file", str(file), *reach, "--json"
    )
    assert told.exit_code == ExitCode.FAILED
    assert [(each["partition"], each["error"]) for each in json.loads(told.stdout)] == [
        (0, "ELECTION_NOT_NEEDED"),
        (1, "ELECTION_NOT_NEEDED"),
        (2, "UNKNOWN_TOPIC_OR_PARTITION"),
    ]
    told = quorate(
        "leader-election", "--election-type", "unclean", "--topic", "elected", "--partition", "0", *reach
    )
    assert (told.exit_code, told.stdout) == (
        ExitCode.OK,
        "elected-0 ELECTION_NOT_NEEDED: Broker 1 leads elected-0 already.\n",
    )
    told = quorate("leader-election", "--election-type", "preferred", "--all-topic-partitions", *reach)
    assert (told.exit_code, told.stdout) == (ExitCode.OK, "no partition needs an election\n")


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--topic", "t"),
        ("--partition", "1"),
        ("--topic", "t", "--partition", "1", "--all-topic-partitions"),
    ],
)
def test_partitions_are_said_in_one_way_only(quorate: Quorate, words: tuple[str, ...]) -> None:
    told = quorate("leader-election", "--election-type", "preferred", *words, "-b", "127.0.0.1:1")
    assert told.exit_code == ExitCode.USAGE
    assert "say which partitions" in told.stderr


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "expected"),
        ("[]", "expected"),
        ('{"partitions": [{"topic": "t"}]}', "'partition'"),
        ('{"partitions": [{"topic": "t", "partition": "0"}]}', "is no partition"),
        (
            '{"partitions": [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 0}]}',
            "t-0 is there twice",
        ),
    ],
)
def test_a_file_that_says_no_partitions_is_refused_before_anybody_is_asked(
    quorate: Quorate, tmp_path: Path, content: str, why: str
) -> None:
    file = tmp_path / "partitions.json"
    file.write_text(content)
    told = quorate(
        "leader-election",
        "--election-type",
        "preferred",
        "--path-to-json-file",
        str(file),
        "-b",
        "127.0.0.1:1",
    )
    assert told.exit_code == ExitCode.USAGE
    assert why in told.stderr
