"""A node's way to the active controller, wherever that is."""

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, Protocol, TypeVar

import trio

from quorate.broker.controller.rpc import (
    ControllerClient,
    CreateTopicsRequest,
    CreateTopicsResponse,
    NewTopic,
    RpcDecodeError,
)
from quorate.broker.controller_node import CONTROLLER_REQUEST
from quorate.error_code import ErrorCode
from quorate.raft import NotLeaderError, OutcomeUnknownError, Quorum, QuorumDescription
from quorate.runtime import Entropy

_RETRY_SECONDS: Final = 0.05
_SOMEBODY_ELSE: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)
"""A controller answers so that leads no more; with the second, what was asked may have happened."""
_ANSWER_LOST: Final = (OutcomeUnknownError, RpcDecodeError)


class ControllerTimedOutError(Exception):
    """No controller answered in time. What was asked may have happened."""


class _Answer(Protocol):
    @property
    def error(self) -> ErrorCode: ...

    @property
    def error_message(self) -> str | None: ...


A = TypeVar("A", bound=_Answer)


class ControllerChannel:
    """Requests to the leader of the quorum; the node itself, when it leads."""

    def __init__(self, quorum: Quorum[None], entropy: Entropy) -> None:
        self._quorum = quorum
        self._entropy = entropy
        self._client = ControllerClient(self._send)

    async def ask(
        self,
        request: Callable[[ControllerClient], Awaitable[A]],
        *,
        timeout_seconds: float,
        repeatable: bool = True,
    ) -> A:
        """The answer of the active controller, looked for until it is found.

        `repeatable`: whether the request may be sent again when it is not known whether it was carried out.
        Raises `ControllerTimedOutError`, `QuorumStoppedError`.
        """
        problem = "nobody is known to lead the quorum"
        with trio.move_on_after(timeout_seconds):
            while True:
                try:
                    answer = await request(self._client)
                    if answer.error not in _SOMEBODY_ELSE:
                        return answer
                    problem = answer.error_message or answer.error.name
                    unknown = answer.error is ErrorCode.REQUEST_TIMED_OUT
                except NotLeaderError as error:
                    problem, unknown = str(error), False
                except _ANSWER_LOST as error:
                    problem, unknown = str(error), True
                if unknown and not repeatable:
                    raise ControllerTimedOutError(f"the controller's answer was lost: {problem}")
                await self._pause()
        raise ControllerTimedOutError(f"no answer of a controller within {timeout_seconds:g} s: {problem}")

    async def create_topics(
        self, request: CreateTopicsRequest, *, timeout_seconds: float
    ) -> CreateTopicsResponse:
        """As `ask`. What is asked again knows by its ids the topics that it has created already."""
        topics = request.topics

        async def attempt(client: ControllerClient) -> CreateTopicsResponse:
            nonlocal topics
            before, ids = topics, [self._entropy.uuid() for _ in topics]
            drawn = tuple(map(_with_id, topics, ids))
            # Until it is known that nothing happened.
            topics = tuple(map(_with_earlier_id, topics, ids))
            try:
                answer = await client.create_topics(replace(request, topics=drawn))
            except NotLeaderError:
                topics = before
                raise
            if answer.error is ErrorCode.NOT_CONTROLLER:
                topics = before
            return answer

        return await self.ask(attempt, timeout_seconds=timeout_seconds)

    async def describe_quorum(self, *, timeout_seconds: float) -> QuorumDescription:
        """As the leader knows it. Raises `ControllerTimedOutError`, `QuorumStoppedError`."""
        try:
            return await self._quorum.ask_description(timeout_ms=round(timeout_seconds * 1000))
        except NotLeaderError as error:
            raise ControllerTimedOutError(
                f"no leader described the quorum within {timeout_seconds:g} s: {error}"
            ) from error

    async def _send(self, payload: bytes) -> bytes:
        return await self._quorum.request_leader(CONTROLLER_REQUEST + payload)

    async def _pause(self) -> None:
        await trio.sleep(_RETRY_SECONDS)


def _with_id(topic: NewTopic, topic_id: uuid.UUID) -> NewTopic:
    return replace(topic, topic_id=topic_id)


def _with_earlier_id(topic: NewTopic, topic_id: uuid.UUID) -> NewTopic:
    return replace(topic, earlier_ids=(*topic.earlier_ids, topic_id))
