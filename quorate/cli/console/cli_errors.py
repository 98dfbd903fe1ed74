"""The end of a command: one clear line for people, an exit code for scripts."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum

from quorate.present import present


class ExitCode(IntEnum):
    """The exit codes of the command. They are stable."""

    OK = 0
    FAILED = 1
    """The operation was refused or failed. The message states the reason."""
    USAGE = 2
    """The command line or a configuration file is invalid. Nothing was done."""
    UNAVAILABLE = 3
    """The cluster is unavailable: no node could be reached, or no answer came in time."""
    STORAGE = 4
    """A folder or file can't be used: locked, damaged, of another node, full, or not writable."""


class CommandError(Exception):
    """A command failed. The message states the remedy."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


class UsageError(CommandError):
    """The arguments of a command are wrong. Nothing was done."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitCode.USAGE)


class CommandExit(Exception):
    """The end of a command with an exit code. What went wrong was printed."""

    def __init__(self, code: ExitCode) -> None:
        super().__init__(code)
        self.code = code


def fail(message: str, code: ExitCode) -> CommandExit:
    """Print to standard error, and return the exception to raise."""
    red, plain = ("\x1b[31m", "\x1b[0m") if sys.stderr.isatty() else ("", "")
    print(f"{red}quorate: {message}{plain}", file=sys.stderr, flush=True)
    return CommandExit(code)


def fail_each(messages: Iterable[str]) -> None:
    """Print each to standard error, and end the command if there is any."""
    exits = [fail(each, ExitCode.FAILED) for each in messages]
    if exits:
        raise exits[0]


def wrong_usage(message: str) -> CommandExit:
    """Print to standard error, and return the exception to raise: the command line is wrong."""
    return fail(message, ExitCode.USAGE)


@contextmanager
def user_errors() -> Iterator[None]:
    """Turn errors that the user can act on into a message and an exit code. Bugs keep their stack traces."""
    try:
        yield
    except (CommandExit, BrokenPipeError):
        # A reader that has seen enough, as `head`, is ended quietly by the command line's own handler.
        raise
    except Exception as raised:
        errors = _plain_errors(raised)
        codes = [_code_of(error) for error in errors]
        if None in codes:
            raise
        shown = next((error for error in errors if _stopped_by(error) is not None), errors[0])
        _log_bug(_stopped_by(shown))
        code = present(_code_of(shown), "an exit code")
        raise fail(_message_of(shown), code) from None


def _stopped_by(error: BaseException) -> BaseException | None:
    """Return the error that stopped the quorum and caused the others, or None."""
    from quorate.raft import QuorumStoppedError

    return error.__cause__ if isinstance(error, QuorumStoppedError) else None


def _log_bug(stopped_by: BaseException | None) -> None:
    """Log the stack trace of a state machine that failed on a batch that it can read: the bug can't be found
    without it. A batch that can't be read or doesn't fit needs none."""
    from quorate.broker.metadata.record_codec import RecordDecodeError
    from quorate.broker.metadata.states import ImageError
    from quorate.raft import StateMachineError
    from quorate.runtime import get_logger

    match stopped_by:
        case StateMachineError(__cause__=RecordDecodeError() | ImageError()):
            pass
        case StateMachineError(__cause__=BaseException() as mistake):
            get_logger(__name__).error("the state machine failed", exc_info=mistake)


def _plain_errors(raised: BaseException) -> list[BaseException]:
    """Return the errors in a group of them, however deep; an error that is no group alone."""
    if not isinstance(raised, BaseExceptionGroup):
        return [raised]
    return [error for each in raised.exceptions for error in _plain_errors(each)]


def _code_of(error: BaseException) -> ExitCode | None:
    """Return the exit code, or None for errors that no user can act on."""
    # Imported here: a command that ends well has no use for most of them.
    from quorate.broker.controller_channel import ControllerTimedOutError
    from quorate.broker.failure_reports import UnreportedFailureError
    from quorate.broker.lifecycle import BrokerRegistrationError
    from quorate.broker.log_directories import SameDirectoryError
    from quorate.broker.node_config.properties_file import ServerConfigError
    from quorate.broker.replication.foundation.errors import AllDirectoriesFailedError, DuplicateReplicaError
    from quorate.broker.replication.storage.folders import (
        ForeignFolderError,
        UnreadableMovedMarkError,
        UnreadablePartitionMetadataError,
    )
    from quorate.broker.wire.wire_errors import KafkaError
    from quorate.certs import CertificateError
    from quorate.history import HistoryError, LogUnavailableError, SnapshotNameError, UnreadableFilesError
    from quorate.kafka_bytes.varints import MalformedError
    from quorate.log import LogError
    from quorate.quorum_state import QuorumStateError
    from quorate.raft import (
        LeaderNotFoundError,
        OutcomeUnknownError,
        QuorumConfigError,
        QuorumError,
        QuorumStoppedError,
        StateMachineError,
    )
    from quorate.runtime import AddressInUseError, DescriptorsExhaustedError, DiskError, NetworkError

    match error:
        case CommandError():
            return error.code
        case ServerConfigError() | QuorumConfigError() | SnapshotNameError():
            return ExitCode.USAGE
        case (
            AddressInUseError() | BrokerRegistrationError() | CertificateError() | DescriptorsExhaustedError()
        ):
            return ExitCode.FAILED
        case UnreadableFilesError():
            return ExitCode.STORAGE
        case (
            NetworkError()
            | MalformedError()
            | ControllerTimedOutError()
            | LogUnavailableError()
            | LeaderNotFoundError()
            | OutcomeUnknownError()
        ):
            return ExitCode.UNAVAILABLE
        case (
            QuorumStateError()
            | LogError()
            | DiskError()
            | AllDirectoriesFailedError()
            | HistoryError()
            | UnreadablePartitionMetadataError()
            | UnreadableMovedMarkError()
            | ForeignFolderError()
            | SameDirectoryError()
            | DuplicateReplicaError()
            | UnreportedFailureError()
            | OSError(filename=str() | bytes())
        ):
            return ExitCode.STORAGE
        case QuorumStoppedError(__cause__=BaseException() as cause):
            # What stopped the quorum decides, not that it stopped.
            return _code_of(cause)
        case StateMachineError() | KafkaError() | QuorumError():
            # A batch that a state machine can't apply stays in the log: the message names the way past it.
            return ExitCode.FAILED
        case _:
            return None


def _message_of(error: BaseException) -> str:
    from quorate.history import UnknownHighWatermarkError
    from quorate.kafka_bytes.varints import MalformedError

    match error:
        case UnknownHighWatermarkError():
            return f"{error}. --snapshot reads a snapshot without it"
        case MalformedError():
            return (
                f"what answered does not speak Kafka's protocol ({error}); give the address of a broker's "
                "client listener"
            )
        case OSError(filename=str(path), strerror=str(problem)):
            return f"{path}: {problem}; check that the path is right and this user may use it"
        case _:
            return str(error)
