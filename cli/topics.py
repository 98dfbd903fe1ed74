"""`quorate topics`: create, list, describe, delete."""

import datetime
import json
from collections.abc import Sequence
from typing import Annotated

import typer
from kio.schema.create_topics.v5.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.create_topics.v5.response import CreateTopicsResponse
from kio.schema.delete_topics.v5.request import DeleteTopicsRequest
from kio.schema.delete_topics.v5.response import DeleteTopicsResponse
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v9.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v9.response import MetadataResponse, MetadataResponseTopic
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i16, i32, i32Timedelta
from rich.console import Console
from rich.table import Table

from quorate.broker.wire.client import WireClient
from quorate.broker.wire.errors import KafkaError
from quorate.cli.bootstrap import DEFAULT_BOOTSTRAP, run_with_client
from quorate.cli.errors import ExitCode, fail, user_errors
from quorate.cli.quorum import BootstrapOption

app = typer.Typer(no_args_is_help=True, help="Topics and where their partitions are.")

TopicOption = Annotated[str, typer.Option("--topic", "-t", help="The topic's name.")]
JsonOption = Annotated[bool, typer.Option("--json", help="For programs.")]
_TIMEOUT = i32Timedelta.parse(datetime.timedelta(seconds=30))


def _refused(code: ErrorCode, message: str | None, topic: str) -> KafkaError:
    return KafkaError(code, f"topic {topic}: {message or code.name}")


async def create_topic(
    client: WireClient,
    topic: str,
    *,
    partitions: int = -1,
    replication_factor: int = -1,
    assignment: Sequence[Sequence[int]] = (),
    configs: Sequence[tuple[str, str]] = (),
) -> None:
    """Returns when the topic exists. Raises `KafkaError`."""
    manual = tuple(
        CreatableReplicaAssignment(
            partition_index=i32(index), broker_ids=tuple(BrokerId(broker) for broker in brokers)
        )
        for index, brokers in enumerate(assignment)
    )
    creatable = CreatableTopic(
        name=TopicName(topic),
        num_partitions=i32(-1 if manual else partitions),
        replication_factor=i16(-1 if manual else replication_factor),
        assignments=manual,
        configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in configs),
    )
    response = await client.send(
        CreateTopicsRequest(topics=(creatable,), timeout=_TIMEOUT), CreateTopicsResponse
    )
    result = response.topics[0]
    if result.error_code is not ErrorCode.none:
        raise _refused(result.error_code, result.error_message, topic)


async def delete_topic(client: WireClient, topic: str) -> None:
    """Returns when the topic is gone. Raises `KafkaError`."""
    request = DeleteTopicsRequest(topic_names=(TopicName(topic),), timeout=_TIMEOUT)
    response = await client.send(request, DeleteTopicsResponse)
    result = response.responses[0]
    if result.error_code is not ErrorCode.none:
        raise _refused(result.error_code, result.error_message, topic)


async def describe_topics(client: WireClient, topic: str | None) -> tuple[MetadataResponseTopic, ...]:
    """One topic, or all. Raises `KafkaError` if the named one is not there."""
    named = None if topic is None else (MetadataRequestTopic(name=TopicName(topic)),)
    request = MetadataRequest(
        topics=named,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    response = await client.send(request, MetadataResponse)
    for described in response.topics:
        if topic is not None and described.error_code is not ErrorCode.none:
            raise _refused(described.error_code, None, topic)
    return response.topics


def topic_as_dict(topic: MetadataResponseTopic) -> dict[str, object]:
    return {
        "name": topic.name,
        "internal": topic.is_internal,
        "partitions": [
            {
                "partition": partition.partition_index,
                "leader": partition.leader_id,
                "leaderEpoch": partition.leader_epoch,
                "replicas": list(partition.replica_nodes),
                "isr": list(partition.isr_nodes),
            }
            for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index)
        ],
    }


def _parse_assignment(text: str | None) -> list[list[int]]:
    """Kafka's form: replicas joined by ':', partitions by ','."""
    if text is None:
        return []
    try:
        return [[int(broker) for broker in part.split(":")] for part in text.split(",")]
    except ValueError:
        raise fail(
            f"--replica-assignment: {text!r} is not of the form 1:2:3,2:3:1 (replicas of each partition)",
            ExitCode.USAGE,
        ) from None


def _parse_config(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise fail(f"--config: {text!r} is not key=value", ExitCode.USAGE)
    return name, value


@app.command(epilog="Example: quorate topics create -t orders --partitions 6 --replication-factor 3")
def create(
    topic: TopicOption,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    partitions: Annotated[int, typer.Option(help="How many; -1 for the cluster's default.")] = -1,
    replication_factor: Annotated[int, typer.Option(help="Replicas of each; -1 for the default.")] = -1,
    replica_assignment: Annotated[
        str | None, typer.Option(help="Replicas of each partition by hand: 1:2:3,2:3:1")
    ] = None,
    config: Annotated[list[str] | None, typer.Option(help="key=value, may be repeated.")] = None,
) -> None:
    """Create a topic and return when it exists."""
    assignment = _parse_assignment(replica_assignment)
    configs = [_parse_config(item) for item in config or ()]
    with user_errors():
        run_with_client(
            bootstrap,
            lambda client: create_topic(
                client,
                topic,
                partitions=partitions,
                replication_factor=replication_factor,
                assignment=assignment,
                configs=configs,
            ),
        )
    typer.echo(f"created topic {topic}")


@app.command("list", epilog="Example: quorate topics list -b localhost:9092")
def list_topics(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, as_json: JsonOption = False) -> None:
    """The names of all topics."""
    with user_errors():
        topics = run_with_client(bootstrap, lambda client: describe_topics(client, None))
    names = sorted(str(topic.name) for topic in topics)
    typer.echo(json.dumps(names) if as_json else "\n".join(names))


@app.command(epilog="Example: quorate topics describe -t orders --json")
def describe(
    topic: Annotated[str | None, typer.Option("--topic", "-t", help="One topic; all by default.")] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Partitions, leaders, replicas and in-sync replicas."""
    with user_errors():
        topics = run_with_client(bootstrap, lambda client: describe_topics(client, topic))
    ordered = sorted(topics, key=lambda described: str(described.name))
    if as_json:
        typer.echo(json.dumps([topic_as_dict(described) for described in ordered]))
        return
    table = Table()
    for column in ("topic", "partition", "leader", "epoch", "replicas", "in sync"):
        table.add_column(column)
    for described in ordered:
        for partition in sorted(described.partitions, key=lambda each: each.partition_index):
            table.add_row(
                str(described.name),
                str(partition.partition_index),
                str(partition.leader_id) if partition.leader_id >= 0 else "none",
                str(partition.leader_epoch),
                ", ".join(map(str, partition.replica_nodes)),
                ", ".join(map(str, partition.isr_nodes)),
            )
    Console().print(table)


@app.command(epilog="Example: quorate topics delete -t orders")
def delete(topic: TopicOption, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP) -> None:
    """Delete a topic and its data."""
    with user_errors():
        run_with_client(bootstrap, lambda client: delete_topic(client, topic))
    typer.echo(f"deleted topic {topic}")
