"""Kafka's JSON files of kafka-reassign-partitions."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from quorate.broker.admin.admin_client import TopicPartition
from quorate.broker.admin.log_dirs import PlacedReplica
from quorate.cli.console.cli_errors import wrong_usage

Assignments = Mapping[TopicPartition, tuple[int, ...]]
"""The replicas of partitions, the preferred leader first."""
Directories = Mapping[PlacedReplica, str]
"""The directory of the replica of a topic's partition on a broker, where a file names one."""

_ANY: Final = "any"


def load_directories(path: Path) -> Directories:
    """Read the `log_dirs` of a file that `load_assignments` takes: a directory for each replica, or `any`."""
    return {
        PlacedReplica(str(entry["topic"]), cast(int, entry["partition"]), broker): directory
        for entry in _list(path, "partitions")
        for broker, directory in zip(
            cast(list[int], entry["replicas"]), cast(list[str], entry.get("log_dirs") or ()), strict=False
        )
        if directory != _ANY
    }


def load_assignments(path: Path) -> Assignments:
    """Read `{"version": 1, "partitions": [{"topic", "partition", "replicas", "log_dirs"}]}`. Exits with what
    is wrong and where."""
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for number, entry in enumerate(_list(path, "partitions")):
        where = f"{path}: partitions[{number}]"
        topic, partition, replicas = (entry.get(name) for name in ("topic", "partition", "replicas"))
        if not isinstance(topic, str) or not _is_number(partition):
            raise wrong_usage(f"{where} needs a topic (text) and a partition (number)")
        if not isinstance(replicas, list) or not replicas or not all(map(_is_number, replicas)):
            raise wrong_usage(f"{where}: replicas must be a list of broker ids, such as [1, 2, 3]")
        if len(set(replicas)) != len(replicas):
            raise wrong_usage(f"{where}: replicas {replicas} names a broker twice")
        directories = entry.get("log_dirs")
        if directories and not _are_directories(directories, len(replicas)):
            raise wrong_usage(
                f"{where}: log_dirs must have a directory for each of the replicas: an absolute path, or "
                '"any"'
            )
        key = TopicPartition(topic, cast(int, partition))
        if key in found:
            raise wrong_usage(f"{where}: partition {partition} of topic {topic} is there twice")
        found[key] = tuple(replicas)
    if not found:
        raise wrong_usage(f"{path} has no partitions")
    return found


def load_topics(path: Path) -> list[str]:
    """Read `{"version": 1, "topics": [{"topic": "foo"}]}`. Exits with what is wrong and where."""
    topics: list[str] = []
    for number, entry in enumerate(_list(path, "topics")):
        topic = entry.get("topic")
        if not isinstance(topic, str):
            raise wrong_usage(f"{path}: topics[{number}] needs a topic (text)")
        topics.append(topic)
    if not topics:
        raise wrong_usage(f"{path} has no topics")
    return topics


def dump_assignments(assignments: Assignments) -> str:
    """Return the JSON of a file for `execute`, on one line as Kafka's tool prints it."""
    return json.dumps(
        {
            "version": 1,
            "partitions": [
                {
                    "topic": key.topic,
                    "partition": key.partition,
                    "replicas": list(replicas),
                    "log_dirs": ["any"] * len(replicas),
                }
                for key, replicas in sorted(assignments.items())
            ],
        }
    )


def _list(path: Path, name: str) -> list[dict[str, object]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise wrong_usage(f"{path} can't be read: {error}") from None
    except (ValueError, RecursionError) as error:
        raise wrong_usage(f"{path} is not JSON: {error}") from None
    entries = content.get(name) if isinstance(content, dict) else None
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise wrong_usage(f'{path} must be an object with a list "{name}", as `generate` prints it')
    if content.get("version", 1) != 1:
        raise wrong_usage(f"{path}: version {content['version']!r} is not 1")
    return entries


def _are_directories(value: object, count: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) == count
        and all(isinstance(each, str) and (each == _ANY or each.startswith("/")) for each in value)
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31
