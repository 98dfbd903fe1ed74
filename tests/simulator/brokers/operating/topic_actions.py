"""Operators create topics, delete, grow and shrink them, reassign their replicas and elect leaders.

They write records to their topics, and delete some, so that removed partitions have something to lose.
"""

import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode

from quorate.broker.admin import topics
from quorate.broker.admin.admin_client import AdminClient, TopicPartition
from quorate.broker.admin.topics import NewTopic
from quorate.broker.wire.wire_errors import KafkaError
from quorate.raft import OutcomeUnknownError
from quorate.runtime import Address, NetworkError
from tests.simulator.administration.admin_history import Answer
from tests.simulator.administration.intents import (
    Intent,
    create_topic,
    delete_topic,
    elect_leader,
    grow_topic,
    reassign,
    shrink_topic,
)
from tests.simulator.brokers.broker_cluster import CLUSTER_ID, CONTROLLER_PORT
from tests.simulator.brokers.one_broker import reassign_partition
from tests.simulator.brokers.operating import operator_requests as requests
from tests.simulator.brokers.operating.operator_client import Counted, OperatorClient, OwnTopic

_TOPICS_MAX: Final = 3
"""The number of topics of one operator at a time: each partition costs every step of the run."""
_PARTITIONS_MAX: Final = 5
_UNCLEAN: Final = "unclean.leader.election.enable"


async def create(operator: OperatorClient) -> None:
    """Ask for one topic or two, until there is an answer."""
    if len(operator.topics) >= _TOPICS_MAX or not await operator.settled():
        return
    asked = [_drawn_topic(operator) for _ in range(operator.random.choice((1, 1, 2)))]
    intents = {topic.name: _creation(topic) for topic in asked}
    created: dict[str, uuid.UUID | KafkaError] = {}

    async def send(admin: AdminClient) -> list[ErrorCode]:
        created.update(await topics.create_topics(admin, asked))
        results = [created[topic.name] for topic in asked]
        return [each.code if isinstance(each, KafkaError) else ErrorCode.none for each in results]

    with operator.creating():
        answers = await operator.ask_for_all(list(intents.values()), send)
        for topic, (answer, code) in zip(asked, answers, strict=True):
            times = 1
            if answer is Answer.UNKNOWN:
                send_again = partial(requests.create_topic, topic=topic)
                _, code, again = await operator.insist(intents[topic.name], send_again)
                times += again
            if code not in (ErrorCode.none, ErrorCode.topic_already_exists):
                continue
            topic_id = created.get(topic.name)
            operator.topics.append(
                OwnTopic(
                    name=topic.name,
                    topic_id=topic_id if isinstance(topic_id, uuid.UUID) else None,
                    partitions=len(topic.assignment) or topic.partitions,
                    unclean=_UNCLEAN in topic.configs,
                    once=times == 1,
                )
            )


def _drawn_topic(operator: OperatorClient) -> NewTopic:
    random = operator.random
    configs: dict[str, str] = {}
    if random.random() < 0.3:
        configs["retention.ms"] = str(30 * 86_400_000 + operator.serial())
    if random.random() < 0.2:
        configs[_UNCLEAN] = "true"
    partitions = random.choice((1, 2, 3, _PARTITIONS_MAX))
    name = operator.new_name()
    if random.random() < 0.3:
        first = operator.some_replicas()
        brokers = range(1, operator.cluster.settings.brokers + 1)
        others = [tuple(random.sample(brokers, len(first))) for _ in range(partitions - 1)]
        return NewTopic(name=name, assignment=(first, *others), configs=configs)
    return NewTopic(
        name=name,
        partitions=partitions,
        replication_factor=len(operator.some_replicas()),
        configs=configs,
    )


def _creation(topic: NewTopic) -> Intent:
    manual = topic.assignment
    return create_topic(
        topic.name,
        partitions=len(manual) or topic.partitions,
        replication_factor=len(manual[0]) if manual else topic.replication_factor,
        assignments=manual,
        configs=topic.configs,
    )


async def delete(operator: OperatorClient) -> None:
    """Delete by name or by id, once. The topic is out of use then, after any answer."""
    topic = operator.some_topic(lambda topic: topic.once)
    if topic is None:
        return
    operator.topics.remove(topic)
    by_id = topic.topic_id if operator.random.random() < 0.5 else None
    await operator.ask(
        delete_topic(topic.name, by_id), lambda admin: topics.delete_topic(admin, by_id or topic.name)
    )


async def grow(operator: OperatorClient) -> None:
    topic = operator.some_topic(
        lambda topic: topic.counted is not Counted.UNSURE and topic.partitions < _PARTITIONS_MAX
    )
    if topic is not None:
        await _grow(operator, topic)


async def _grow(operator: OperatorClient, topic: OwnTopic) -> None:
    """Ask for more partitions until there is an answer."""
    if not await operator.settled():
        return
    count = operator.random.randint(topic.partitions + 1, _PARTITIONS_MAX)
    name = topic.name
    with operator.creating():
        topic.drained.clear()
        answer, _, times = await operator.insist(
            grow_topic(name, count=count),
            lambda admin: topics.create_partitions(admin, name, count=count),
        )
    if answer is Answer.DONE or times > 1:
        # Refused after a request without an answer: that one did it.
        topic.partitions = count
    if times > 1:
        topic.counted = Counted.GROWN


async def shrink(operator: OperatorClient) -> None:
    """Shrink a topic, and often let it grow again at once: brokers that were away see both together."""
    topic = operator.some_topic(lambda topic: topic.counted is Counted.SURE and topic.partitions > 1)
    if topic is None:
        return
    count = operator.random.randint(1, topic.partitions - 1)
    answer = await _shrink(operator, topic, count)
    if answer is Answer.DONE:
        for partition_id in range(count, topic.partitions):
            topic.records_of(partition_id).removed()
        topic.partitions = count
        if operator.random.random() < 0.5:
            await _grow(operator, topic)
    elif answer is Answer.UNKNOWN:
        topic.counted = Counted.UNSURE


async def _shrink(operator: OperatorClient, topic: OwnTopic, count: int) -> Answer:
    """Ask one controller after the other until one leads."""
    cluster = operator.cluster
    network = cluster.network.for_node(operator.name)

    async def ask() -> list[ErrorCode] | None:
        try:
            for host in operator.random.sample(cluster.nodes, len(cluster.nodes)):
                controller = Address(host.name, CONTROLLER_PORT)
                code = await requests.shrink_topic(network, controller, CLUSTER_ID, topic.name, count)
                if code is not None:
                    return [code]
        except (NetworkError, OutcomeUnknownError):
            pass
        return None

    return (await operator.record([shrink_topic(topic.name, count=count)], ask))[0][0]


async def reassign_replicas(operator: OperatorClient) -> None:
    """Begin a reassignment; sometimes another one right behind it, or its cancellation."""
    topic = operator.some_topic(lambda topic: topic.counted is not Counted.UNSURE)
    if topic is None:
        return
    partition_id = operator.random.randrange(topic.partitions)
    target: tuple[int, ...] | None = operator.some_replicas()
    while True:
        await _reassign(operator, topic, partition_id, target)
        if operator.random.random() < 0.6:
            return
        target = operator.some_replicas() if operator.random.random() < 0.5 else None


async def _reassign(
    operator: OperatorClient, topic: OwnTopic, partition_id: int, target: tuple[int, ...] | None
) -> None:
    topic.drained.clear()
    answer, _ = await operator.ask(
        reassign(topic.name, partition_id, target),
        lambda admin: reassign_partition(admin, topic.name, partition_id, target),
    )
    topic.placed = topic.placed and answer is not Answer.UNKNOWN


async def elect(operator: OperatorClient) -> None:
    """Ask for a preferred leader; for any at all only where the topic allows it."""
    topic = operator.some_topic(lambda topic: topic.counted is not Counted.UNSURE)
    if topic is None:
        return
    name, partition_id = topic.name, operator.random.randrange(topic.partitions)
    unclean = topic.unclean and operator.random.random() < 0.5
    await operator.ask(
        elect_leader(name, partition_id, unclean=unclean),
        lambda admin: requests.elect_leader(admin, name, partition_id, unclean=unclean),
    )


_TO_HIGH_WATERMARK = -1
_EVERYTHING = 1 << 62


async def produce(operator: OperatorClient) -> None:
    """Write a record, and remember it if it is acknowledged."""
    topic = operator.some_topic(lambda topic: topic.counted is not Counted.UNSURE)
    if topic is None:
        return
    key = TopicPartition(topic.name, operator.random.randrange(topic.partitions))
    topic.asked += 1
    value = b"%s/%d" % (topic.name.encode(), topic.asked)
    offset = await _at_leader(operator, key, lambda admin: requests.produce(admin, key, value))
    if offset is not None:
        topic.records_of(key.partition).acknowledged(offset, value)


async def delete_records(operator: OperatorClient) -> None:
    """Delete all records of a partition, or some."""
    topic = operator.some_topic(lambda topic: topic.counted is not Counted.UNSURE and topic.asked > 0)
    if topic is None:
        return
    key = TopicPartition(topic.name, operator.random.randrange(topic.partitions))
    records = topic.records_of(key.partition)
    if operator.random.random() < 0.5:
        below = _TO_HIGH_WATERMARK
        records.deleting(_EVERYTHING)
    else:
        below = operator.random.randint(0, 2)
        records.deleting(below)
    low_watermark = await _at_leader(operator, key, lambda admin: requests.delete_records(admin, key, below))
    if low_watermark is None:
        records.not_deleted()
    else:
        records.deleted(low_watermark)


async def _at_leader(
    operator: OperatorClient,
    key: TopicPartition,
    send: Callable[[AdminClient], Awaitable[tuple[ErrorCode, int]]],
) -> int | None:
    """Ask some broker for the leader, and that one for the rest. Return the offset that it answers; None: it
    refused, or there was no answer."""
    leader = await operator.connected(lambda admin: requests.leader_of(admin, key))
    if leader is None or leader < 1:
        return None
    answer = await operator.connected(send, to=operator.cluster.nodes[leader - 1])
    said = "no answer" if answer is None else answer[0].name
    operator.cluster.trace.add(operator.name, f"{key.topic}-{key.partition}: {said}")
    return None if answer is None or answer[0] is not ErrorCode.none else answer[1]
