"""Kafka's JSON files of moves."""

from pathlib import Path

import pytest

from quorate.broker.admin.admin_client import TopicPartition
from quorate.cli.console.cli_errors import CommandExit, ExitCode
from quorate.cli.reassigning.assignment_files import (
    dump_assignments,
    load_assignments,
    load_directories,
    load_topics,
)


def test_a_printed_assignment_can_be_read_again(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    plan = {TopicPartition("b", 1): (2, 1), TopicPartition("a", 0): (3,)}
    text = dump_assignments(plan)
    assert text == (
        '{"version": 1, "partitions": [{"topic": "a", "partition": 0, "replicas": [3], "log_dirs": ["any"]}, '
        '{"topic": "b", "partition": 1, "replicas": [2, 1], "log_dirs": ["any", "any"]}]}'
    )
    file.write_text(text)
    assert load_assignments(file) == plan


def test_the_directories_of_replicas_are_read(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(entry(replicas=[1, 2, 3], log_dirs=["/a", "any", "/b"]))
    assert load_assignments(file) == {TopicPartition("t", 0): (1, 2, 3)}
    assert load_directories(file) == {("t", 0, 1): "/a", ("t", 0, 3): "/b"}
    file.write_text(entry(replicas=[1]))
    assert load_directories(file) == {}


def test_topics_are_read(tmp_path: Path) -> None:
    file = tmp_path / "topics.json"
    file.write_text('{"topics": [{"topic": "foo1"}, {"topic": "foo2"}], "version": 1}')
    assert load_topics(file) == ["foo1", "foo2"]


def entry(**changes: object) -> str:
    import json

    return json.dumps({"partitions": [{"topic": "t", "partition": 0, "replicas": [1]} | changes]})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not JSON"),
        ("[]", 'must be an object with a list "partitions"'),
        ("{}", 'must be an object with a list "partitions"'),
        ('{"partitions": [7]}', 'must be an object with a list "partitions"'),
        ('{"partitions": []}', "has no partitions"),
        ('{"version": 2, "partitions": []}', "version 2 is not 1"),
        (entry(topic=7), "partitions[0] needs a topic (text) and a partition (number)"),
        (entry(partition="0"), "partitions[0] needs a topic (text) and a partition (number)"),
        (entry(partition=-1), "needs a topic"),
        (entry(partition=True), "needs a topic"),
        (entry(replicas=[]), "replicas must be a list of broker ids"),
        (entry(replicas=[1, "2"]), "replicas must be a list of broker ids"),
        (entry(replicas=[1, 2, 1]), "names a broker twice"),
        (entry(log_dirs=["data"]), "log_dirs must have a directory for each of the replicas"),
        (entry(log_dirs=["any", "any"]), "log_dirs must have a directory for each of the replicas"),
        (entry(log_dirs=7), "log_dirs must have a directory for each of the replicas"),
        (entry()[:-2] + "," + entry()[16:], "is there twice"),
    ],
)
def test_a_bad_file_is_refused_with_the_place_of_the_mistake(tmp_path: Path, text, says, capsys) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    with pytest.raises(CommandExit) as ended:
        load_assignments(file)
    assert ended.value.code == ExitCode.USAGE
    assert says in capsys.readouterr().err


def test_a_file_that_is_not_there_is_named(tmp_path: Path, capsys) -> None:
    with pytest.raises(CommandExit):
        load_topics(tmp_path / "none.json")
    assert "none.json can't be read" in capsys.readouterr().err
