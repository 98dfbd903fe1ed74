"""The program of a node in a child process. It has a trio loop of its own, and ends with its parent."""

import inspect
import pickle
import traceback
from collections.abc import Callable
from functools import partial
from typing import Final, cast

import trio

from quorate.raft.doors.child_messages import (
    Answer,
    Call,
    Cancel,
    Ended,
    Loader,
    Messages,
    Opened,
    Start,
    Stop,
    dump_error,
)
from quorate.raft.doors.child_node import note_child
from quorate.raft.quorum import Quorum
from quorate.raft.quorum_errors import OutcomeUnknownError, QuorumConfigError, QuorumError
from quorate.raft.state_machine.interface import StateMachine
from quorate.runtime.real import inherited_stream, is_orphan

_ORPHAN_S: Final = 1.0
"""The time between two looks at whether the parent has ended while a fork of it keeps the socket open."""
_LAST_CALLS_S: Final = 1.0
"""The time that calls get to end when the quorum has stopped."""


def main(descriptor: int, parent: int) -> None:
    """Run the node of the parent on the other end of the socket `descriptor`."""
    note_child()
    trio.run(_main, descriptor, parent)


async def _main(descriptor: int, parent: int) -> None:
    messages = Messages(inherited_stream(descriptor))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(messages.run_sender)
        failure = await _run(messages, parent)
        messages.send_last(Ended(None if failure is None else dump_error(failure)))


async def _run(messages: Messages, parent: int) -> Exception | None:
    """Run the node until the parent stops it or ends. Return the error that stopped it."""
    start = await messages.receive()
    if not isinstance(start, Start):
        return None
    loader = Loader(start.main)
    try:
        factory = cast("Callable[[], StateMachine[object]]", _loaded_factory(loader, start.factory))
        machine = factory()
    except Exception as error:
        return error
    failure: Exception | None = None
    async with trio.open_nursery() as calls:
        try:
            async with Quorum.open(start.config, machine) as quorum:
                messages.send(Opened())
                await _Service(quorum, machine, messages, loader, calls).run(parent)
        except Exception as error:
            failure = error
        calls.cancel_scope.deadline = trio.current_time() + _LAST_CALLS_S
    return failure


def _loaded_factory(loader: Loader, factory: bytes) -> object:
    try:
        return loader.load(factory)
    except QuorumError:
        raise
    except Exception as error:
        raise QuorumConfigError(
            f"the state machine's factory can't be imported in the node's process ({error}); define it at "
            "the top of a module that can be"
        ) from error


class _Service:
    """The answers to the parent's calls."""

    def __init__(
        self,
        quorum: Quorum[object],
        machine: object,
        messages: Messages,
        loader: Loader,
        nursery: trio.Nursery,
    ) -> None:
        self._quorum = quorum
        self._machine = machine
        self._messages = messages
        self._loader = loader
        self._nursery = nursery
        self._scopes: dict[int, trio.CancelScope] = {}

    async def run(self, parent: int) -> None:
        """Answer until the parent asks for the stop, or has ended."""
        while True:
            message: object = None
            with trio.move_on_after(_ORPHAN_S) as waiting:
                message = await self._messages.receive()
            if waiting.cancelled_caught:
                if is_orphan(parent):
                    break
                continue
            match message:
                case Call():
                    scope = self._scopes[message.number] = trio.CancelScope()
                    self._nursery.start_soon(self._answer, message, scope)
                case Cancel(number):
                    if number in self._scopes:
                        self._scopes[number].cancel()
                case Stop():
                    return
                case _:
                    break
        # Nobody waits for an answer.
        for scope in self._scopes.values():
            scope.cancel()

    async def _answer(self, call: Call, scope: trio.CancelScope) -> None:
        answer = Answer(call.number, None, dump_error(OutcomeUnknownError(f"{call.name} was cut off")))
        try:
            with scope:
                answer = await self._result(call)
        finally:
            del self._scopes[call.number]
            self._messages.send(answer)

    async def _result(self, call: Call) -> Answer:
        try:
            value = await self._call(call)
        except Exception as error:
            if not isinstance(error, QuorumError):
                error.add_note(f"In the node's process:\n{''.join(traceback.format_exception(error))}")
            return Answer(call.number, None, dump_error(error))
        try:
            return Answer(call.number, pickle.dumps(value))
        except Exception as error:
            unknown = OutcomeUnknownError(
                f"{call.name} is done, but its result can't be pickled for the parent ({error}); return "
                "plain values, or objects of classes at the top of a module"
            )
            return Answer(call.number, None, dump_error(unknown))

    async def _call(self, call: Call) -> object:
        arguments, named = cast(
            "tuple[tuple[object, ...], dict[str, object]]", self._loader.load(call.arguments)
        )
        match call.name, arguments:
            case "read", (read,):
                # The state machine is here only.
                arguments = (partial(cast("Callable[[object], object]", read), self._machine),)
            case "serve_reads", (handler,) if handler is not None:
                arguments = (partial(cast("Callable[[object, bytes], bytes]", handler), self._machine),)
            case "ask_health", _:
                return self._quorum.health
            case _:
                pass
        value: object = getattr(self._quorum, call.name)(*arguments, **named)
        return await value if inspect.isawaitable(value) else value
