"""The check that an object has the methods of a state machine, before a record depends on it."""

import dataclasses
import inspect
from typing import Final

from quorate.raft.quorum_errors import QuorumConfigError

_METHODS: Final = (
    ("apply", ("batch",), True),
    ("take_snapshot", (), True),
    ("load_snapshot", ("snapshot",), True),
    ("check", ("records",), False),
    ("needed_version", ("record",), False),
)
"""The name, the arguments, and whether the method is required."""
_SNAPSHOTS: Final = ("take_snapshot", "load_snapshot")


def is_plain(state_machine: object) -> bool:
    """True for a dataclass without snapshots of its own."""
    return dataclasses.is_dataclass(state_machine) and not any(
        hasattr(state_machine, each) for each in _SNAPSHOTS
    )


def check_shape(state_machine: object) -> None:
    """Check the methods of a state machine. Raises `QuorumConfigError` if one of them is missing, or can't be
    called as the quorum calls it: the node would stop at its first record, or its first snapshot."""
    if isinstance(state_machine, type):
        raise QuorumConfigError(
            f"the state machine is the class {state_machine.__name__}, not an instance; write "
            f"{state_machine.__name__}()"
        )
    _check_version(state_machine)
    plain = is_plain(state_machine)
    for name, arguments, required in _METHODS:
        method = getattr(state_machine, name, None)
        if method is not None or (required and not (plain and name in _SNAPSHOTS)):
            _check_method(type(state_machine).__name__, name, method, arguments)


def _check_version(state_machine: object) -> None:
    owner, version = type(state_machine).__name__, getattr(state_machine, "code_version", 0)
    if dataclasses.is_dataclass(state_machine) and any(
        each.name == "code_version" for each in dataclasses.fields(state_machine)
    ):
        raise QuorumConfigError(
            f"{owner}.code_version is a field, and so a part of the state; declare it as a ClassVar[int]"
        )
    if type(version) is not int or not 0 <= version < 2**31:
        raise QuorumConfigError(
            f"{owner}.code_version is {version!r}; it must be 0 or more, and grow with each version of the "
            "code that records may need"
        )


def _check_method(owner: str, name: str, method: object, arguments: tuple[str, ...]) -> None:
    wanted = f"{name}({', '.join(arguments)})"
    if not callable(method):
        remedy = "make it a @dataclass, whose fields are its snapshots" if name in _SNAPSHOTS else "write it"
        raise QuorumConfigError(
            f"the state machine {owner} has no method {wanted}; {remedy}, or see StateMachine"
        )
    if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
        raise QuorumConfigError(
            f"{owner}.{name} is async; it is called on the quorum's task, as {wanted}, and must be a plain "
            "method"
        )
    try:
        inspect.signature(method).bind(*arguments)
    except TypeError as error:
        raise QuorumConfigError(
            f"{owner}.{name} can't be called as {wanted}: {error}; see StateMachine"
        ) from error
    except ValueError:
        pass  # Built in, without a signature to look at.
