"""ShrinkTopics: topics lose their last partitions. Kafka has no such request; its V2 controller's design
has."""

from collections import Counter
from collections.abc import Mapping

from quorate.broker.controller.operations.outcome import Outcome
from quorate.broker.controller.operations.topics.protected_topics import check_unprotected
from quorate.broker.controller.rpc import (
    FewerPartitions,
    ShrinkTopicsRequest,
    ShrinkTopicsResponse,
    ShrunkTopic,
)
from quorate.broker.metadata import MAX_FIRST_EPOCHS, ApiError, MetadataImage, Record, ShrinkTopic
from quorate.error_code import ErrorCode


def shrink_topics(
    image: MetadataImage, request: ShrinkTopicsRequest, *, asked: Mapping[str, int] | None = None
) -> Outcome[ShrinkTopicsResponse]:
    """Take from each topic that can be shrunk its last partitions; each is atomic. `asked`: how often each
    name is in the whole request, where this is a portion.

    The partitions and what is in them are gone with the record. A topic that grows again gets others of the
    same numbers, which begin with higher leader epochs (`TopicState.first_epochs`): brokers tell them apart
    by that.
    """
    if asked is None:
        asked = Counter(topic.name for topic in request.topics)
    results: dict[str, ShrunkTopic] = {}
    groups: list[tuple[Record, ...]] = []
    for item in request.topics:
        try:
            if asked[item.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            record = _shrink(image, item)
        except ApiError as error:
            results.setdefault(
                item.name, ShrunkTopic(name=item.name, error=error.code, error_message=error.message)
            )
            continue
        groups.append((record,))
        results[item.name] = ShrunkTopic(name=item.name)
    response = ShrinkTopicsResponse(topics=tuple(results.values()))
    return Outcome(response=response, groups=() if request.validate_only else tuple(groups))


def surplus(image: MetadataImage, item: FewerPartitions) -> int:
    """Return the number of partitions to remove from the topic."""
    topic = image.topic(item.name)
    return 0 if topic is None else max(0, len(image.partitions(topic.topic_id)) - item.count)


def _shrink(image: MetadataImage, item: FewerPartitions) -> ShrinkTopic:
    topic = image.topic(item.name)
    if topic is None:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )
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
