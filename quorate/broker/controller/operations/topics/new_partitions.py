"""The records of new partitions, of new topics and of those that there are."""

import uuid
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from quorate.broker.controller.operations.online_directories import default_directory
from quorate.broker.metadata import ApiError, MetadataImage, Partition, TopicState
from quorate.error_code import ErrorCode
from quorate.runtime import Steps

MAX_NEW_PARTITIONS: Final = 10_000
"""Of all topics in one request."""
MAX_NEW_REPLICAS: Final = 50_000
"""Of one topic in one request."""
_PER_STEP: Final = 64
"""Partitions: some hundred microseconds."""


TOO_MANY: Final = (
    f"Unable to perform excessively large batch operation: at most {MAX_NEW_PARTITIONS} partitions in one "
    f"request, and {MAX_NEW_REPLICAS} replicas in one topic; ask for some of them at a time."
)


Charge: TypeAlias = Callable[[int], None]
"""Counts partitions that are to be created or deleted for a client. Raises `ApiError` if they are not to
be."""


def free(partitions: int) -> None:
    """Count nothing."""


def check_size(partitions: int, factor: int) -> None:
    """Refuse with `ApiError` more new partitions, or replicas of them, than one request may ask for."""
    if partitions > MAX_NEW_PARTITIONS or partitions * factor > MAX_NEW_REPLICAS:
        raise ApiError(ErrorCode.POLICY_VIOLATION, TOO_MANY)


def new_partitions(
    image: MetadataImage, assigned: Iterator[tuple[int, ...]], *, topic: TopicState, first: int = 0
) -> Steps[list[Partition]]:
    """Partitions `first` and following of `topic`, each with the next of the `assigned` replicas. The first
    active one leads. Raises `ApiError`, also what `assigned` raises."""
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
