"""Log lines of a node."""

import json
import logging
import sys

import pytest

from quorate.cli.node.log_lines import JsonFormatter, TextFormatter
from quorate.runtime.event_log import get_logger

log = get_logger("quorate.tests.lines")


def records(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    with caplog.at_level(logging.INFO, "quorate"):
        log.info("role changed", role="leader", epoch=3)
        try:
            raise ValueError("no room")
        except ValueError:
            log.error("the disk failed", exc_info=sys.exc_info()[1])
    logging.getLogger("another.library").warning("%d sockets left", 2)
    for record in caplog.records:
        record.created = 1_700_000_000.25
    return caplog.records


def test_text_lines_align_their_fields_in_order_of_name(caplog: pytest.LogCaptureFixture) -> None:
    first, second, third = map(TextFormatter(colors=False).format, records(caplog))
    assert (
        first == "2023-11-14T22:13:20.250000Z [info     ] role changed                   epoch=3 role=leader"
    )
    head, *trace = second.splitlines()
    assert head == "2023-11-14T22:13:20.250000Z [error    ] the disk failed"
    assert trace[-1] == "ValueError: no room"
    assert third.endswith("[warning  ] 2 sockets left                 logger=another.library")


def test_colours_are_for_terminals(caplog: pytest.LogCaptureFixture) -> None:
    first, *_ = map(TextFormatter(colors=True).format, records(caplog))
    assert "\x1b[32minfo     \x1b[0m" in first


def test_json_lines_are_objects_with_the_fields_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    first, second, third = (json.loads(JsonFormatter().format(each)) for each in records(caplog))
    assert first == {
        "timestamp": "2023-11-14T22:13:20.250000Z",
        "level": "info",
        "event": "role changed",
        "role": "leader",
        "epoch": 3,
    }
    assert second["exception"].endswith("ValueError: no room")
    assert (third["event"], third["logger"]) == ("2 sockets left", "another.library")
