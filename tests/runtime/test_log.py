"""The library's log lines: silent until a program asks for them, then one standard record per event."""

import logging
import subprocess
import sys

import pytest
from captured_logs import captured_logs

from quorate.runtime.event_log import get_logger

log = get_logger("quorate.tests.log")

LOGS_AT_EVERY_LEVEL = """
from quorate.runtime.event_log import get_logger
log = get_logger("quorate.tests.log")
for write in (log.debug, log.info, log.warning, log.error):
    write("an event", node=1)
"""


def test_a_program_that_configures_nothing_sees_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", LOGS_AT_EVERY_LEVEL], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_basic_config_shows_warnings_on_standard_error() -> None:
    program = "import logging; logging.basicConfig()\n" + LOGS_AT_EVERY_LEVEL
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "WARNING:quorate.tests.log:an event node=1",
        "ERROR:quorate.tests.log:an event node=1",
    ]


def test_a_record_holds_its_fields_apart_and_says_where_it_was_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "quorate"):
        log.info("100% of it", node=1, role="leader")
    (record,) = caplog.records
    assert record.getMessage() == "100% of it node=1 role=leader"
    assert vars(record)["quorate"] == {"event": "100% of it", "node": 1, "role": "leader"}
    assert (record.filename, record.name) == ("test_log.py", "quorate.tests.log")


def test_a_level_that_is_off_formats_nothing() -> None:
    class Costly:
        def __str__(self) -> str:
            raise AssertionError("formatted")

    logging.getLogger("quorate.tests.log").setLevel(logging.ERROR)
    try:
        log.warning("an event", field=Costly())
    finally:
        logging.getLogger("quorate.tests.log").setLevel(logging.NOTSET)


def test_captured_lines_are_of_every_level_and_go_nowhere_else(caplog: pytest.LogCaptureFixture) -> None:
    with captured_logs() as lines:
        log.debug("first", node=1)
        try:
            raise ValueError("why")
        except ValueError:
            log.exception("second")
    assert lines == [
        {"event": "first", "node": 1, "log_level": "debug"},
        {"event": "second", "log_level": "error"},
    ]
    assert caplog.records == []
    log.info("after")
    assert len(lines) == 2
