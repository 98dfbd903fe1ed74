"""The part of an image of the metadata that the page shows, as small JSON. The map of partitions is apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import NO_LEADER
from quorate.broker.metadata.record_words import reason_words
from quorate.broker.metadata.states import BrokerState, PartitionState
from quorate.runtime import uuid_text

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

WELL, DISPLACED, MOVING, BEHIND, OFFLINE = "0", "1", "2", "3", "4"
"""The states of a partition on the map, worse and worse. DISPLACED: led by another than its first replica.
BEHIND: a replica is not in sync. OFFLINE: nobody leads it."""
_TOPIC_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Elected:
    """The beginning of an epoch of the quorum, as its log has it (KIP-595)."""

    leader: int
    epoch: int
    offset: int
    time_ms: int
    voters: tuple[int, ...]
    granted: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The metadata at one moment."""

    image: MetadataImage
    offset: int
    """The last record (inclusive); -1: none."""
    time_ms: int | None
    """The time of that record, since the Unix epoch. None: unknown."""
    epoch: int
    elected: Elected | None = None
    """The leader of that epoch. None: the log no longer says."""


def summary(seen: Seen, *, earliest: int, latest: int) -> dict[str, Json]:
    """Return the head of the page: counts and brokers. All of it is counted already."""
    image = seen.image
    homes = _homes(image)
    counts = _counts(image, homes)
    elected = seen.elected
    return {
        "offset": seen.offset,
        "earliest": earliest,
        "latest": latest,
        "time_ms": seen.time_ms,
        "epoch": seen.epoch,
        "elected": None
        if elected is None
        else {
            "leader": elected.leader,
            "offset": elected.offset,
            "time_ms": elected.time_ms,
            "voters": list(elected.voters),
            "granted": list(elected.granted),
        },
        "counts": dict(counts),
        "brokers": [_broker(image, image.brokers[each], homes) for each in sorted(image.brokers)],
    }


def _homes(image: MetadataImage) -> dict[int, int]:
    held: dict[int, int] = {}
    for (broker_id, _), count in image.replica_homes().items():
        held[broker_id] = held.get(broker_id, 0) + count
    return held


def _counts(image: MetadataImage, homes: Mapping[int, int]) -> dict[str, int]:
    led_by_nobody = image.leaderless_count + sum(
        image.leader_count(each.broker_id) for each in image.brokers.values() if each.fenced
    )
    in_sync = sum(map(image.isr_count, image.isr_members()))
    return {
        "brokers": len(image.brokers),
        "topics": len(image.topics),
        "partitions": image.partition_count(),
        "offline": led_by_nobody,
        "behind": sum(homes.values()) - in_sync,
        "displaced": image.imbalanced_count,
        "moving": image.reassigning_count,
    }


def _broker(image: MetadataImage, broker: BrokerState, homes: Mapping[int, int]) -> Json:
    if broker.fenced:
        state = "fenced"
    else:
        state = "draining" if broker.in_controlled_shutdown else "up"
    return {
        "id": broker.broker_id,
        "state": state,
        "reason": reason_words(broker.inactive_reason),
        "rack": broker.rack,
        "listeners": [f"{each.name}://{each.host}:{each.port}" for each in broker.listeners],
        "directories": len(broker.log_dirs),
        "leads": image.leader_count(broker.broker_id),
        "replicas": homes.get(broker.broker_id, 0),
        "in_sync": image.isr_count(broker.broker_id),
        "epoch": broker.epoch,
    }


# Partitions


def state_of(image: MetadataImage, partition: PartitionState) -> str:
    """Return the state of a partition on the map, the worst that it has."""
    leader = partition.leader
    if leader == NO_LEADER or (broker := image.broker(leader)) is None or broker.fenced:
        return OFFLINE
    if len(partition.isr) < len(partition.replicas):
        return BEHIND
    if partition.is_reassigning:
        return MOVING
    return WELL if leader == partition.replicas[0] else DISPLACED


def partition_value(partition: PartitionState) -> dict[str, Json]:
    """Return a partition under the names that the page has."""
    return {
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "elr": list(partition.eligible.elr),
        "adding": list(partition.adding_replicas),
        "removing": list(partition.removing_replicas),
    }


def topic(seen: Seen, name: str) -> dict[str, Json] | None:
    """Return the first thousand partitions of a topic in full. None: it is not there."""
    found = seen.image.topic(name)
    if found is None:
        return None
    states = seen.image.named_partitions(name)
    return {
        "offset": seen.offset,
        "topic": name,
        "id": uuid_text(found.topic_id),
        "total": len(states),
        "partitions": [
            {"state": state_of(seen.image, each), **partition_value(each)} for each in states[:_TOPIC_MAX]
        ],
    }
