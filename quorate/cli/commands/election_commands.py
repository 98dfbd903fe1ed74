"""`quorate leader-election`: partitions get the leaders that an operator asks for."""

import enum
import json
from pathlib import Path
from typing import Annotated

import typer

from quorate.cli.commands.options import BootstrapOption, JsonOption
from quorate.cli.console.cli_errors import ExitCode, wrong_usage
from quorate.cli.console.connections import DEFAULT_BOOTSTRAP, ask
from quorate.cli.console.output import print_json


class WantedElection(enum.Enum):
    """The values of --election-type."""

    PREFERRED = "preferred"
    UNCLEAN = "unclean"


def _wanted(
    topic: str | None, partition: int | None, path: Path | None, *, all_partitions: bool
) -> dict[str, list[int]] | None:
    """The partitions by topic; None: all."""
    ways = (topic is not None, path is not None, all_partitions)
    if sum(ways) != 1 or (topic is None) != (partition is None):
        raise wrong_usage(
            "say which partitions: --topic with --partition, --path-to-json-file, or --all-topic-partitions"
        )
    if topic is not None and partition is not None:
        return {topic: [partition]}
    return None if path is None else _read(path)


def _read(path: Path) -> dict[str, list[int]]:
    form = 'expected {"partitions": [{"topic": "orders", "partition": 0}, …]}'
    try:
        content = json.loads(path.read_text())
        wanted: dict[str, list[int]] = {}
        for each in content["partitions"]:
            topic, partition = each["topic"], each["partition"]
            if not isinstance(topic, str) or type(partition) is not int:
                raise ValueError(f"{each} is no partition")
            if partition in wanted.setdefault(topic, []):
                raise ValueError(f"{topic}-{partition} is there twice")
            wanted[topic].append(partition)
    except OSError as error:
        raise wrong_usage(f"--path-to-json-file: {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise wrong_usage(f"--path-to-json-file: {path}: {form}: {error}") from None
    return wanted


def leader_election(
    election_type: Annotated[
        WantedElection,
        typer.Option(
            "--election-type",
            help="preferred: the first replica leads again. unclean: a partition without a leader gets one, "
            "also if records are lost by it.",
        ),
    ],
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="The topic of one partition.")] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, max=2**31 - 1, help="The number of that partition.")
    ] = None,
    path_to_json_file: Annotated[
        Path | None,
        typer.Option(help='A file with partitions: {"partitions": [{"topic": "orders", "partition": 0}]}.'),
    ] = None,
    all_topic_partitions: Annotated[
        bool, typer.Option("--all-topic-partitions", help="All partitions that need such an election.")
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Elect leaders of partitions. Those that have the leader already are left alone.

    The exit code is 1 if a partition did not get the leader that was asked for.
    """
    wanted = _wanted(topic, partition, path_to_json_file, all_partitions=all_topic_partitions)
    from dataclasses import asdict

    from quorate.broker.admin.replicas import elect_leaders

    answered = ask(bootstrap, lambda admin: elect_leaders(admin, election_type.value, wanted))
    if as_json:
        print_json([asdict(each) for each in answered])
    else:
        for each in answered:
            outcome = "has a new leader" if each.error is None else f"{each.error}: {each.message}"
            typer.echo(f"{each.topic}-{each.partition} {outcome}")
        if not answered:
            typer.echo("no partition needs an election")
    if any(each.failed for each in answered):
        raise typer.Exit(ExitCode.FAILED)
