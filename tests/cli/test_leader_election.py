"""`quorate leader-election` against a cluster of one."""

import json
from pathlib import Path

import pytest

from quorate.cli.console.cli_errors import ExitCode
from tests.cli.command import Quorate

PREFERRED = ("leader-election", "--election-type", "preferred")


def test_each_partition_of_a_file_is_answered_and_one_that_is_not_there_fails_the_command(
    ask: Quorate, tmp_path: Path
) -> None:
    ask.output("topics", "create", "-t", "elected", "--partitions", "2")
    file = tmp_path / "partitions.json"
    file.write_text(
        json.dumps({"partitions": [{"topic": "elected", "partition": each} for each in (0, 1, 2)]})
    )
    told = ask(*PREFERRED, "--path-to-json-file", file, "--json")
    assert told.exit_code == ExitCode.FAILED
    assert [(each["partition"], each["error"]) for each in json.loads(told.stdout)] == [
        (0, "ELECTION_NOT_NEEDED"),
        (1, "ELECTION_NOT_NEEDED"),
        (2, "UNKNOWN_TOPIC_OR_PARTITION"),
    ]
    unclean = ("leader-election", "--election-type", "unclean", "--topic", "elected", "--partition", "0")
    assert ask.output(*unclean) == "elected-0 ELECTION_NOT_NEEDED: Broker 1 leads elected-0 already.\n"
    assert ask.output(*PREFERRED, "--all-topic-partitions") == "no partition needs an election\n"


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
    told = quorate.at("127.0.0.1:1").error(*PREFERRED, *words, code=ExitCode.USAGE)
    assert "say which partitions" in told


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
    nobody = quorate.at("127.0.0.1:1")
    assert why in nobody.error(*PREFERRED, "--path-to-json-file", file, code=ExitCode.USAGE)
