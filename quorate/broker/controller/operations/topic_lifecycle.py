"""CreateTopics and DeleteTopics."""

import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from quorate.broker.controller.operations.outcome import Outcome
from quorate.broker.controller.operations.placement import check_manual, new_partitions, place
from quorate.broker.controller.operations.topic_limits import (
    MAX_NEW_PARTITIONS,
    TOO_MANY,
    Charge,
    Check,
    check_name,
    check_size,
    check_unprotected,
    free,
    unchecked,
)
from quorate.broker.controller.rpc import (
    CreatedTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewTopic,
    TopicRef,
)
from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.configs import check_together, check_value
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import Config, ConfigType, Partition, Record, RemoveTopic, Topic
from quorate.broker.metadata.states import PartitionState, TopicState
from quorate.broker.settings.broker_settings import TopicSettings
from quorate.error_code import ErrorCode
from quorate.present import present
from quorate.runtime import Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """The random numbers of one new topic. `start` and `shift` are any non-negative integers."""

    topic_id: uuid.UUID
    start: int
    shift: int


def partitions_asked_for(topic: NewTopic, defaults: TopicSettings) -> int:
    """Return the number of partitions that the request asks for."""
    if topic.assignments:
        return len(topic.assignments)
    return defaults.num_partitions if topic.num_partitions == -1 else max(1, topic.num_partitions)


def create_topics(
    image: MetadataImage,
    request: CreateTopicsRequest,
    *,
    draws: Sequence[Draw],
    defaults: TopicSettings,
    asked: Mapping[str, int] | None = None,
    too_many: bool | None = None,
    charge: Charge = free,
    check: Check = unchecked,
) -> Steps[Outcome[CreateTopicsResponse]]:
    """Create each topic that can be; each is atomic. `draws`: one for each topic asked for, in order.
    `asked`: how often each name is in the whole request, where this is a portion; `too_many`: whether that is
    for more partitions than one may ask for; `charge`: the counter of new partitions; `check`: whether the
    client may create it. The image stays as it is between the steps.

    A name that is asked for more than once has one result, an error, at its first place.
    """
    if asked is None:
        asked = Counter(topic.name for topic in request.topics)
    if too_many is None:
        too_many = asks_too_much(request, defaults)
    collisions = _CollidingNames(image)
    results: list[CreatedTopic] = []
    groups: list[tuple[Record, ...]] = []
    ids: set[uuid.UUID] = set()
    for topic, draw in zip(request.topics, draws, strict=True):
        try:
            check(topic.name)
            if asked[topic.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if too_many:
                raise ApiError(ErrorCode.POLICY_VIOLATION, TOO_MANY)
            held = image.topic(topic.name)
            if held is not None and held.topic_id in topic.earlier_ids:
                results.append(_created(topic.name, held.topic_id, image.partitions(held.topic_id)))
                continue
            if held is not None:
                raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
            check_name(topic.name)
            topic_id = draw.topic_id if topic.topic_id is None else topic.topic_id
            if topic_id in ids or image.topic_by_id(topic_id) is not None:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"Another topic has the id {topic_id}.")
            collisions.claim(topic.name)
            configs = _config_records(topic)
            partitions = yield from _partitions(image, topic, topic_id=topic_id, draw=draw, defaults=defaults)
            charge(len(partitions))
        except ApiError as error:
            results.append(CreatedTopic(name=topic.name, error=error.code, error_message=error.message))
            continue
        ids.add(topic_id)
        groups.append((Topic(name=topic.name, topic_id=topic_id), *configs, *partitions))
        results.append(_created(topic.name, topic_id, partitions))
    response = CreateTopicsResponse(topics=tuple({each.name: each for each in results}.values()))
    return Outcome(response=response, groups=() if request.validate_only else tuple(groups))


def asks_too_much(request: CreateTopicsRequest, defaults: TopicSettings) -> bool:
    """Return whether all topics together would have more partitions than one request may create."""
    return sum(partitions_asked_for(topic, defaults) for topic in request.topics) > MAX_NEW_PARTITIONS


def _created(
    name: str, topic_id: uuid.UUID, partitions: Sequence[Partition | PartitionState]
) -> CreatedTopic:
    return CreatedTopic(
        name=name,
        topic_id=topic_id,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
    )


class _CollidingNames:
    """Names that differ in '.' and '_' only, which metric names can't tell apart. The image is scanned once,
    and only if a name has either."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._taken: dict[str, str] | None = None

    def claim(self, name: str) -> None:
        if "." not in name and "_" not in name:
            return
        if self._taken is None:
            self._taken = {
                held.replace(".", "_"): held
                for held in self._image.topic_names()
                if "." in held or "_" in held
            }
        other = self._taken.setdefault(name.replace(".", "_"), name)
        if other != name:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}"
            )


def _config_records(topic: NewTopic) -> list[Config]:
    values: Mapping[str, str | None] = {entry.name: entry.value for entry in topic.configs}
    records: list[Config] = []
    for name, value in values.items():
        if value is None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}")
        check_value(name, value, of=ConfigType.TOPIC)
        records.append(
            Config(resource_type=ConfigType.TOPIC, resource_name=topic.name, name=name, value=value)
        )
    check_together({record.name: record.value for record in records if record.value is not None})
    return records


def _partitions(
    image: MetadataImage, topic: NewTopic, *, topic_id: uuid.UUID, draw: Draw, defaults: TopicSettings
) -> Steps[list[Partition]]:
    if topic.assignments:
        assigned = _manual(image, topic)
    else:
        assigned = _automatic(image, topic, draw=draw, defaults=defaults)
    return (yield from new_partitions(image, assigned, topic=TopicState(name=topic.name, topic_id=topic_id)))


def _manual(image: MetadataImage, topic: NewTopic) -> Iterator[tuple[int, ...]]:
    if topic.replication_factor != -1:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if topic.num_partitions != -1:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    check_size(len(topic.assignments), 0)
    ordered = sorted(topic.assignments, key=lambda each: each.partition_id)
    if [each.partition_id for each in ordered] != list(range(len(ordered))):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    factor = len(ordered[0].replicas)
    check_size(len(ordered), factor)
    for each in ordered:
        check_manual(each.replicas, registered=image.brokers.keys(), factor=factor)
        yield each.replicas


def _automatic(
    image: MetadataImage, topic: NewTopic, *, draw: Draw, defaults: TopicSettings
) -> Iterator[tuple[int, ...]]:
    if topic.replication_factor == 0 or topic.replication_factor < -1:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions == 0 or topic.num_partitions < -1:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions must be larger than 0, or -1 to use the default value.",
        )
    count = defaults.num_partitions if topic.num_partitions == -1 else topic.num_partitions
    factor = defaults.replication_factor if topic.replication_factor == -1 else topic.replication_factor
    active = [broker.broker_id for broker in image.brokers.values() if broker.active]
    fenced = [broker.broker_id for broker in image.brokers.values() if not broker.active]
    check_size(count, min(factor, len(image.brokers)))
    return place(
        active,
        fenced=fenced,
        partitions=count,
        replication_factor=factor,
        start=draw.start,
        shift=draw.shift,
        racks={broker.broker_id: broker.rack for broker in image.brokers.values()},
    )


def delete_topics(
    image: MetadataImage,
    request: DeleteTopicsRequest,
    *,
    asked: Mapping[TopicRef, int] | None = None,
    charge: Charge = free,
    check: Check = unchecked,
) -> Outcome[DeleteTopicsResponse]:
    """Delete each topic named; each is atomic. `asked`: how often each is in the whole request, where this is
    a portion; `charge`: the counter of deleted partitions; `check`: whether the client may.

    A topic that is asked for more than once, by its name and by its id too, stays. It has one result for its
    name, and one for its id.
    """
    if asked is None:
        asked = Counter(request.topics)
    results: dict[TopicRef, DeletedTopic] = {}
    groups: list[tuple[Record, ...]] = []
    for ref in request.topics:
        try:
            if (ref.name is None) == (ref.topic_id is None):
                raise ApiError(
                    ErrorCode.INVALID_REQUEST, "Name a topic by its name or by its id, not by both."
                )
            if asked[ref] > 1:
                kind = "id" if ref.name is None else "name"
                raise ApiError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {kind}.")
            if ref.name is not None:
                # First: a refusal doesn't say whether there is such a topic.
                check(ref.name)
            topic = _find(image, ref)
            if ref.name is None:
                check(topic.name)
            other = TopicRef(topic_id=topic.topic_id) if ref.topic_id is None else TopicRef(name=topic.name)
            if asked.get(other):
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    "The provided topic name maps to an ID that was already supplied.",
                )
            check_unprotected(topic.name, "be deleted")
            charge(len(image.partitions(topic.topic_id)))
        except ApiError as error:
            results[ref] = DeletedTopic(
                name=ref.name, topic_id=ref.topic_id, error=error.code, error_message=error.message
            )
            continue
        groups.append((RemoveTopic(topic_id=topic.topic_id),))
        results[ref] = DeletedTopic(name=topic.name, topic_id=topic.topic_id)
    return Outcome(response=DeleteTopicsResponse(topics=tuple(results.values())), groups=tuple(groups))


def partitions_of(image: MetadataImage, ref: TopicRef) -> int:
    """Return the number of partitions of the topic; 0 if there is none."""
    topic = None if ref.name is None else image.topic(ref.name)
    topic_id = ref.topic_id if topic is None else topic.topic_id
    return 0 if topic_id is None else len(image.partitions(topic_id))


def _find(image: MetadataImage, ref: TopicRef) -> TopicState:
    if ref.name is not None:
        topic = image.topic(ref.name)
        if topic is None:
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
            )
    else:
        topic = image.topic_by_id(present(ref.topic_id, "the topic's id"))
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    return topic
