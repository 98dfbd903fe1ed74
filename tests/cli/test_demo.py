"""The demo, from its first step to its last, and what it says when a comparison does not hold."""

import re
from pathlib import Path

import pytest

from quorate.cli.console.cli_errors import CommandError
from quorate.cli.demo import demo_run
from quorate.cli.demo.demo_operations import DemoError
from tests.cli.command import Processes

STEPS = (
    r"start 3 nodes",
    r"create topic demo with 3 replicas",
    r"send the first half, acks=all",
    r"kill -9 node \d, which leads",
    r"send the rest through the new leader",
    r"read 2 records in group demo, and ask for its lag .* lag 3, as expected",
    r"read the rest in the same group .* 5 records, byte for byte the same; lag 0",
    r"bring node \d back .* in sync again: \[1, 2, 3\]",
    r"reassign: two replicas in place of three, on nodes \[\d, \d\] .* as expected",
    r"drain node \d .* replicas moved away, none is left",
    r"read everything again, from where it is now .* 5 records, byte for byte the same",
    r"look back: the metadata as they were when the topic was new .* led, in sync \[1, 2, 3\]",
    r"the state changes of it all .* were requested, by a dead broker, its return and two moves; none failed",
    r"leadership history in Spark, read from the metadata log .* node \d → node \d",
    r"stop in order .* exit code 0 from every node",
)


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.spark
def test_the_demo_is_an_operators_day(processes: Processes, tmp_path: Path) -> None:
    file = tmp_path / "five lines"
    file.write_bytes(b"one\ntwo\nthree\nfour\nfive")
    ended = processes.run("demo", "--file", file, seconds=200)
    assert (ended.code, ended.errors) == (0, ""), ended.output + ended.errors
    assert not re.search(r"WARN|\[Stage", ended.output), "a line of Spark's or Java's"
    # Long lines are wrapped where nobody looks on.
    shown = re.sub(r"\s+", " ", ended.output)
    steps = [each.strip() for each in re.findall(r"✓ ([^✓]*)", shown)]
    assert len(steps) == len(STEPS), steps
    for step, expected in zip(steps, STEPS, strict=True):
        assert re.match(expected, step), f"{step!r} is not {expected!r}"
    assert "every comparison held: 23 bytes in, the same 23 bytes out" in shown


def test_a_comparison_that_does_not_hold_says_what_was_expected_and_seen() -> None:
    demo_run._compare("the lag of the group", 3, 3)
    with pytest.raises(CommandError, match="the lag of the group: expected 3, and saw 5"):
        demo_run._compare("the lag of the group", 3, 5)
    demo_run._compare_bytes([b"on", b"e"], [b"one"])
    with pytest.raises(DemoError, match="what came back differs: 2 bytes for 3 sent"):
        demo_run._compare_bytes([b"on"], [b"one"])
