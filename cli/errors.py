"""How the command ends: one clear line for people, an exit code for scripts."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import typer

from quorate.broker.config import ServerConfigError
from quorate.broker.wire.errors import KafkaError
from quorate.log.errors import LogError
from quorate.quorum_state.errors import QuorumStateError
from quorate.raft.errors import QuorumConfigError, QuorumError
from quorate.runtime.disk import DiskError
from quorate.runtime.network import AddressInUseError, NetworkError


class ExitCode(IntEnum):
    """What scripts can rely on."""

    OK = 0
    FAILED = 1
    """The operation was refused or failed; the message says why."""
    USAGE = 2
    """The command line or a configuration file is wrong; nothing was done."""
    UNAVAILABLE = 3
    """Nobody could be reached, or no answer came in time."""
    STORAGE = 4
    """A folder or file can't be used: locked, damaged, foreign, full, not writable."""


def fail(message: str, code: ExitCode) -> typer.Exit:
    """Print to standard error; raise what this returns."""
    typer.secho(f"quorate: {message}", err=True, fg=typer.colors.RED)
    return typer.Exit(code)


def _cause_of(error: BaseException) -> BaseException:
    """The first plain error in groups of them, and what stopped a quorum rather than that it stopped."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


@contextmanager
def user_errors() -> Iterator[None]:
    """Turn what the user can act on into a message and an exit code. Bugs keep their stack traces."""
    try:
        yield
    except (KeyboardInterrupt, typer.Exit):
        raise
    except BaseException as raised:
        error = _cause_of(raised)
        code = _code_of(error)
        if code is None:
            raise
        raise fail(str(error), code) from None


def _code_of(error: BaseException) -> ExitCode | None:
    match error:
        case ServerConfigError() | QuorumConfigError():
            return ExitCode.USAGE
        case AddressInUseError():
            return ExitCode.FAILED
        case NetworkError():
            return ExitCode.UNAVAILABLE
        case QuorumStateError() | LogError() | DiskError():
            return ExitCode.STORAGE
        case KafkaError() | QuorumError():
            return ExitCode.FAILED
        case _:
            return None
