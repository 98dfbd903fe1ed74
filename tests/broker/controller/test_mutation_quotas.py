"""The rate of partitions that clients have created and deleted (KIP-599), in virtual time."""

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.controller.mutation_quotas import MutationQuotas
from quorate.broker.controller.rpc import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    MorePartitions,
    NewTopic,
    Requester,
    TopicRef,
)
from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import ClientQuota, QuotaEntity
from quorate.broker.metadata.quota_precedence import CONTROLLER_MUTATION_RATE
from quorate.error_code import ErrorCode
from tests.broker.controller.controller_node import Node, running

APP = Requester(user="ann", client_id="app", strict=True)
OLD = Requester(user="ann", client_id="app", strict=False)
OTHER = Requester(user="ann", client_id="other", strict=True)
BURST_S = 11
FINE, THROTTLED = ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED


async def limited(rate: float = 1.0) -> Node:
    """A controller with a broker, and clients that may change `rate` partitions per second each."""
    node = await running(1)
    active = node.controller.tenure
    assert active is not None
    quota = ClientQuota(entity=QuotaEntity(client_id=""), key=CONTROLLER_MUTATION_RATE, value=rate)
    active.append(((quota,),))
    return node


async def create(
    node: Node, name: str, partitions: int, who: Requester | None = APP, *, validate_only: bool = False
) -> tuple[ErrorCode, int]:
    topic = NewTopic(name=name, num_partitions=partitions, replication_factor=1)
    answer = await node.ask(CreateTopicsRequest(topics=(topic,), who=who, validate_only=validate_only))
    return answer.topics[0].error, answer.throttle_ms


async def test_a_client_above_its_rate_is_refused_until_it_has_waited(autojump_clock) -> None:
    node = await limited()
    assert await create(node, "a", 11) == (FINE, 0)
    assert await create(node, "b", 5) == (FINE, 0), "the one that goes over is done"
    assert await create(node, "c", 1) == (THROTTLED, 5000)
    assert node.controller.image is not None and node.controller.image.topic("c") is None
    assert await create(node, "c", 1, OTHER) == (FINE, 0), "of a default each has a rate of its own"
    await trio.sleep(4.5)
    assert await create(node, "d", 1) == (THROTTLED, 500)
    await trio.sleep(0.5)
    assert await create(node, "d", 1) == (FINE, 0)


async def test_the_message_says_which_rate_and_when(autojump_clock) -> None:
    node = await limited(0.5)
    await create(node, "a", 10)
    answer = await node.ask(CreateTopicsRequest(topics=(NewTopic(name="b"),), who=APP))
    assert answer.topics[0].error_message == (
        "The client is above its 0.5 partitions per second (controller_mutation_rate); try again after "
        "9000 ms."
    )


async def test_an_older_client_has_its_wish_and_waits(autojump_clock) -> None:
    node = await limited()
    assert await create(node, "a", 15, OLD) == (FINE, 4000)
    assert await create(node, "b", 3, OLD) == (FINE, 7000)
    assert await create(node, "c", 1) == (THROTTLED, 7000)


async def test_brokers_themselves_have_no_rate(autojump_clock) -> None:
    node = await limited()
    for number in range(5):
        assert await create(node, f"t{number}", 20, None) == (FINE, 0)


async def test_only_what_would_be_done_counts_and_a_dry_run_too(autojump_clock) -> None:
    node = await limited()
    assert (await create(node, "bad name", 50))[0] is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert await create(node, "a", 12, validate_only=True) == (FINE, 0)
    assert await create(node, "a", 1) == (THROTTLED, 1000)


async def test_more_partitions_and_deletions_count(autojump_clock) -> None:
    node = await limited()
    assert await create(node, "a", 1, None) == (FINE, 0)
    assert await create(node, "big", 30, None) == (FINE, 0)
    more = await node.ask(CreatePartitionsRequest(topics=(MorePartitions(name="a", count=13),), who=APP))
    assert ([each.error for each in more.topics], more.throttle_ms) == ([FINE], 0)
    again = CreatePartitionsRequest(topics=(MorePartitions(name="a", count=14),), who=APP)
    refused = await node.ask(again)
    assert ([each.error for each in refused.topics], refused.throttle_ms) == ([THROTTLED], 1000)
    stays = await node.ask(DeleteTopicsRequest(topics=(TopicRef(name="a"),), who=APP))
    assert [each.error for each in stays.topics] == [THROTTLED]
    await trio.sleep(1)
    gone = await node.ask(DeleteTopicsRequest(topics=(TopicRef(name="big"), TopicRef(name="a")), who=APP))
    assert ([each.error for each in gone.topics], gone.throttle_ms) == ([FINE, THROTTLED], 30_000)
    image = node.controller.image
    assert image is not None and image.topic("big") is None and image.topic("a") is not None


async def test_in_a_request_of_many_the_first_are_done(autojump_clock) -> None:
    node = await limited()
    topics = tuple(NewTopic(name=f"t{number}", num_partitions=4, replication_factor=1) for number in range(5))
    answer = await node.ask(CreateTopicsRequest(topics=topics, who=APP))
    assert [each.error for each in answer.topics] == [FINE, FINE, FINE, THROTTLED, THROTTLED]
    assert answer.throttle_ms == 1000


@given(
    rate=st.sampled_from([0.5, 3, 40]),
    changes=st.lists(st.tuples(st.floats(0, 5), st.integers(1, 100)), min_size=1, max_size=80),
    strict=st.booleans(),
)
def test_a_client_gets_its_rate_one_burst_and_one_change(
    rate: float, changes: list[tuple[float, int]], strict: bool
) -> None:
    """A strict one whatever it does; an older one if it waits as it is told."""

    async def run() -> None:
        image = MetadataImage()
        quota = ClientQuota(entity=QuotaEntity(user="ann"), key=CONTROLLER_MUTATION_RATE, value=rate)
        image.apply(quota, offset=0, epoch=1)
        quotas = MutationQuotas(lambda: image)
        began, done = trio.current_time(), 0
        for pause, partitions in changes:
            await trio.sleep(pause)
            request = quotas.of(Requester(user="ann", client_id="app", strict=strict))
            try:
                request.charge(partitions)
            except ApiError as error:
                assert strict and error.code is THROTTLED and request.throttle_ms > 0
                continue
            done += partitions
            allowed = rate * (trio.current_time() - began + BURST_S) + partitions
            assert done <= allowed * (1 + 1e-9), f"{done} partitions of {allowed:.1f}"
            if not strict:
                await trio.sleep(request.throttle_ms / 1000)

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize("who", [APP, OLD])
async def test_a_rate_that_was_removed_holds_nobody_back(autojump_clock, who: Requester) -> None:
    node = await limited()
    await create(node, "a", 100, who)
    active = node.controller.tenure
    assert active is not None
    active.append(
        ((ClientQuota(entity=QuotaEntity(client_id=""), key=CONTROLLER_MUTATION_RATE, value=None),),)
    )
    assert await create(node, "b", 1, who) == (FINE, 0)
