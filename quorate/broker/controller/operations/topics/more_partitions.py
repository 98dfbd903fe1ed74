"""CreatePartitions: more partitions for topics that there are."""

from collections import Counter
from collections.abc import Iterator, Mapping

from quorate.broker.controller.operations.outcome import Outcome
from quorate.broker.controller.operations.topics.new_partitions import (
    TOO_MANY,
    Charge,
    check_size,
    free,
    new_partitions,
)
from quorate.broker.controller.operations.topics.placement import check_manual, place, place_after
from quorate.broker.controller.operations.topics.protected_topics import check_unprotected
from quorate.broker.controller.rpc import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    ExtendedTopic,
    MorePartitions,
)
from quorate.broker.metadata import ApiError, MetadataImage, Partition, Record, TopicState
from quorate.error_code import ErrorCode
from quorate.runtime import Steps


def create_partitions(
    image: MetadataImage,
    request: CreatePartitionsRequest,
    *,
    asked: Mapping[str, int] | None = None,
    too_many: bool = False,
    charge: Charge = free,
) -> Steps[Outcome[CreatePartitionsResponse]]:
    """Add to each topic that can be added to; each is atomic. `asked`: how often each name is in the whole
    request, where this is a portion; `too_many`: that is for more partitions than one may ask for;
    `charge`: who counts new partitions. The image stays as it is between the steps.

    A name that is asked for more than once has one result, an error, at its first place.
    """
    if asked is None:
        asked = Counter(topic.name for topic in request.topics)
    results: dict[str, ExtendedTopic] = {}
    groups: list[tuple[Record, ...]] = []
    for item in request.topics:
        try:
            if asked[item.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if too_many:
                raise ApiError(ErrorCode.POLICY_VIOLATION, TOO_MANY)
            partitions = yield from _more(image, item)
            if partitions:
                charge(len(partitions))
        except ApiError as error:
            results.setdefault(
                item.name, ExtendedTopic(name=item.name, error=error.code, error_message=error.message)
            )
            continue
        if partitions:
            groups.append(tuple(partitions))
        results[item.name] = ExtendedTopic(name=item.name)
    response = CreatePartitionsResponse(topics=tuple(results.values()))
    return Outcome(response=response, groups=() if request.validate_only else tuple(groups))


def additional(image: MetadataImage, item: MorePartitions) -> int:
    """Return the number of partitions to add to the topic; 0 if it can't get any."""
    topic = image.topic(item.name)
    return 0 if topic is None else max(0, item.count - len(image.partitions(topic.topic_id)))


def _more(image: MetadataImage, item: MorePartitions) -> Steps[list[Partition]]:
    topic = image.topic(item.name)
    if topic is None:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )
    check_unprotected(item.name, "get more partitions")
    held = image.partitions(topic.topic_id)
    if item.count == len(held):
        if item.may_be_done:
            return []
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS, f"Topic '{item.name}' already has {len(held)} partition(s)."
        )
    if item.count < len(held):
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic '{item.name}' currently has {len(held)} partition(s); {item.count} would not be an "
            "increase.",
        )
    # While a partition moves, its list is longer.
    more, factor = item.count - len(held), len(held[0].target_replicas)
    if item.assignments is not None and len(item.assignments) != more:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {more} additional partition(s), but {len(item.assignments)} assignment(s) "
            "were specified.",
        )
    check_size(more, factor)
    if item.assignments is not None:
        assigned = _manual(image, item.assignments, factor=factor)
    else:
        assigned = _automatic(image, topic, more=more, factor=factor)
    return (yield from new_partitions(image, assigned, topic=topic, first=len(held)))


def _manual(
    image: MetadataImage, assignments: tuple[tuple[int, ...], ...], *, factor: int
) -> Iterator[tuple[int, ...]]:
    for replicas in assignments:
        check_manual(replicas, registered=image.brokers.keys(), factor=factor)
        yield replicas


def _automatic(
    image: MetadataImage, topic: TopicState, *, more: int, factor: int
) -> Iterator[tuple[int, ...]]:
    """Goes on behind the topic's last partition, so that its leaders stay even."""
    held = image.partitions(topic.topic_id)
    brokers = image.brokers.values()
    active = [broker.broker_id for broker in brokers if broker.active]
    racks = {broker.broker_id: broker.rack for broker in brokers}
    return place(
        active,
        fenced=[broker.broker_id for broker in brokers if not broker.active],
        partitions=more,
        replication_factor=factor,
        start=place_after(held[-1].replicas[0], active=active, racks=racks),
        shift=len(held),
        racks=racks,
    )
