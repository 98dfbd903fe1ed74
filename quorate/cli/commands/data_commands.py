"""`quorate log-dirs` and `quorate delete-records`: the data on brokers."""

import json
import os.path
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.cli.commands.options import BootstrapOption, JsonOption, ReplicasOption
from quorate.cli.console.cli_errors import fail_each, wrong_usage
from quorate.cli.console.connections import DEFAULT_BOOTSTRAP, ask
from quorate.cli.console.output import print_json, print_rows

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode

    from quorate.broker.admin.admin_client import AdminClient, TopicPartition
    from quorate.broker.admin.log_dirs import BrokerDirectories, PlacedReplica
    from quorate.broker.wire.own_messages import DescribeDamageResponse

app = typer.Typer(
    no_args_is_help=True,
    help="The log directories of brokers, and what is in them.",
    epilog="Example: quorate log-dirs describe -b localhost:9092",
)

_POLL_SECONDS = 0.5
_HINTS = {
    "OFFSET_OUT_OF_RANGE": "the offset is above the high watermark, or negative and not -1",
    "POLICY_VIOLATION": "its topic is only compacted; set cleanup.policy=compact,delete",
    "UNKNOWN_TOPIC_OR_PARTITION": "there is no such partition",
    "INVALID_TOPIC_EXCEPTION": "records of an internal topic can't be deleted",
    "REQUEST_TIMED_OUT": "a follower has not deleted them yet; repeat the command",
    "LEADER_NOT_AVAILABLE": "the partition has no leader that answers; repeat the command",
    "NOT_LEADER_OR_FOLLOWER": "the partition's leader keeps changing; repeat the command",
    "KAFKA_STORAGE_ERROR": "the leader's disk has failed",
}


@app.command(epilog="Example: quorate log-dirs describe --broker 1 --topic orders --json")
def describe(
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    broker: Annotated[
        list[int] | None, typer.Option(help="The id of a broker. Repeatable. Default: all live brokers.")
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", help="Show only the replicas of this topic. Repeatable."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show each directory of log.dirs with its space, and the size and lag of the replicas in it.

    A replica that is being moved is there twice, and its future one says how many records it has yet to copy.
    """
    from quorate.broker.admin.log_dirs import describe_log_dirs

    found = ask(bootstrap, lambda admin: describe_log_dirs(admin, brokers=broker or (), topics=topic or ()))
    if as_json:
        print_json(_log_dirs_as_dict(found))
    else:
        _print_log_dirs(found)


@app.command(epilog="Example: quorate log-dirs move --replica orders:0:1 --to /disks/2 --watch")
def move(
    replica: ReplicasOption,
    to: Annotated[
        str,
        typer.Option(
            metavar="DIRECTORY", help="A directory of the log.dirs of their brokers, as describe shows it."
        ),
    ],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    watch: Annotated[bool, typer.Option(help="Return when the replicas are there.")] = False,
) -> None:
    """Move replicas to another directory of their brokers. They serve meanwhile, and return to where they are
    when that is the directory."""
    import trio

    from quorate.broker.admin.log_dirs import is_under_way, move_replicas, states_of_moves

    to = os.path.abspath(to)
    wanted = dict.fromkeys(map(_parse_replica, replica), to)

    async def act(admin: "AdminClient") -> "dict[PlacedReplica, str]":
        refused = await move_replicas(admin, wanted)
        begun = {key: path for key, path in wanted.items() if key not in refused}
        for key in begun:
            typer.echo(f"{key} moves to {to}")
        while watch and begun:
            for key, left in (await states_of_moves(admin, begun)).items():
                typer.echo(f"{key}: {left or 'it is there'}")
                if not left:
                    del begun[key]
                elif not is_under_way(left):
                    refused[key] = left
                    del begun[key]
            await trio.sleep(_POLL_SECONDS if begun else 0)
        return refused

    fail_each(f"{key}: {reason}" for key, reason in sorted(ask(bootstrap, act).items()))


@app.command(epilog="Example: quorate log-dirs damaged --json")
def damaged(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, as_json: JsonOption = False) -> None:
    """Show what of the replicas of live brokers is damaged, and the damaged logs that were set aside."""
    from quorate.broker.admin.log_dirs import describe_damage

    found = _damage_as_dict(ask(bootstrap, describe_damage))
    if as_json:
        print_json(found)
        return
    for each in found["damaged"]:
        name = f"{each['topic']}:{each['partition']}:{each['broker']}"
        place = ""
        if each["segment"] is not None:
            place = f"{each['segment']}, byte {each['position']}, "
            place += f"offsets [{each['startOffset']}, {each['endOffset']}): "
        typer.echo(f"{name} is damaged: {place}{each['problem']}")
    for each in found["setAside"]:
        typer.echo(f"broker {each['broker']} has set aside {each['path']}")


@app.command(epilog="Example: quorate log-dirs refetch --replica orders:0:1")
def refetch(
    replica: ReplicasOption,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Set damaged replicas aside, and fetch them anew from the leader.

    If the replica leads, another member of the ISR leads first. The command is refused if the ISR would have
    fewer than min.insync.replicas members without the replica. The old log stays in the directory, as
    TOPIC-PARTITION.ID-damaged, until you remove it.
    """
    from quorate.broker.admin.log_dirs import refetch_replica
    from quorate.broker.wire.wire_errors import KafkaError

    wanted = list(dict.fromkeys(map(_parse_replica, replica)))

    async def act(admin: "AdminClient") -> "dict[PlacedReplica, str]":
        refused: dict[PlacedReplica, str] = {}
        for key in wanted:
            try:
                path = await refetch_replica(admin, key)
            except KafkaError as error:
                refused[key] = str(error)
            else:
                typer.echo(f"{key} is fetched anew; the damaged log is {path}")
        return refused

    fail_each(f"{key}: {reason}" for key, reason in ask(bootstrap, act).items())


def _parse_replica(text: str) -> "PlacedReplica":
    from quorate.broker.admin.log_dirs import PlacedReplica

    topic, _, rest = text.partition(":")
    partition, _, broker = rest.partition(":")
    try:
        if topic:
            return PlacedReplica(topic, int(partition), int(broker))
    except ValueError:
        pass
    raise wrong_usage(f"--replica: {text!r} is not TOPIC:PARTITION:BROKER, such as orders:0:1")


def _print_log_dirs(found: "list[BrokerDirectories]") -> None:
    directories = [(each.broker_id, directory) for each in found for directory in each.directories]
    rows: list[list[object]] = []
    for broker_id, directory in directories:
        sizes = [part.partition_size for topic in directory.topics for part in topic.partitions]
        error = _error_name(directory.error_code)
        row: list[object] = [broker_id, directory.log_dir, error or "online", len(sizes), sum(sizes)]
        rows.append([*row, "", ""] if error else [*row, directory.usable_bytes, directory.total_bytes])
    print_rows(("broker", "directory", "state", "replicas", "bytes", "usable bytes", "total bytes"), rows)
    replicas = [
        (
            broker_id,
            directory.log_dir,
            topic.name,
            part.partition_index,
            part.partition_size,
            part.offset_lag,
            "yes" if part.is_future_key else "",
        )
        for broker_id, directory in directories
        for topic in directory.topics
        for part in topic.partitions
    ]
    if replicas:
        print_rows(("broker", "directory", "topic", "partition", "bytes", "lag", "future"), replicas)


def _log_dirs_as_dict(found: "list[BrokerDirectories]") -> dict[str, object]:
    """Return directories for programs, in the form of Kafka's own tool and with the space of each."""
    return {
        "version": 1,
        "brokers": [
            {
                "broker": each.broker_id,
                "logDirs": [
                    {
                        "logDir": directory.log_dir,
                        "error": _error_name(directory.error_code),
                        "totalBytes": directory.total_bytes,
                        "usableBytes": directory.usable_bytes,
                        "partitions": [
                            {
                                "partition": f"{topic.name}-{part.partition_index}",
                                "size": part.partition_size,
                                "offsetLag": part.offset_lag,
                                "isFuture": part.is_future_key,
                            }
                            for topic in directory.topics
                            for part in topic.partitions
                        ],
                    }
                    for directory in each.directories
                ],
            }
            for each in found
        ],
    }


def _damage_as_dict(found: "dict[int, DescribeDamageResponse]") -> dict[str, list[dict[str, object]]]:
    return {
        "damaged": [
            {
                "broker": broker_id,
                "topic": str(one.topic_name),
                "partition": int(one.partition_index),
                "segment": one.segment,
                "position": None if one.segment is None else int(one.position),
                "startOffset": None if one.segment is None else int(one.start_offset),
                "endOffset": None if one.segment is None else int(one.end_offset),
                "problem": one.problem,
            }
            for broker_id, answer in found.items()
            for one in answer.damaged
        ],
        "setAside": [
            {"broker": broker_id, "path": one.path}
            for broker_id, answer in found.items()
            for one in answer.set_aside
        ],
    }


def _error_name(code: "ErrorCode") -> str | None:
    return code.name.upper() if code else None


def delete_records(
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC:PARTITION=OFFSET",
            help="Delete the records of a partition below this offset. -1: all that are committed. "
            "Repeatable.",
        ),
    ] = None,
    offset_json_file: Annotated[
        Path | None,
        typer.Option(
            help="The same for many, as kafka-delete-records takes it: "
            '{"partitions": [{"topic": "t", "partition": 0, "offset": 1}], "version": 1}.'
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Delete the records of partitions below an offset, for ever, and return when every live replica has.

    Consumers that are below go on where their auto.offset.reset says.
    """
    offsets: dict[TopicPartition, int] = {}
    for key, offset in [_parse_offset(each) for each in topic or ()] + _from_file(offset_json_file):
        if key in offsets:
            raise wrong_usage(f"{key[0]}:{key[1]} is given twice; give each partition one offset")
        offsets[key] = offset
    if not offsets:
        raise wrong_usage("nothing to delete; give --topic or --offset-json-file")
    from quorate.broker.admin.records import delete_records as delete

    results = ask(bootstrap, lambda admin: delete(admin, offsets))
    if as_json:
        print_json(
            [
                {
                    "topic": each.topic,
                    "partition": each.partition,
                    "lowWatermark": each.low_watermark,
                    "error": _error_name(each.error),
                }
                for each in results
            ]
        )
    else:
        for each in results:
            if not each.error:
                typer.echo(f"{each.topic}:{each.partition} starts at {each.low_watermark}")
    fail_each(
        f"{each.topic}:{each.partition}: {name}: {_HINTS.get(name, 'refused')}"
        for each in results
        if (name := _error_name(each.error))
    )


def _parse_offset(text: str) -> "tuple[TopicPartition, int]":
    from quorate.broker.admin.admin_client import TopicPartition

    partition, _, offset = text.rpartition("=")
    topic, _, number = partition.rpartition(":")
    try:
        if topic:
            return TopicPartition(topic, int(number)), int(offset)
    except ValueError:
        pass
    raise wrong_usage(f"--topic: {text!r} is not TOPIC:PARTITION=OFFSET, such as orders:0=500")


def _from_file(path: Path | None) -> "list[tuple[TopicPartition, int]]":
    if path is None:
        return []
    from quorate.broker.admin.admin_client import TopicPartition

    try:
        content = json.loads(path.read_text())
        return [
            (TopicPartition(str(each["topic"]), int(each["partition"])), int(each["offset"]))
            for each in content["partitions"]
        ]
    except OSError as error:
        raise wrong_usage(f"--offset-json-file: {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise wrong_usage(
            f"--offset-json-file: {path} is not of the form "
            '{"partitions": [{"topic": "t", "partition": 0, "offset": 1}], "version": 1}'
        ) from None
