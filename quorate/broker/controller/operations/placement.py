"""New partitions: the placement of their replicas on brokers, and their records."""

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Final

from quorate.broker.controller.operations.directories import default_directory
from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import Partition
from quorate.broker.metadata.states import TopicState
from quorate.error_code import ErrorCode
from quorate.runtime import Steps

_PER_STEP: Final = 64
"""Partitions: some hundred microseconds."""
NO_RACKS: Final[Mapping[int, str | None]] = MappingProxyType({})


def place(
    active: Sequence[int],
    *,
    fenced: Sequence[int] = (),
    partitions: int,
    replication_factor: int,
    start: int,
    shift: int,
    racks: Mapping[int, str | None] = NO_RACKS,
) -> Iterator[tuple[int, ...]]:
    """Return the replicas for each of `partitions` partitions, leaders first, spread evenly over racks and
    brokers.

    Leaders go round all active brokers from `start`, rack by rack. A partition's followers are in other racks
    as long as there are any, and no rack has two of its replicas more than another that has a broker left:
    the racks and the brokers within them begin `shift` places further on, one more with each full round, so
    that the partitions that a broker leads have their followers on different brokers (after Kafka's
    StripedReplicaPlacer, whose leaders are even by chance only where racks have several brokers). Brokers
    without a rack are in one.

    Fenced brokers get replicas only where the active ones are too few, and never lead: a topic can be created
    while a broker is down (KIP-841 keeps it out of the ISR until it is back). Raises `ApiError` if there are
    fewer brokers than `replication_factor`, or none is active.
    """
    total = len(active) + len(fenced)
    if not active:
        raise _unplaceable(replication_factor, "All brokers are currently fenced.")
    if replication_factor > total:
        raise _unplaceable(
            replication_factor,
            f"The target replication factor of {replication_factor} cannot be reached because only {total} "
            "broker(s) are registered.",
        )
    stripes = _Stripes(active, racks)
    spread = min(replication_factor, len(active))
    spare = sorted(fenced)

    def replicas(partition: int) -> tuple[int, ...]:
        chosen = stripes.replicas(
            (partition + start) % len(active), step=shift + partition // len(active), count=spread
        )
        for _ in range(replication_factor - spread):
            chosen.append(_fill(chosen, spare, racks, turn=partition))
        return tuple(chosen)

    return map(replicas, range(partitions))


def place_after(broker: int, *, active: Sequence[int], racks: Mapping[int, str | None]) -> int:
    """The `start` with which the broker behind `broker` leads first; 0 if that is not active."""
    return 0 if broker not in active else _Stripes(active, racks).place_of(broker) + 1


def _unplaceable(replication_factor: int, why: str) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {replication_factor} time(s): {why}",
    )


class _Stripes:
    """Brokers by rack."""

    __slots__ = ("_order", "_racks")

    def __init__(self, brokers: Iterable[int], racks: Mapping[int, str | None]) -> None:
        by_rack: dict[str | None, list[int]] = {}
        for broker in sorted(brokers):
            by_rack.setdefault(racks.get(broker), []).append(broker)
        named = sorted(by_rack, key=lambda name: (name is not None, name or ""))
        self._racks = [by_rack[name] for name in named]
        self._order = [
            (rack, index)
            for index in range(max(map(len, self._racks)))
            for rack, brokers_there in enumerate(self._racks)
            if index < len(brokers_there)
        ]
        """Places of leaders: rack and index in it. The racks take turns as long as they have brokers."""

    def place_of(self, broker: int) -> int:
        return next(
            place for place, (rack, index) in enumerate(self._order) if self._racks[rack][index] == broker
        )

    def replicas(self, place: int, *, step: int, count: int) -> list[int]:
        """Return `count` different brokers, that of `place` first. With equal racks and one `step` each of
        the others is, like it, another broker for every place."""
        racks, (home, index) = self._racks, self._order[place]
        own = racks[home]
        chosen = [own[index]]
        away = [(home + 1 + (step + nth) % (len(racks) - 1)) % len(racks) for nth in range(len(racks) - 1)]
        level = 0
        while len(chosen) < count:
            for rack in away:
                brokers = racks[rack]
                if level < len(brokers) and len(chosen) < count:
                    chosen.append(brokers[(index + step + level) % len(brokers)])
            level += 1
            if level < len(own) and len(chosen) < count:
                # With the leader's place taken, the others share what remains.
                chosen.append(own[(index + 1 + (step + level - 1) % (len(own) - 1)) % len(own)])
        return chosen


def _fill(chosen: Sequence[int], spare: Sequence[int], racks: Mapping[int, str | None], *, turn: int) -> int:
    """Return one of `spare` that is not chosen yet, of a rack with as few of the chosen as any."""
    taken = Counter(racks.get(broker) for broker in chosen)
    left = [spare[(turn + nth) % len(spare)] for nth in range(len(spare))]
    return min((broker for broker in left if broker not in chosen), key=lambda each: taken[racks.get(each)])


def check_manual(replicas: Sequence[int], *, registered: AbstractSet[int], factor: int | None) -> None:
    """Refuse with `ApiError` a manual assignment that is empty, names a broker twice, one that is not
    registered, or another number of them than `factor` where that is given."""
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if not replicas:
        raise ApiError(code, "The manual partition assignment includes an empty replica list.")
    if len(set(replicas)) != len(replicas):
        raise ApiError(
            code, f"The manual partition assignment {list(replicas)} names a broker more than once."
        )
    unknown = [broker for broker in replicas if broker not in registered]
    if unknown:
        raise ApiError(
            code, f"The manual partition assignment includes broker {unknown[0]}, but it is not registered."
        )
    if factor is not None and len(replicas) != factor:
        raise ApiError(
            code,
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), "
            f"but this is not consistent with the others, which have {factor}.",
        )


def new_partitions(
    image: MetadataImage, assigned: Iterator[tuple[int, ...]], *, topic: TopicState, first: int = 0
) -> Steps[list[Partition]]:
    """Return partitions `first` and following of `topic`, each with the next of the `assigned` replicas. The
    first active one leads. Raises `ApiError`, also what `assigned` raises."""
    partitions: list[Partition] = []
    # There are far fewer lists of replicas than partitions.
    known: dict[tuple[int, ...], tuple[tuple[int, ...], tuple[uuid.UUID, ...]]] = {}
    for partition_id, replicas in enumerate(assigned, first):
        if replicas not in known:
            known[replicas] = (
                tuple(broker for broker in replicas if image.is_active(broker)),
                tuple(default_directory(image, broker) for broker in replicas),
            )
        isr, directories = known[replicas]
        if partition_id % _PER_STEP == _PER_STEP - 1:
            yield
        if not isr:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "All brokers specified in the manual partition assignment for partition "
                f"{partition_id} are fenced or in controlled shutdown.",
            )
        partitions.append(
            Partition(
                topic_id=topic.topic_id,
                partition_id=partition_id,
                replicas=replicas,
                isr=isr,
                leader=isr[0],
                leader_epoch=topic.first_epoch(partition_id),
                directories=directories,
            )
        )
    return partitions
