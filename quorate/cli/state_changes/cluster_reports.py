"""The answers of the brokers of a cluster, each asked for its own state changes."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import trio
from kio.schema.errors import ErrorCode
from kio.static.primitive import i32

from quorate.broker.admin.admin_client import AdminClient
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.kafka_client import open_client
from quorate.broker.wire.own_messages import DescribeStateChangesRequest, DescribeStateChangesResponse
from quorate.broker.wire.wire_errors import KafkaError
from quorate.cli.console.connections import network
from quorate.kafka_bytes.varints import MalformedError
from quorate.runtime import Address, Network, NetworkError

_ALL: Final = 100_000
_IDS_FROM: Final = 10
"""The version of Metadata from which on topics have ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerJournal:
    """One broker's answer, or the problem that it gave none for."""

    broker_id: int
    answer: DescribeStateChangesResponse | None
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReports:
    """The cluster as its brokers show it, read before the log: a change that is journaled has its record
    there."""

    names: Mapping[uuid.UUID, str]
    """The names of topics, by id."""
    replicas: Mapping[tuple[uuid.UUID, int], tuple[int, ...]]
    """The brokers of each partition."""
    journals: Mapping[int, BrokerJournal]
    """The journals of live brokers."""


def changes_request(
    topic: str | None, partition: int | None, *, pending_only: bool
) -> DescribeStateChangesRequest:
    """Return the request for a broker's changes of one topic, or of one of its partitions. None: of all."""
    return DescribeStateChangesRequest(
        topic_name=topic,
        partition_index=i32(-1 if partition is None else partition),
        pending_only=pending_only,
        limit=i32(_ALL),
    )


async def read_reports(
    admin: AdminClient, request: DescribeStateChangesRequest, *, timeout_s: float
) -> ClusterReports:
    """Ask any broker for the cluster, and every broker for its changes. Raises as `AdminClient` does."""
    known = await admin.metadata(None)
    if admin.any_broker.version(ApiKey.METADATA) < _IDS_FROM:
        raise KafkaError(ErrorCode.unsupported_version, "the broker names no ids of topics")
    names: dict[uuid.UUID, str] = {}
    replicas: dict[tuple[uuid.UUID, int], tuple[int, ...]] = {}
    for each in known.topics:
        if each.topic_id is not None and each.name is not None:
            names[each.topic_id] = each.name
            for state in each.partitions:
                key = (each.topic_id, int(state.partition_index))
                replicas[key] = tuple(int(replica) for replica in state.replica_nodes)
    addresses = {int(broker.node_id): Address(str(broker.host), int(broker.port)) for broker in known.brokers}
    journals = await _read_journals(admin.network, addresses, request, timeout_s=timeout_s)
    return ClusterReports(names=names, replicas=replicas, journals=journals)


async def read_reports_by_image(
    image: MetadataImage, request: DescribeStateChangesRequest, *, timeout_s: float
) -> ClusterReports:
    """Ask the brokers for their changes that the image shows as live, at the listeners that it shows. The
    cluster is as the image has it."""
    wanted = [each for each in image.topics.values() if request.topic_name in (None, each.name)]
    addresses = {
        each.broker_id: Address(each.listeners[0].host, each.listeners[0].port)
        for each in image.brokers.values()
        if not each.fenced and each.listeners
    }
    return ClusterReports(
        names={each.topic_id: each.name for each in wanted},
        replicas={
            (each.topic_id, index): state.replicas
            for each in wanted
            for index, state in enumerate(image.partitions(each.topic_id))
        },
        journals=await _read_journals(network(), addresses, request, timeout_s=timeout_s),
    )


async def _read_journals(
    network: Network,
    addresses: Mapping[int, Address],
    request: DescribeStateChangesRequest,
    *,
    timeout_s: float,
) -> dict[int, BrokerJournal]:
    journals: dict[int, BrokerJournal] = {}

    async def ask(broker_id: int, address: Address) -> None:
        answer: DescribeStateChangesResponse | None = None
        problem: str | None = None
        try:
            with trio.fail_after(timeout_s):
                async with open_client(
                    network, address, client_id="quorate-cli", timeout_s=timeout_s, negotiate=False
                ) as client:
                    answer = await client.send(request, DescribeStateChangesResponse)
        except trio.TooSlowError:
            problem = f"no answer within {timeout_s:g} s"
        except (NetworkError, MalformedError) as error:
            problem = str(error)
        journals[broker_id] = BrokerJournal(broker_id=broker_id, answer=answer, problem=problem)

    async with trio.open_nursery() as nursery:
        for broker_id, address in addresses.items():
            nursery.start_soon(ask, broker_id, address)
    return dict(sorted(journals.items()))


def names_of(journals: Sequence[BrokerJournal]) -> dict[uuid.UUID, str]:
    """Return the names of topics that the journals know, deleted ones among them."""
    return {
        each.topic_id: str(each.topic_name)
        for journal in journals
        for each in (() if journal.answer is None else journal.answer.changes)
        if each.topic_id is not None
    }
