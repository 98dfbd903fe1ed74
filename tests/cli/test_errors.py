"""What ends a command, and with which code."""

import pytest
from captured_logs import captured_logs

from quorate.broker.failure_reports import UnreportedFailureError
from quorate.broker.metadata.record_codec import RecordDecodeError
from quorate.broker.metadata.states import ImageError
from quorate.broker.wire.wire_errors import RequestTimedOutError
from quorate.cli.console.cli_errors import CommandError, CommandExit, ExitCode, user_errors
from quorate.history import (
    DamagedRecordError,
    LogUnavailableError,
    SnapshotNameError,
    UnknownHighWatermarkError,
    UnreadableFilesError,
)
from quorate.raft.quorum_errors import OutcomeUnknownError, QuorumStoppedError, StateMachineError
from quorate.runtime.disk import DiskFullError


def code_of(error: BaseException) -> int:
    with pytest.raises(CommandExit) as ended, user_errors():
        raise error
    return ended.value.code


def stopped_by(cause: BaseException) -> QuorumStoppedError:
    error = QuorumStoppedError(f"node 1 stopped: {cause}")
    error.__cause__ = cause
    return error


def test_the_exit_code_and_the_message_come_from_the_cause_of_a_stop(
    capsys: pytest.CaptureFixture[str],
) -> None:
    full = DiskFullError("no space left on the device", path="/data/x.log")
    assert code_of(stopped_by(full)) == ExitCode.STORAGE
    assert "/data/x.log: no space left" in capsys.readouterr().err


def poisoned_by(cause: BaseException) -> QuorumStoppedError:
    error = StateMachineError("apply raised; docs/how-to/skip-a-batch.md", offset=3, epoch=1)
    error.__cause__ = cause
    return stopped_by(error)


@pytest.mark.parametrize("cause", [RecordDecodeError("no record"), ImageError("no such broker")])
def test_a_batch_that_can_not_be_applied_is_told_in_one_line(
    cause: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    consequence = OutcomeUnknownError("this node stopped before it committed")
    error = ExceptionGroup("tasks", [consequence, poisoned_by(cause)])
    with captured_logs() as lines:
        assert code_of(error) == ExitCode.FAILED
    assert capsys.readouterr().err.endswith("apply raised; docs/how-to/skip-a-batch.md\n")
    assert not lines


def test_a_mistake_of_the_state_machines_keeps_its_stack_trace_in_the_log(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    mistake = KeyError("x")
    assert code_of(poisoned_by(mistake)) == ExitCode.FAILED
    assert "skip-a-batch.md" in capsys.readouterr().err
    (record,) = caplog.records
    assert record.levelname == "ERROR" and record.exc_info is not None
    assert record.exc_info[1] is mistake


def test_groups_of_errors_are_opened() -> None:
    error = ExceptionGroup("tasks", [ExceptionGroup("more", [RequestTimedOutError("no answer")])])
    assert code_of(error) == ExitCode.UNAVAILABLE


def test_a_file_that_may_not_be_used_is_named_with_a_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of(PermissionError(13, "Permission denied", "/data")) == ExitCode.STORAGE
    assert "/data: Permission denied; check" in capsys.readouterr().err


def test_an_unreported_failed_directory_is_a_storage_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = ExceptionGroup("tasks", [UnreportedFailureError("the controller could not be told for 30 s")])
    assert code_of(error) == ExitCode.STORAGE
    assert "could not be told for 30 s" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "ending"),
    [
        (LogUnavailableError("no broker"), ExitCode.UNAVAILABLE, "no broker"),
        (UnreadableFilesError("no folder"), ExitCode.STORAGE, "no folder"),
        (
            UnknownHighWatermarkError("no file"),
            ExitCode.STORAGE,
            "no file. --snapshot reads a snapshot without it",
        ),
        (DamagedRecordError("no record"), ExitCode.STORAGE, "no record"),
        (SnapshotNameError("no snapshot"), ExitCode.USAGE, "no snapshot"),
    ],
)
def test_a_history_that_can_not_be_read_has_the_code_of_its_cause(
    error: Exception, code: ExitCode, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code_of(error) == code
    assert capsys.readouterr().err == f"quorate: {ending}\n"


def test_a_commands_own_error_has_its_own_code() -> None:
    assert code_of(CommandError("no")) == ExitCode.FAILED


@pytest.mark.parametrize(
    "bug",
    [
        KeyError("x"),
        stopped_by(KeyError("x")),
        ExceptionGroup("tasks", [CommandError("no"), KeyError("x")]),
    ],
)
def test_a_bug_keeps_its_stack_trace_also_beside_what_a_user_could_act_on(bug: Exception) -> None:
    with pytest.raises(type(bug)), user_errors():
        raise bug


def test_a_reader_that_went_away_is_left_to_the_command_line() -> None:
    with pytest.raises(BrokenPipeError), user_errors():
        raise BrokenPipeError(32, "Broken pipe")
