"""`quorate topics`: create, list, describe, states, alter, shrink, delete."""

from typing import TYPE_CHECKING, Annotated

import typer

from quorate.cli.commands.options import (
    BootstrapOption,
    BrokersOption,
    ControllersOption,
    JsonOption,
    TimeoutOption,
)
from quorate.cli.console.cli_errors import wrong_usage
from quorate.cli.console.connections import DEFAULT_BOOTSTRAP, ask, ask_quorum
from quorate.cli.console.output import print_json, print_rows

if TYPE_CHECKING:
    from quorate.broker.admin.topics import TopicDescription

app = typer.Typer(
    no_args_is_help=True,
    help="Topics and where their partitions are.",
    epilog="Example: quorate topics list -b localhost:9092",
)

TopicOption = Annotated[str, typer.Option("--topic", "-t", help="The topic's name.")]


def _parse_assignment(text: str | None) -> list[list[int]]:
    """Parse Kafka's form: replicas joined by ':', partitions by ','."""
    if text is None:
        return []
    try:
        return [[int(broker) for broker in part.split(":")] for part in text.split(",")]
    except ValueError:
        raise wrong_usage(
            f"--replica-assignment: {text!r} is not of the form 1:2:3,2:3:1 (replicas of each partition)"
        ) from None


def _parse_config(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise wrong_usage(f"--config: {text!r} is not key=value")
    return name, value


@app.command(epilog="Example: quorate topics create -t orders --partitions 6 --replication-factor 3")
def create(
    topic: TopicOption,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    partitions: Annotated[
        int, typer.Option(min=-1, max=2**31 - 1, help="The number of partitions. -1: the cluster's default.")
    ] = -1,
    replication_factor: Annotated[
        int,
        typer.Option(
            min=-1, max=2**15 - 1, help="The number of replicas of each partition. -1: the cluster's default."
        ),
    ] = -1,
    replica_assignment: Annotated[
        str | None,
        typer.Option(
            metavar="IDS",
            help="The replicas of each partition, such as 1:2:3,2:3:1, instead of the two numbers.",
        ),
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A topic setting. Repeatable.")
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Leave a topic of this name as it is, without an error.")
    ] = False,
) -> None:
    """Create a topic and return when it exists."""
    assignment = _parse_assignment(replica_assignment)
    if assignment and (partitions != -1 or replication_factor != -1):
        raise wrong_usage(
            "--replica-assignment says how many partitions and replicas there are; leave out --partitions "
            "and --replication-factor"
        )
    configs = [_parse_config(item) for item in config or ()]
    from quorate.broker.admin.topics import create_topic

    created = ask(
        bootstrap,
        lambda admin: create_topic(
            admin,
            topic,
            partitions=partitions,
            replication_factor=replication_factor,
            assignment=assignment,
            configs=configs,
            if_not_exists=if_not_exists,
        ),
    )
    typer.echo(f"created topic {topic}" if created else f"topic {topic} exists already")


@app.command("list", epilog="Example: quorate topics list -b localhost:9092")
def list_topics(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, as_json: JsonOption = False) -> None:
    """List the names of all topics, one per line."""
    from quorate.broker.admin.topics import topic_names

    names = ask(bootstrap, topic_names)
    if as_json:
        print_json(names)
    else:
        for name in names:
            typer.echo(name)


@app.command(epilog="Example: quorate topics describe -t orders --json")
def describe(
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", help="The name of one topic. Default: all topics.")
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    under_replicated: Annotated[
        bool,
        typer.Option("--under-replicated-partitions", help="Only those with a replica that is not in sync."),
    ] = False,
    unavailable: Annotated[
        bool, typer.Option("--unavailable-partitions", help="Only those without a leader.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show partitions, leaders, replicas, in-sync replicas and eligible leader replicas.

    An eligible leader replica (ELR, KIP-966) is not in sync but has every acknowledged record. It may lead if
    no replica in sync can. The last known ELR is the last leader of a partition without replicas in sync.
    """
    from quorate.broker.admin.topics import describe_topics, topic_as_dict

    topics = ask(bootstrap, lambda admin: describe_topics(admin, topic))
    if under_replicated or unavailable:
        topics = _only(topics, under_replicated=under_replicated, unavailable=unavailable)
    if as_json:
        print_json([topic_as_dict(described) for described in topics])
        return
    print_rows(
        ("topic", "partition", "leader", "epoch", "replicas", "in sync", "elr", "last elr"),
        [
            (
                described.name,
                partition.partition_index,
                _leader(partition.leader_id),
                partition.leader_epoch,
                *(
                    ", ".join(map(str, ids or ()))
                    for ids in (
                        partition.replica_nodes,
                        partition.isr_nodes,
                        partition.eligible_leader_replicas,
                        partition.last_known_elr,
                    )
                ),
            )
            for described in topics
            for partition in described.partitions
        ],
    )


def _only(
    topics: "list[TopicDescription]", *, under_replicated: bool, unavailable: bool
) -> "list[TopicDescription]":
    """Return the partitions with a replica out of sync, or without a leader, and the topics that have any."""
    from dataclasses import replace

    found = (
        replace(
            topic,
            partitions=tuple(
                each
                for each in topic.partitions
                if (under_replicated and len(each.isr_nodes) < len(each.replica_nodes))
                or (unavailable and each.leader_id < 0)
            ),
        )
        for topic in topics
    )
    return [topic for topic in found if topic.partitions]


def _leader(broker_id: int) -> str:
    return str(broker_id) if broker_id >= 0 else "none"


@app.command(epilog="Example: quorate topics states -t orders")
def states(
    topic: TopicOption, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, as_json: JsonOption = False
) -> None:
    """Show the states of a topic's partitions and replicas in the controller's state machines.

    An OnlinePartition is led by a live broker. An OnlineReplica is on a live broker, and its directory is
    online; a NewReplica's broker has not said yet in which directory it is.
    """
    from quorate.broker.admin.topics import topic_states

    found = ask(bootstrap, lambda admin: topic_states(admin, topic))
    if as_json:
        print_json(
            [
                {
                    "partition": int(each.partition_index),
                    "state": each.state,
                    "leader": int(each.leader_id),
                    "replicas": {str(int(replica.broker_id)): replica.state for replica in each.replicas},
                }
                for each in found
            ]
        )
        return
    print_rows(
        ("partition", "state", "leader", "replicas"),
        [
            (
                f"{topic}-{each.partition_index}",
                each.state,
                _leader(each.leader_id),
                ", ".join(f"{replica.broker_id}: {replica.state}" for replica in each.replicas),
            )
            for each in found
        ],
    )


@app.command(epilog="Example: quorate topics alter -t orders --partitions 12")
def alter(
    topic: TopicOption,
    partitions: Annotated[
        int, typer.Option(min=1, max=2**31 - 1, help="The number of partitions in all, more than there are.")
    ],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    replica_assignment: Annotated[
        str | None,
        typer.Option(metavar="IDS", help="The replicas of each new partition, such as 1:2:3,2:3:1."),
    ] = None,
) -> None:
    """Add partitions to a topic and return when they exist.

    Records with keys go to other partitions from then on: a key's records before and after are in different
    ones.
    """
    assignment = _parse_assignment(replica_assignment)
    from quorate.broker.admin.topics import create_partitions

    ask(bootstrap, lambda admin: create_partitions(admin, topic, count=partitions, assignment=assignment))
    typer.echo(f"topic {topic} has {partitions} partitions")


@app.command(epilog="Example: quorate topics shrink -t orders --partitions 6 --yes")
def shrink(
    topic: TopicOption,
    partitions: Annotated[
        int, typer.Option(min=1, max=2**31 - 1, help="The number of partitions that stay.")
    ],
    bootstrap: BrokersOption = None,
    controllers: ControllersOption = None,
    timeout_ms: TimeoutOption = 30_000,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it. Without this the command only says whether it could.")
    ] = False,
) -> None:
    """Remove a topic's last partitions, with their records.

    Kafka has no such request: it goes to the controller, in the quorum's own protocol. Nothing of what is
    removed comes back, even if the topic gets partitions of the same numbers later.
    """
    from quorate.broker.admin.topics import shrink_topic

    ask_quorum(
        bootstrap,
        controllers,
        timeout_ms=timeout_ms,
        at_controllers=lambda asked: shrink_topic(asked, topic, count=partitions, validate_only=not yes),
    )
    if yes:
        typer.echo(f"topic {topic} has {partitions} partitions")
    else:
        typer.echo(
            f"topic {topic} can be shrunk to {partitions} partitions; the records of the others would be "
            "lost. Nothing is done without --yes"
        )


@app.command(epilog="Example: quorate topics delete -t orders")
def delete(topic: TopicOption, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP) -> None:
    """Delete a topic and its data."""
    from quorate.broker.admin.topics import delete_topic

    ask(bootstrap, lambda admin: delete_topic(admin, topic))
    typer.echo(f"deleted topic {topic}")
