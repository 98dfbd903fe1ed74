"""Samples of a cluster, taken through its brokers with Kafka's own requests."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import trio

from quorate.broker.admin.admin_client import AdminClient, TopicPartition
from quorate.broker.admin.groups import committed_offsets, list_groups, partition_views_of
from quorate.broker.admin.log_dirs import describe_log_dirs, replica_sizes
from quorate.broker.admin.quorum import describe_quorum
from quorate.broker.admin.records import LATEST, offsets_at
from quorate.broker.admin.replicas import ClusterView, read_cluster
from quorate.broker.wire.wire_errors import KafkaError
from quorate.raft import QuorumDescription
from quorate.runtime import NetworkError

T = TypeVar("T")

MAX_GROUPS: Final = 50
"""The groups whose lag is asked for: each costs a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition at one moment."""

    leader: int | None
    """The broker; None: nobody leads."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    end: int | None
    """Offset (exclusive) of the last record that consumers see; None: unknown."""
    size: int | None
    """Bytes of the leader's replica; None: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A cluster at one moment. None and what is missing: not known, as nobody answered."""

    at_s: float
    """On a clock that only goes forward."""
    quorum: QuorumDescription | None
    racks: Mapping[int, str | None]
    """Of the live brokers."""
    fenced: frozenset[int]
    partitions: Mapping[TopicPartition, Partition]
    moving: frozenset[TopicPartition]
    lags: Mapping[str, int]
    """Records that groups have not committed yet, for the first `MAX_GROUPS` of those that committed any."""


async def take_sample(admin: AdminClient) -> Sample:
    """Ask for everything at once. Raises `NetworkError` and `KafkaError` if the brokers and partitions
    are not known."""
    view = await read_cluster(admin)
    ends: Mapping[TopicPartition, int] = {}
    sizes: Mapping[tuple[TopicPartition, int], int] = {}
    commits: Mapping[str, Mapping[TopicPartition, int]] = {}
    quorum: QuorumDescription | None = None

    async def ask_ends() -> None:
        nonlocal ends
        ends = await _known(lambda: offsets_at(admin, view.partitions, LATEST), ends)

    async def ask_sizes() -> None:
        nonlocal sizes
        sizes = await _known(lambda: _sizes(admin), sizes)

    async def ask_commits() -> None:
        nonlocal commits
        commits = await _known(lambda: _commits(admin), commits)

    async def ask_quorum() -> None:
        nonlocal quorum
        quorum = await _known(lambda: describe_quorum(admin), None)

    async with trio.open_nursery() as nursery:
        for each in (ask_ends, ask_sizes, ask_commits, ask_quorum):
            nursery.start_soon(each)
    return Sample(
        at_s=trio.current_time(),
        quorum=quorum,
        racks={each.broker_id: each.rack for each in view.brokers.values()},
        fenced=view.fenced,
        partitions=_partitions(view, ends, sizes),
        moving=frozenset(view.moves),
        lags={
            group: sum(each.lag or 0 for each in partition_views_of((), committed, ends))
            for group, committed in commits.items()
        },
    )


async def _known(asked: Callable[[], Awaitable[T]], otherwise: T) -> T:
    """A cluster that is not whole answers some questions, and they are what the reader wants to see then."""
    try:
        return await asked()
    except (NetworkError, KafkaError):
        return otherwise


def _partitions(
    view: ClusterView,
    ends: Mapping[TopicPartition, int],
    sizes: Mapping[tuple[TopicPartition, int], int],
) -> dict[TopicPartition, Partition]:
    found = {}
    for key, state in view.partitions.items():
        leader = int(state.leader_id)
        found[key] = Partition(
            leader=None if leader < 0 else leader,
            replicas=tuple(map(int, state.replica_nodes)),
            isr=tuple(map(int, state.isr_nodes)),
            end=ends.get(key),
            size=sizes.get((key, leader)),
        )
    return found


async def _sizes(admin: AdminClient) -> dict[tuple[TopicPartition, int], int]:
    sizes: dict[tuple[TopicPartition, int], int] = {}
    for broker in await describe_log_dirs(admin):
        sizes |= replica_sizes(broker.broker_id, broker.directories)
    return sizes


async def _commits(admin: AdminClient) -> dict[str, Mapping[TopicPartition, int]]:
    commits: dict[str, Mapping[TopicPartition, int]] = {}
    for group in await list_groups(admin):
        if len(commits) == MAX_GROUPS:
            break
        committed = await committed_offsets(admin, group.group_id)
        if committed:
            commits[group.group_id] = committed
    return commits
