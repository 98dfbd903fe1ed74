"""`quorate pipeline`, as far as it goes without a log: usage, and what becomes of Spark's errors."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkRuntimeError

from quorate.cli.commands.pipeline_commands import _explained
from quorate.cli.console.cli_errors import CommandExit, ExitCode
from tests.cli.command import Quorate

LOST = """[STREAM_FAILED] Query [id = 1] terminated: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR]
Traceback (most recent call last):
  File "stream_reader.py", line 60, in latestOffset
quorate.spark_source.spark_errors.DataLossError: the log starts at offset 40. Start a new query
 SQLSTATE: 38000
"""


@pytest.mark.slow
def test_a_project_is_created_once(tmp_path: Path) -> None:
    quorate, folder = Quorate(), tmp_path / "history"
    assert f"quorate pipeline run {folder}" in quorate.output("pipeline", "init", folder)
    assert "localhost:9092" in (folder / "spark-pipeline.yml").read_text()
    assert "is not empty" in quorate.error("pipeline", "init", folder, code=ExitCode.USAGE)


@pytest.mark.slow
def test_a_run_needs_a_project(tmp_path: Path) -> None:
    error = Quorate().error("pipeline", "run", tmp_path, code=ExitCode.USAGE)
    assert f"create a project with quorate pipeline init {tmp_path}" in error


def test_one_place_is_read(tmp_path: Path) -> None:
    error = Quorate().error("pipeline", "report", "-b", "a:1", "--path", tmp_path, code=ExitCode.USAGE)
    assert "not both" in error
    error = Quorate().error("pipeline", "report", "-b", "a:1", "--remote", "sc://a", code=ExitCode.USAGE)
    assert "leave out -b and --path" in error


@pytest.mark.parametrize(
    ("text", "message", "code"),
    [
        (LOST, "the log starts at offset 40. Start a new query", ExitCode.FAILED),
        (
            LOST.replace(
                "DataLossError: the log starts at offset 40", "LogUnavailableError: no broker answered"
            ),
            "no broker answered",
            ExitCode.UNAVAILABLE,
        ),
        (
            "[TABLE_OR_VIEW_NOT_FOUND] no such table\n  at line 1",
            "Spark: [TABLE_OR_VIEW_NOT_FOUND]",
            ExitCode.FAILED,
        ),
    ],
)
def test_an_error_of_spark_is_one_line(
    text: str, message: str, code: ExitCode, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CommandExit) as ended, _explained():
        raise PySparkRuntimeError(text)
    assert ended.value.code == code
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1
