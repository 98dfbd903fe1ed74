"""What a node asks the active controller, through changes of who that is."""

import random
import uuid
from typing import Any, cast

import pytest

from quorate.broker.controller.rpc import (
    ControllerRequest,
    ControllerResponse,
    CreatedTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    NewTopic,
    TopicRef,
)
from quorate.broker.controller.rpc_codec import Refusal, decode_request, encode_response
from quorate.broker.controller_channel import ControllerChannel, ControllerTimedOutError
from quorate.error_code import ErrorCode
from quorate.raft.quorum_errors import NotLeaderError, OutcomeUnknownError
from quorate.runtime.entropy import Entropy
from quorate.types import Epoch

Step = Exception | ErrorCode | None
"""What comes of an attempt: an exception, a refusal, or it is carried out."""

NOT_LEADER = NotLeaderError(leader=None, epoch=Epoch(1))
LOST = OutcomeUnknownError("the connection broke")


class Leaders:
    """Those that the channel meets, one after the other; the last one stays."""

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps)
        self.asked: list[ControllerRequest[ControllerResponse]] = []
        self.is_leader = False

    async def request_leader(self, payload: bytes) -> bytes:
        request = decode_request(payload)
        self.asked.append(request)
        step = self._steps.pop(0) if self._steps else None
        if isinstance(step, Exception):
            raise step
        return encode_response(_answer(request, ErrorCode.NONE if step is None else step))

    @property
    def creations(self) -> list[NewTopic]:
        return [request.topics[0] for request in self.asked if isinstance(request, CreateTopicsRequest)]


def _answer(request: ControllerRequest[ControllerResponse], error: ErrorCode) -> ControllerResponse:
    if isinstance(request, CreateTopicsRequest):
        topics = tuple(CreatedTopic(name=topic.name, topic_id=topic.topic_id) for topic in request.topics)
        return CreateTopicsResponse(error=error, topics=() if error else topics)
    assert isinstance(request, DeleteTopicsRequest)
    gone = tuple(DeletedTopic(name=ref.name, topic_id=ref.topic_id) for ref in request.topics)
    return DeleteTopicsResponse(error=error, topics=() if error else gone)


def channel_to(leaders: Leaders) -> ControllerChannel:
    return ControllerChannel(cast(Any, leaders), None, Entropy(random.Random(1)))


DELETION = DeleteTopicsRequest(topics=(TopicRef(topic_id=uuid.UUID(int=7)),))


@pytest.mark.parametrize("step", [LOST, ErrorCode.REQUEST_TIMED_OUT])
async def test_a_creation_whose_outcome_is_unknown_is_asked_again_under_another_id(
    autojump_clock, step: Step
) -> None:
    """Else who has created a topic hears that it exists already."""
    leaders = Leaders(step, NOT_LEADER, ErrorCode.NOT_CONTROLLER, step)
    request = CreateTopicsRequest(topics=(NewTopic(name="t"),))
    answer = await channel_to(leaders).ask(request, timeout_seconds=30)
    ids = [topic.topic_id for topic in leaders.creations]
    assert None not in ids
    assert len(set(ids)) == 5
    assert answer.topics[0].topic_id == ids[-1]
    # Where nothing can have happened, there is nothing to look for.
    assert [topic.earlier_ids for topic in leaders.creations] == [
        (),
        (ids[0],),
        (ids[0],),
        (ids[0],),
        (ids[0], ids[3]),
    ]


@pytest.mark.parametrize("step", [LOST, ErrorCode.REQUEST_TIMED_OUT])
async def test_a_deletion_whose_outcome_is_unknown_is_not_asked_again(autojump_clock, step: Step) -> None:
    """Somebody else may have created a topic of that name since."""
    leaders = Leaders(NOT_LEADER, ErrorCode.NOT_CONTROLLER, step)
    with pytest.raises(ControllerTimedOutError, match="answer was lost"):
        await channel_to(leaders).ask(DELETION, timeout_seconds=30)
    assert len(leaders.asked) == 3


class Uncomprehending:
    """A leader of a version that knows no such request."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_leader = False

    async def request_leader(self, payload: bytes) -> bytes:
        self.asked += 1
        return encode_response(Refusal(error=ErrorCode.INVALID_REQUEST, error_message="no such API"))


@pytest.mark.parametrize("request_", [DELETION, CreateTopicsRequest(topics=(NewTopic(name="t"),))])
async def test_a_request_that_the_controller_does_not_understand_is_answered_at_once(
    request_: ControllerRequest[ControllerResponse],
) -> None:
    """It was asked again until the time was up, 20 times a second and each time with a line in its log."""
    leader = Uncomprehending()
    channel = ControllerChannel(cast(Any, leader), None, Entropy(random.Random(1)))
    answer = await channel.ask(request_, timeout_seconds=30)
    assert (answer.error, leader.asked) == (ErrorCode.INVALID_REQUEST, 1)
    assert answer.error_message is not None
    assert answer.error_message.endswith("no such API")


async def test_a_request_above_the_controllers_limit_is_refused_before_it_is_sent() -> None:
    leader = Uncomprehending()
    channel = ControllerChannel(cast(Any, leader), None, Entropy(random.Random(1)))
    large = CreateTopicsRequest(topics=tuple(NewTopic(name="t" * 30_000) for _ in range(300)))
    answer = await channel.ask(large, timeout_seconds=30)
    assert (answer.error, leader.asked) == (ErrorCode.INVALID_REQUEST, 0)
    assert answer.error_message is not None
    assert "ask for some of it at a time" in answer.error_message


async def test_a_node_that_leads_asks_its_own_controller_with_the_object_itself() -> None:
    asked: list[object] = []

    class Own:
        async def answer(self, request: object, asker: object) -> DeleteTopicsResponse:
            assert asker is None, "the node asks for itself"
            asked.append(request)
            return DeleteTopicsResponse()

    leaders = Leaders()
    leaders.is_leader = True
    channel = ControllerChannel(cast(Any, leaders), cast(Any, Own()), Entropy(random.Random(1)))
    await channel.ask(DELETION, timeout_seconds=2)
    assert asked[0] is DELETION
    assert not leaders.asked
    leaders.is_leader = False
    await channel.ask(DELETION, timeout_seconds=2)
    assert leaders.asked == [DELETION]


async def test_a_request_without_an_answer_in_time_raises_an_error_with_the_last_cause(
    autojump_clock,
) -> None:
    leaders = Leaders(*[NOT_LEADER] * 1000)
    with pytest.raises(ControllerTimedOutError, match=r"within 2 s: .*nobody is known to lead"):
        await channel_to(leaders).ask(DELETION, timeout_seconds=2)
