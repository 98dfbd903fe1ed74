"""CreatePartitions and our ShrinkTopics: a topic gets more partitions, or loses its last ones.

Kafka has no request like ShrinkTopics. The design of its V2 controller has.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from quorate.broker.controller.operations.outcome import Outcome, decide_each
from quorate.broker.controller.operations.placement import (
    check_manual,
    new_partitions,
    place,
    place_after,
)
from quorate.broker.controller.operations.topic_limits import (
    TOO_MANY,
    Charge,
    Check,
    check_size,
    check_unprotected,
    free,
    unchecked,
)
from quorate.broker.controller.rpc import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    ExtendedTopic,
    FewerPartitions,
    MorePartitions,
    ShrinkTopicsRequest,
    ShrinkTopicsResponse,
    ShrunkTopic,
)
from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import MAX_FIRST_EPOCHS, Partition, Record, ShrinkTopic
from quorate.broker.metadata.states import TopicState
from quorate.error_code import ErrorCode
from quorate.runtime import Steps


def _hosted(image: MetadataImage, name: str) -> TopicState:
    """Return the topic. Raises `ApiError`."""
    topic = image.topic(name)
    if topic is None:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )
    return topic


def create_partitions(
    image: MetadataImage,
    request: CreatePartitionsRequest,
    *,
    asked: Mapping[str, int] | None = None,
    too_many: bool = False,
    charge: Charge = free,
    check: Check = unchecked,
) -> Steps[Outcome[CreatePartitionsResponse]]:
    """Add partitions to each topic that can get them; each is atomic. `asked`: how often each name is in the
    whole request, where this is a portion; `too_many`: the whole request asks for more partitions than one
    may; `charge`: the counter of new partitions; `check`: whether the client may. The image stays as it is
    between the steps.

    A name that is asked for more than once has one result, an error, at its first place.
    """
    if asked is None:
        asked = Counter(topic.name for topic in request.topics)
    results: dict[str, ExtendedTopic] = {}
    groups: list[tuple[Record, ...]] = []
    for item in request.topics:
        try:
            check(item.name)
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
    topic = _hosted(image, item.name)
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
    """Place the partitions behind the topic's last one, so that its leaders stay even."""
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


# Fewer


def shrink_topics(
    image: MetadataImage, request: ShrinkTopicsRequest, *, asked: Mapping[str, int] | None = None
) -> Outcome[ShrinkTopicsResponse]:
    """Remove the last partitions of each topic that can be shrunk; each is atomic. `asked`: how often each
    name is in the whole request, where this is a portion.

    The partitions and their records are removed with the record. A topic that grows again gets others of the
    same numbers, which begin with higher leader epochs (`TopicState.first_epochs`). Brokers tell them apart
    by that.
    """
    asked = Counter(topic.name for topic in request.topics) if asked is None else asked

    def decide(item: FewerPartitions) -> tuple[ShrinkTopic]:
        if asked[item.name] > 1:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        return (_shrink(image, item),)

    results, groups = decide_each(
        request.topics,
        decide,
        lambda item, error, message: ShrunkTopic(name=item.name, error=error, error_message=message),
    )
    response = ShrinkTopicsResponse(topics=tuple({each.name: each for each in results}.values()))
    return Outcome(response=response, groups=() if request.validate_only else groups)


def surplus(image: MetadataImage, item: FewerPartitions) -> int:
    """Return the number of partitions to remove from the topic."""
    topic = image.topic(item.name)
    return 0 if topic is None else max(0, len(image.partitions(topic.topic_id)) - item.count)


def _shrink(image: MetadataImage, item: FewerPartitions) -> ShrinkTopic:
    topic = _hosted(image, item.name)
    check_unprotected(item.name, "lose partitions")
    held = len(image.partitions(topic.topic_id))
    if item.count < 1:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic '{item.name}' can't have {item.count} partition(s): at least one stays. To remove all of "
            "it, delete the topic.",
        )
    if item.count >= held:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic '{item.name}' currently has {held} partition(s); {item.count} would not be a "
            "decrease.",
        )
    steps = topic.first_epochs
    if len(steps) >= MAX_FIRST_EPOCHS and item.count > steps[-1].partition_id:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"Topic '{item.name}' was shrunk in {MAX_FIRST_EPOCHS} steps, each above the last; shrink it to "
            f"{steps[-1].partition_id} partition(s) or fewer, or make a new topic.",
        )
    return ShrinkTopic(topic_id=topic.topic_id, num_partitions=item.count)
