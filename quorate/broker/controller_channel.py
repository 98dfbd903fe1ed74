"""A node's way to the active controller, wherever that is."""

from typing import Final, TypeVar

import trio

from quorate.broker.access.asker import Asker
from quorate.broker.controller.controller import Controller
from quorate.broker.controller.rpc import MAX_MESSAGE_BYTES, ControllerRequest, ControllerResponse
from quorate.broker.controller.rpc_codec import (
    RpcDecodeError,
    decode_answer,
    encode_for,
    encode_request,
    refused,
)
from quorate.error_code import ErrorCode
from quorate.raft import NotLeaderError, OutcomeUnknownError, Quorum, QuorumDescription
from quorate.runtime import Entropy

_RETRY_SECONDS: Final = 0.05
_SOMEBODY_ELSE: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)
"""The errors of a controller that no longer leads. With the second, the request may have been carried out."""
_ANSWER_LOST: Final = (OutcomeUnknownError, RpcDecodeError)

R = TypeVar("R", bound=ControllerResponse)


class ControllerTimedOutError(Exception):
    """No active controller answered in time. The request may have been carried out."""


class ControllerChannel:
    """Requests to the leader of the quorum; the node itself, when it leads."""

    def __init__(self, quorum: Quorum[None], controller: Controller | None, entropy: Entropy) -> None:
        """`controller`: this node's, if it may lead."""
        self._quorum = quorum
        self._controller = controller
        self._entropy = entropy

    async def ask(
        self, request: ControllerRequest[R], *, timeout_seconds: float, asker: Asker | None = None
    ) -> R:
        """The answer of the active controller, looked for until it is found. `asker`: the client for whom
        this node asks; None: it asks for itself.

        Raises `ControllerTimedOutError`, `QuorumStoppedError`.
        """
        problem = "nobody is known to lead the quorum"
        with trio.move_on_after(timeout_seconds):
            while True:
                attempt = request.attempt(self._entropy)
                try:
                    answer = await self._send(attempt, asker)
                    if answer.error not in _SOMEBODY_ELSE:
                        return answer
                    problem = answer.error_message or answer.error.name
                    unknown = answer.error is ErrorCode.REQUEST_TIMED_OUT
                except NotLeaderError as error:
                    problem, unknown = str(error), False
                except _ANSWER_LOST as error:
                    problem, unknown = str(error), True
                if unknown and not request.repeatable:
                    raise ControllerTimedOutError(f"the controller's answer was lost: {problem}")
                if unknown:
                    request = attempt.after_unknown_outcome()
                await trio.sleep(_RETRY_SECONDS)
        raise ControllerTimedOutError(f"no answer of a controller within {timeout_seconds:g} s: {problem}")

    async def _send(self, request: ControllerRequest[R], asker: Asker | None) -> R:
        if self._controller is not None and self._quorum.is_leader:
            return await self._controller.answer(request, asker)
        payload = encode_request(request) if asker is None else encode_for(asker, request)
        if len(payload) > MAX_MESSAGE_BYTES:
            why = f"the request takes {len(payload)} bytes on its way to the controller; at most "
            why += f"{MAX_MESSAGE_BYTES} are taken: ask for some of it at a time"
            return refused(request, ErrorCode.INVALID_REQUEST, why)
        return decode_answer(request, await self._quorum.request_leader(payload))

    async def describe_quorum(self, *, timeout_seconds: float) -> QuorumDescription:
        """Return the leader's description of the quorum. Raises `ControllerTimedOutError`,
        `QuorumStoppedError`."""
        try:
            return await self._quorum.ask_description(timeout_ms=round(timeout_seconds * 1000))
        except NotLeaderError as error:
            raise ControllerTimedOutError(
                f"no leader described the quorum within {timeout_seconds:g} s: {error}"
            ) from error
