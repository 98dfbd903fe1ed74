"""Traces of the core: commands in, the whole trace out, prose between.

A line that starts with `> ` is a command, the indented lines below it are everything that happened, and the
rest is for the reader. `pytest tests/traces --rewrite` writes what happens now; read the diff.
"""

import re
from pathlib import Path

import pytest

from tests.traces.interpreter import Interpreter, TellEffect, TellMessage, replay

TRACES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.stem)
def test_a_trace_goes_as_it_was_told(
    trace: Path, request: pytest.FixtureRequest, tell_effect: TellEffect, tell_message: TellMessage
) -> None:
    told = trace.read_text()
    now = "\n".join(replay(told, Interpreter(tell_effect, tell_message))) + "\n"
    if request.config.getoption("--rewrite", default=False):
        trace.write_text(now)
    else:
        assert now == told


def test_there_are_traces_and_each_shows_something() -> None:
    assert len(TRACES) >= 42
    assert all(re.search(r"^    ", trace.read_text(), re.MULTILINE) for trace in TRACES)
