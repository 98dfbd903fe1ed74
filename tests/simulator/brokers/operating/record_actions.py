"""Operators write records to their topics, and delete some, so that removed partitions have something to
lose."""

from collections.abc import Awaitable, Callable

from kio.schema.errors import ErrorCode

from quorate.broker.wire import WireClient
from tests.simulator.brokers.operating import operator_requests as requests
from tests.simulator.brokers.operating.operator_client import Counted, OperatorClient, OwnTopic

_TO_HIGH_WATERMARK = -1
_EVERYTHING = 1 << 62


async def produce(operator: OperatorClient) -> None:
    """Write a record, and remember it if it is acknowledged."""
    topic = operator.some_topic(lambda topic: topic.counted is not Counted.UNSURE)
    if topic is None:
        return
    partition_id = operator.random.randrange(topic.partitions)
    topic.asked += 1
    value = b"%s/%d" % (topic.name.encode(), topic.asked)
    outcomes: list[tuple[ErrorCode, int]] = []

    async def send(connection: WireClient) -> ErrorCode:
        outcomes.append(await requests.produce(connection, topic.name, partition_id, value))
        return outcomes[-1][0]

    await _at_leader(operator, topic, partition_id, send)
    if outcomes and outcomes[0][0] is ErrorCode.none:
        topic.records_of(partition_id).acknowledged(outcomes[0][1], value)


async def delete_records(operator: OperatorClient) -> None:
    """Delete all records of a partition, or some."""
    topic = operator.some_topic(lambda topic: topic.counted is not Counted.UNSURE and topic.asked > 0)
    if topic is None:
        return
    partition_id = operator.random.randrange(topic.partitions)
    records = topic.records_of(partition_id)
    if operator.random.random() < 0.5:
        below = _TO_HIGH_WATERMARK
        records.deleting(_EVERYTHING)
    else:
        below = operator.random.randint(0, 2)
        records.deleting(below)
    outcomes: list[tuple[ErrorCode, int]] = []

    async def send(connection: WireClient) -> ErrorCode:
        outcomes.append(await requests.delete_records(connection, topic.name, partition_id, below))
        return outcomes[-1][0]

    await _at_leader(operator, topic, partition_id, send)
    if outcomes and outcomes[0][0] is ErrorCode.none:
        records.deleted(outcomes[0][1])
    else:
        records.not_deleted()


async def _at_leader(
    operator: OperatorClient,
    topic: OwnTopic,
    partition_id: int,
    send: Callable[[WireClient], Awaitable[ErrorCode]],
) -> None:
    """Ask some broker who leads, and that one for the rest."""

    leader = await operator.connected(
        lambda connection: requests.leader_of(connection, topic.name, partition_id)
    )
    if leader is None or leader < 1:
        return
    code = await operator.connected(send, to=operator.cluster.nodes[leader - 1])
    answer = "no answer" if code is None else code.name
    operator.cluster.trace.add(operator.name, f"{topic.name}-{partition_id}: {answer}")
