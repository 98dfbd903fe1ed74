"""Reassignments as commands begin, watch and clear them up: progress, and throttles (KIP-73)."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import trio

from quorate.broker.admin.admin_client import AdminClient, BrokerView, TopicPartition
from quorate.broker.admin.configs import Entity, EntityType, alter_configs
from quorate.broker.admin.log_dirs import replica_sizes
from quorate.broker.admin.replicas import ClusterView, Move, alter_reassignments, read_cluster
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.kafka_client import WireClient
from quorate.cli.reassigning.assignment_files import Assignments
from quorate.runtime import NetworkError

if TYPE_CHECKING:
    from kio.schema.describe_log_dirs.v5.response import DescribeLogDirsResponse

POLL_SECONDS: Final = 1.0
"""The time between two looks at moves."""
THROTTLED_REPLICAS: Final = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
_RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
Sizes = Mapping[tuple[TopicPartition, int], int]
"""The bytes of replicas that brokers reported, by partition and broker."""


async def begin_moves(
    admin: AdminClient, view: ClusterView, plan: Assignments, *, throttle: int | None
) -> dict[TopicPartition, str]:
    """Set the throttle, then begin. Return what was refused, with the reasons. Raises `KafkaError`."""
    if throttle is not None:
        # All moves of these topics, those that are under way already too: a topic has one list for each side.
        topics = {key.topic for key in plan}
        moves = {key: move for key, move in view.moves.items() if key.topic in topics}
        moves |= {key: _planned(view, key, replicas) for key, replicas in plan.items()}
        await _throttle(admin, moves, rate=throttle, brokers=view.brokers.values())
    return await alter_reassignments(admin, dict(plan))


def _planned(view: ClusterView, key: TopicPartition, target: tuple[int, ...]) -> Move:
    original = view.servers(key)
    removing = tuple(each for each in original if each not in target)
    return Move(
        replicas=target + removing,
        adding=tuple(each for each in target if each not in original),
        removing=removing,
    )


# What is left


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The rest of some moves at one moment (seconds on any clock)."""

    at: float
    left: Mapping[TopicPartition, int | None]
    """Bytes that are still to be copied, for each move under way; None: no broker reported its size."""

    @property
    def bytes_left(self) -> int:
        """The bytes that all moves of a known size still have to copy."""
        return sum(each for each in self.left.values() if each is not None)

    def seconds_left(self, before: "Progress") -> float | None:
        """Return the time that the rest takes at the pace since `before`; None: nothing was copied since."""
        copied, elapsed = before.bytes_left - self.bytes_left, self.at - before.at
        return math.ceil(self.bytes_left * elapsed / copied) if copied > 0 and elapsed > 0 else None


async def progress_of(
    admin: AdminClient, moves: Mapping[TopicPartition, Move], view: ClusterView
) -> Progress:
    """Ask the brokers for the sizes of the replicas that move. A broker that does not answer reports none."""
    involved = {broker for move in moves.values() for broker in move.replicas}
    brokers = [view.brokers[each] for each in sorted(involved) if each in view.brokers]
    sizes = await _sizes(admin, brokers)
    return Progress(
        at=trio.current_time(), left={key: bytes_left(key, move, sizes) for key, move in moves.items()}
    )


def bytes_left(key: TopicPartition, move: Move, sizes: Sizes) -> int | None:
    """Return the bytes that added replicas still lack; None if no broker reported the size of a whole one."""
    whole = max((sizes[key, each] for each in move.original if (key, each) in sizes), default=None)
    if whole is None:
        return None
    return sum(max(whole - sizes.get((key, each), 0), 0) for each in move.adding)


async def _sizes(admin: AdminClient, brokers: Iterable[BrokerView]) -> Sizes:
    sizes: dict[tuple[TopicPartition, int], int] = {}

    async def read(broker: BrokerView) -> None:
        try:
            client = await admin.to(broker.address)
            sizes.update(await _sizes_on(client, broker.broker_id))
        except NetworkError:
            pass

    async with trio.open_nursery() as nursery:
        for broker in brokers:
            nursery.start_soon(read, broker)
    return sizes


async def _sizes_on(client: WireClient, broker_id: int) -> Sizes:
    if ApiKey.DESCRIBE_LOG_DIRS not in client.versions:
        return {}
    answer = cast("DescribeLogDirsResponse", await client.call(ApiKey.DESCRIBE_LOG_DIRS, topics=None))
    return replica_sizes(broker_id, answer.results)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The moves of a file at one moment."""

    done: tuple[TopicPartition, ...]
    under_way: Mapping[TopicPartition, Move]
    different: Mapping[TopicPartition, tuple[int, ...] | None]
    """The replicas of partitions that are neither done nor under way; None: there is no such partition."""
    progress: Progress

    def lines(self, before: Progress | None = None) -> Iterator[str]:
        """Yield a line for each partition, and one for all that is left."""
        for key in self.done:
            yield f"Reassignment of partition {key} is completed."
        for key in self.under_way:
            left = self.progress.left[key]
            known = "" if left is None else f": {left} bytes left"
            yield f"Reassignment of partition {key} is still in progress{known}."
        for key, replicas in self.different.items():
            yield (
                f"There is no active reassignment of partition {key}, "
                + ("which does not exist." if replicas is None else f"but its replicas are {list(replicas)}.")
            )
        if self.under_way:
            yield summary(self.progress, before)

    def as_dict(self, before: Progress | None = None) -> dict[str, object]:
        """Return the fields of JSON output."""
        return {
            "done": [_named(key) for key in self.done],
            "underWay": [_named(key) | {"bytesLeft": self.progress.left[key]} for key in self.under_way],
            "different": [
                _named(key) | {"replicas": None if replicas is None else list(replicas)}
                for key, replicas in self.different.items()
            ],
            "secondsLeft": None if before is None else self.progress.seconds_left(before),
        }


def summary(progress: Progress, before: Progress | None) -> str:
    """Return one line for all that is under way."""
    many = len(progress.left)
    seconds = None if before is None else progress.seconds_left(before)
    estimate = "" if seconds is None else f", about {seconds:g} s"
    size = "an unknown number of" if None in progress.left.values() else str(progress.bytes_left)
    return f"{many} partition{'s' if many != 1 else ''} left: {size} bytes{estimate}"


def _named(key: TopicPartition) -> dict[str, object]:
    return {"topic": key.topic, "partition": key.partition}


async def check_moves(admin: AdminClient, plan: Assignments) -> Checked:
    """Compare a file with the cluster. Raises `KafkaError`."""
    view = await read_cluster(admin)
    under_way = {key: view.moves[key] for key in sorted(plan) if key in view.moves}
    settled = {
        key: tuple(map(int, view.partitions[key].replica_nodes)) if key in view.partitions else None
        for key in sorted(plan)
        if key not in under_way
    }
    return Checked(
        done=tuple(key for key, replicas in settled.items() if replicas == plan[key]),
        under_way=under_way,
        different={key: replicas for key, replicas in settled.items() if replicas != plan[key]},
        progress=await progress_of(admin, under_way, view),
    )


# Throttles


def throttled_replicas(moves: Mapping[TopicPartition, Move]) -> dict[str, dict[str, str]]:
    """Return each topic's settings that throttle its moves: the leaders' side names the replicas that serve,
    the followers' those that are added."""
    settings: dict[str, dict[str, str]] = {}
    for topic in sorted({key.topic for key in moves}):
        own = [(key.partition, move) for key, move in sorted(moves.items()) if key.topic == topic]
        serving = [f"{number}:{each}" for number, move in own for each in move.original]
        added = [f"{number}:{each}" for number, move in own for each in move.adding]
        settings[topic] = dict(zip(THROTTLED_REPLICAS, map(",".join, (serving, added)), strict=True))
    return settings


async def _throttle(
    admin: AdminClient, moves: Mapping[TopicPartition, Move], *, rate: int, brokers: Iterable[BrokerView]
) -> None:
    """Throttle the moves on all brokers to `rate` (bytes per second)."""
    for topic, settings in throttled_replicas(moves).items():
        changes = {key: replicas or None for key, replicas in settings.items()}
        await _alter(admin, Entity(EntityType.TOPICS, topic), changes)
    await _set_rates(admin, brokers, str(rate))


async def _set_rates(admin: AdminClient, brokers: Iterable[BrokerView], rate: str | None) -> None:
    for broker in brokers:
        await _alter(admin, Entity(EntityType.BROKERS, str(broker.broker_id)), dict.fromkeys(_RATES, rate))


async def _alter(admin: AdminClient, entity: Entity, changes: Mapping[str, str | None]) -> None:
    kind = "topic" if entity.type is EntityType.TOPICS else "broker"
    await alter_configs(admin, entity, changes, of=f"the throttle of {kind} {entity.name} was refused")


async def end_throttles(admin: AdminClient, topics: Iterable[str]) -> bool:
    """Remove the throttles; return whether the cluster has any. Raises `KafkaError`."""
    if ApiKey.INCREMENTAL_ALTER_CONFIGS not in admin.any_broker.versions:
        return False
    view = await read_cluster(admin)
    for topic in sorted({*topics} & {key.topic for key in view.partitions}):
        await _alter(admin, Entity(EntityType.TOPICS, topic), dict.fromkeys(THROTTLED_REPLICAS))
    await _set_rates(admin, () if view.moves else view.brokers.values(), None)
    return True
