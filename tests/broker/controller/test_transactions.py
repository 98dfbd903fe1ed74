"""The active controller writes a large change in pieces, as one transaction (KIP-868)."""

from collections.abc import Callable

import pytest
import trio
import trio.testing

from quorate.broker.controller.rpc import (
    Assignment,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    NewTopic,
    TopicRef,
)
from quorate.broker.metadata.metadata_records import (
    AbortTransaction,
    BeginTransaction,
    BrokerRegistrationChange,
    EndTransaction,
)
from quorate.error_code import ErrorCode
from tests.broker.controller.controller_node import started


async def test_a_large_topic_is_created_in_pieces_as_one_change(autojump_clock) -> None:
    node = await started()
    before = len(node.log.batches)
    seen: list[int] = []

    async def look() -> None:
        while True:
            seen.append(node.log.image.partition_count())
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        assert await node.create("t", partitions=40, factor=2) == [ErrorCode.NONE]
        nursery.cancel_scope.cancel()
    written = node.log.batches[before:]
    assert max(len(batch.records) for batch in written) <= 4
    assert set(seen) <= {0, 40}
    first, *_, last = node.log.committed[written[0].base_offset :]
    assert isinstance(first, BeginTransaction)
    assert isinstance(last, EndTransaction)
    topic = node.log.image.topic("t")
    assert topic is not None
    assert [each.replicas for each in node.log.image.partitions(topic.topic_id)] == [
        each.replicas for each in node.controller.tenure.image.partitions(topic.topic_id)
    ]
    # And what follows is decided from it.
    assert await node.create("t", partitions=40) == [ErrorCode.TOPIC_ALREADY_EXISTS]
    answer = await node.ask(DeleteTopicsRequest(topics=(TopicRef(name="t"),)))
    assert answer.topics[0].error is ErrorCode.NONE


async def test_topics_of_few_partitions_are_one_batch_each_as_before() -> None:
    node = await started()
    assert await node.create("a", "b", partitions=4, factor=2) == [ErrorCode.NONE] * 2
    assert not any(isinstance(each, BeginTransaction) for each in node.log.committed)


async def test_a_large_topic_that_is_only_validated_or_refused_writes_nothing() -> None:
    node = await started()
    written = node.log.next_offset
    large = NewTopic(name="t", num_partitions=40, replication_factor=2)
    answer = await node.ask(CreateTopicsRequest(topics=(large,), validate_only=True))
    assert (answer.topics[0].error, answer.topics[0].num_partitions) == (ErrorCode.NONE, 40)
    wrong = tuple(
        Assignment(partition_id=number, replicas=(1, 1) if number == 39 else (1, 2)) for number in range(40)
    )
    answer = await node.ask(CreateTopicsRequest(topics=(NewTopic(name="t", assignments=wrong),)))
    assert answer.topics[0].error is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert node.log.next_offset == written


async def test_other_operations_wait_until_a_transaction_has_been_written(autojump_clock) -> None:
    node = await started(automatic=False)
    answers: list[object] = []

    async def ask(operation: Callable[[], object]) -> None:
        answers.append(await operation())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, lambda: node.create("t", partitions=400, factor=2))
        await trio.testing.wait_all_tasks_blocked()
        begun = node.log.next_offset
        nursery.start_soon(ask, lambda: node.beat(1, fence=True))
        nursery.start_soon(ask, lambda: node.create("t"))
        nursery.start_soon(ask, lambda: node.create("u", partitions=40))
        await trio.testing.wait_all_tasks_blocked()
        assert node.log.next_offset == begun, "a few pieces are on their way, and nothing in between"
        assert answers == []
        node.log.automatic = True
        node.log.commit()
    assert sorted(map(str, answers)) == sorted(
        map(str, ([ErrorCode.NONE], [ErrorCode.NONE], [ErrorCode.TOPIC_ALREADY_EXISTS], "fenced"))
    )
    bounds = [each for each in node.log.committed if isinstance(each, BeginTransaction | EndTransaction)]
    assert [type(each) for each in bounds] == [BeginTransaction, EndTransaction] * 2
    await trio.testing.wait_all_tasks_blocked()
    assert node.log.image.isr_count(1) == 0


async def test_a_creation_that_is_cancelled_halfway_is_aborted(autojump_clock) -> None:
    node = await started(automatic=False)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: node.create("t", partitions=400, factor=2))
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    node.log.automatic = True
    node.log.commit()
    assert node.log.committed[-1] == AbortTransaction(reason="Cancelled")
    assert not node.log.loader.in_transaction
    assert node.log.image.topic("t") is None
    assert node.controller.active
    assert await node.create("t", partitions=40) == [ErrorCode.NONE]
    assert node.log.image.partition_count() == 40


@pytest.mark.parametrize("committed", range(14))
async def test_the_next_controller_aborts_what_the_last_one_left_open(committed: int, autojump_clock) -> None:
    """Leadership is lost with any number of the batches in the log."""
    node = await started(automatic=False)
    log = node.log
    answers: list[ErrorCode] = []

    async def create() -> None:
        answers.extend(await node.create("t", partitions=40, factor=2))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(create)
        for _ in range(committed):
            await trio.testing.wait_all_tasks_blocked()
            log.commit(most=1)
        await trio.testing.wait_all_tasks_blocked()
        log.lose_leadership()
        node.controller.deactivate()
    in_transaction = log.loader.in_transaction
    ended = any(isinstance(each, EndTransaction) for each in log.committed)
    assert (log.image.partition_count() == 40) == ended
    assert ended == (committed == 13)
    if not ended:
        # Written to its end it may be committed by another, and before that it can't.
        written = committed >= 13 - 9
        assert answers == [ErrorCode.REQUEST_TIMED_OUT if written else ErrorCode.NOT_CONTROLLER]

    log.leads = log.automatic = True
    log.next_offset = log.image.offset + 1
    node.activate()
    if in_transaction:
        assert log.committed[-1] == AbortTransaction(reason="another controller")
    assert not log.loader.in_transaction
    assert log.image.partition_count() == 40 * ended
    assert log.image == node.controller.tenure.image
    again = await node.create("t", partitions=40, factor=2)
    assert again == [ErrorCode.TOPIC_ALREADY_EXISTS if ended else ErrorCode.NONE]
    assert log.image.partition_count() == 40
    assert log.image == node.controller.tenure.image


async def test_an_operation_that_waited_for_a_transaction_comes_before_the_requests_next_one() -> None:
    node = await started()
    topics = tuple(NewTopic(name=name, num_partitions=40, replication_factor=2) for name in "abcd")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.ask, CreateTopicsRequest(topics=topics))
        while not node.log.loader.in_transaction:
            await trio.lowlevel.checkpoint()
        assert await node.beat(1, fence=True) == "fenced"
    changes = [
        each
        for each in node.log.committed
        if isinstance(each, BeginTransaction)
        or (isinstance(each, BrokerRegistrationChange) and each.fenced is True)
    ]
    assert [type(each) for each in changes[:2]] == [BeginTransaction, BrokerRegistrationChange]
    assert len(changes) == 5
