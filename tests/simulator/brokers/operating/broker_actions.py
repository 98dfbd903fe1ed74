"""Operators remove the registrations of brokers, and reassign replicas away from one."""

from collections.abc import Iterator

import trio

from quorate.broker.admin import brokers
from quorate.broker.metadata.states import PartitionState
from tests.simulator.administration.admin_history import Answer
from tests.simulator.administration.intents import reassign, unregister_broker
from tests.simulator.brokers.one_broker import reassign_partition
from tests.simulator.brokers.operating.operator_client import Counted, OperatorClient, OwnTopic


async def unregister(operator: OperatorClient) -> None:
    """Remove a broker's registration, whether or not the broker runs; one that does registers again.

    Its replicas are out of every ISR then, as if it had lost its disk. So it counts as one that has; and no
    topic is created meanwhile, which might be whole on this broker alone. The request names no broker epoch:
    one without an answer may remove a later registration too, so its operator rests until the end.
    """
    cluster, node = operator.cluster, operator.some_host()
    if cluster.unregistering or not (operator.budget.is_spare(node) and operator.budget.take_for_good(node)):
        return
    cluster.unregistering += 1
    try:
        answer, _ = await operator.ask(
            unregister_broker(node.id), lambda admin: brokers.unregister_broker(admin, node.id)
        )
        if answer is Answer.UNKNOWN:
            await operator.finishing.wait()
    finally:
        cluster.unregistering -= 1


async def drain(operator: OperatorClient) -> None:
    """Reassign each replica of one topic away from a broker, if possible to a broker without one, and wait
    until it is gone."""
    topic = operator.some_topic(lambda topic: topic.counted is Counted.SURE and topic.placed)
    settings = operator.cluster.settings
    if topic is None or settings.brokers <= settings.min_isr:
        return
    broker_id = operator.some_host().id
    for partition_id, state in enumerate(_states(operator, topic)):
        if broker_id in state.replicas and not await _reassign_off(operator, topic, partition_id, broker_id):
            return
    while any(broker_id in state.replicas for state in _states(operator, topic)):
        if operator.finishing.is_set():
            return
        await trio.sleep(0.1)
    topic.drained.add(broker_id)
    operator.cluster.trace.add(operator.name, f"{topic.name} has left broker {broker_id}")


def _states(operator: OperatorClient, topic: OwnTopic) -> tuple[PartitionState, ...]:
    image = operator.history.image
    found = image.topic(topic.name)
    return () if found is None else tuple(image.partitions(found.topic_id))


async def _reassign_off(operator: OperatorClient, topic: OwnTopic, partition_id: int, broker_id: int) -> bool:
    """Ask until there is an answer; whether it was granted. Requests without one may yet be carried out, and
    ask for the same."""
    state = _states(operator, topic)[partition_id]
    target = tuple(_elsewhere(operator, state.target_replicas, broker_id))
    topic.drained.clear()
    answer, _, times = await operator.insist(
        reassign(topic.name, partition_id, target),
        lambda admin: reassign_partition(admin, topic.name, partition_id, target),
    )
    topic.placed = times == 1
    return answer is Answer.DONE


def _elsewhere(operator: OperatorClient, replicas: tuple[int, ...], broker_id: int) -> Iterator[int]:
    """Yield the brokers that have the partition when that one no longer has it: as many as before, if there
    are so many, and never fewer than min.insync.replicas."""
    yield from (each for each in replicas if each != broker_id)
    if broker_id in replicas:
        everybody = range(1, operator.cluster.settings.brokers + 1)
        yield from [each for each in everybody if each not in replicas][:1]
