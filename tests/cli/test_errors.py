"""What ends a command, and with which code."""

import pytest
import typer

from quorate.broker.wire.errors import RequestTimedOutError
from quorate.cli.errors import CommandError, ExitCode, user_errors
from quorate.raft.errors import QuorumStoppedError, StateMachineError
from quorate.runtime.disk import DiskFullError


def code_of(error: BaseException) -> int:
    with pytest.raises(typer.Exit) as ended, user_errors():
        raise error
    return ended.value.exit_code


def stopped_by(cause: BaseException) -> QuorumStoppedError:
    error = QuorumStoppedError(f"node 1 stopped: {cause}")
    error.__cause__ = cause
    return error


def test_what_stopped_a_node_decides_not_that_it_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    full = DiskFullError("no space left on the device", path="/data/x.log")
    assert code_of(stopped_by(full)) == ExitCode.STORAGE
    assert "/data/x.log: no space left" in capsys.readouterr().err


def test_groups_of_errors_are_opened() -> None:
    error = ExceptionGroup("tasks", [ExceptionGroup("more", [RequestTimedOutError("no answer")])])
    assert code_of(error) == ExitCode.UNAVAILABLE


def test_a_file_that_may_not_be_used_is_named_with_a_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of(PermissionError(13, "Permission denied", "/data")) == ExitCode.STORAGE
    assert "/data: Permission denied; check" in capsys.readouterr().err


def test_a_commands_own_error_has_its_own_code() -> None:
    assert code_of(CommandError("no")) == ExitCode.FAILED


@pytest.mark.parametrize(
    "bug",
    [
        KeyError("x"),
        stopped_by(KeyError("x")),
        stopped_by(StateMachineError("raised", offset=3, epoch=1)),
        ExceptionGroup("tasks", [CommandError("no"), KeyError("x")]),
    ],
)
def test_a_bug_keeps_its_stack_trace_also_beside_what_a_user_could_act_on(bug: Exception) -> None:
    with pytest.raises(type(bug)), user_errors():
        raise bug


def test_a_reader_that_went_away_is_left_to_the_command_line() -> None:
    with pytest.raises(BrokenPipeError), user_errors():
        raise BrokenPipeError(32, "Broken pipe")
