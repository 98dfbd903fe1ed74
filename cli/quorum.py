"""`quorate quorum`: who leads, and how far the others are."""

import datetime
import json
from typing import Annotated

import typer
from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.schema.describe_quorum.v2.response import DescribeQuorumResponse, ReplicaState
from kio.schema.describe_quorum.v2.response import PartitionData as DescribedPartition
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32
from rich.console import Console
from rich.table import Table

from quorate.broker.wire.client import WireClient
from quorate.broker.wire.errors import KafkaError
from quorate.cli.bootstrap import DEFAULT_BOOTSTRAP, run_with_client
from quorate.cli.errors import user_errors
from quorate.runtime.entropy import uuid_text

app = typer.Typer(no_args_is_help=True, help="The metadata quorum.")

METADATA_TOPIC = "__cluster_metadata"

BootstrapOption = Annotated[
    str, typer.Option("--bootstrap-server", "-b", help="host:port of any broker, or several.")
]


async def describe_quorum(client: WireClient) -> DescribedPartition:
    """Raises `KafkaError` with what the broker answered."""
    request = DescribeQuorumRequest(
        topics=(
            TopicData(
                topic_name=TopicName(METADATA_TOPIC), partitions=(PartitionData(partition_index=i32(0)),)
            ),
        )
    )
    response = await client.send(request, DescribeQuorumResponse)
    if response.error_code is not ErrorCode.none:
        raise KafkaError(response.error_code, response.error_message or "the quorum can't be described")
    partition = response.topics[0].partitions[0]
    if partition.error_code is not ErrorCode.none:
        raise KafkaError(partition.error_code, partition.error_message or "the quorum can't be described")
    return partition


def quorum_as_dict(quorum: DescribedPartition) -> dict[str, object]:
    """For programs. Offsets are exclusive ends; times are ms since the epoch, -1 while unknown."""
    leader_end = max((replica.log_end_offset for replica in quorum.current_voters), default=-1)

    def replica_as_dict(replica: ReplicaState) -> dict[str, object]:
        directory = replica.replica_directory_id
        return {
            "id": replica.replica_id,
            "directoryId": None if directory is None else uuid_text(directory),
            "logEndOffset": replica.log_end_offset,
            "lag": leader_end - replica.log_end_offset if replica.log_end_offset >= 0 else None,
            "lastFetchTimestamp": replica.last_fetch_timestamp,
            "lastCaughtUpTimestamp": replica.last_caught_up_timestamp,
        }

    return {
        "leaderId": quorum.leader_id,
        "leaderEpoch": quorum.leader_epoch,
        "highWatermark": quorum.high_watermark,
        "voters": [replica_as_dict(replica) for replica in quorum.current_voters],
        "observers": [replica_as_dict(replica) for replica in quorum.observers],
    }


def quorum_table(quorum: DescribedPartition) -> Table:
    table = Table(
        title=f"leader {quorum.leader_id}, epoch {quorum.leader_epoch}, "
        f"high watermark {quorum.high_watermark}",
        title_justify="left",
    )
    for column in ("node", "status", "log end offset", "lag", "last fetch", "last caught up"):
        table.add_column(column, justify="left" if column == "status" else "right")
    leader_end = max((replica.log_end_offset for replica in quorum.current_voters), default=-1)
    for status, replicas in (("voter", quorum.current_voters), ("observer", quorum.observers)):
        for replica in replicas:
            known = replica.log_end_offset >= 0
            table.add_row(
                str(replica.replica_id),
                "leader" if replica.replica_id == quorum.leader_id else status,
                str(replica.log_end_offset) if known else "?",
                str(leader_end - replica.log_end_offset) if known else "?",
                _time(replica.last_fetch_timestamp),
                _time(replica.last_caught_up_timestamp),
            )
    return table


def _time(timestamp_ms: int) -> str:
    if timestamp_ms < 0:
        return "-"
    return datetime.datetime.fromtimestamp(timestamp_ms / 1000).strftime("%H:%M:%S.%f")[:-3]


@app.command(epilog="Example: quorate quorum describe -b localhost:9092 --json")
def describe(
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Show the leader, the epoch, and each replica's log end offset and lag."""
    with user_errors():
        quorum = run_with_client(bootstrap, describe_quorum)
    if as_json:
        typer.echo(json.dumps(quorum_as_dict(quorum)))
    else:
        Console().print(quorum_table(quorum))
