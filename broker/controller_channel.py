"""A node's way to the active controller, wherever that is."""

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

import trio

from quorate.broker.controller.client import ControllerClient
from quorate.broker.controller.errors import ErrorCode
from quorate.broker.controller.rpc_codec import RpcDecodeError
from quorate.broker.controller_node import CONTROLLER_REQUEST
from quorate.raft.errors import NotLeaderError, OutcomeUnknownError
from quorate.raft.quorum import Quorum
from quorate.raft.replicas import QuorumDescription

_RETRY_SECONDS: Final = 0.05


class ControllerTimedOutError(Exception):
    """No controller answered in time. What was asked may have happened."""


class _Answer(Protocol):
    @property
    def error(self) -> ErrorCode: ...


A = TypeVar("A", bound=_Answer)


class ControllerChannel:
    """Requests to the leader of the quorum; the node itself, when it leads."""

    def __init__(self, quorum: Quorum[None]) -> None:
        self._quorum = quorum
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
                    if answer.error is not ErrorCode.NOT_CONTROLLER:
                        return answer
                    problem = "the leader's controller is not active"
                except NotLeaderError as error:
                    problem = str(error)
                except (OutcomeUnknownError, RpcDecodeError) as error:
                    problem = str(error)
                    if not repeatable:
                        raise ControllerTimedOutError(
                            f"the controller's answer was lost: {problem}"
                        ) from error
                await self._pause()
        raise ControllerTimedOutError(f"no answer of a controller within {timeout_seconds:g} s: {problem}")

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
