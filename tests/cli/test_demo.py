"""The demo, from its first step to its last, and what it says when a comparison does not hold."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from quorate.cli.console.cli_errors import CommandError, ExitCode
from quorate.cli.demo import demo_run
from quorate.cli.demo.demo_operations import DemoError
from tests.cli.command import Ended, Processes, Quorate

NOTEBOOK = Path(__file__).parents[2] / "examples" / "incident.ipynb"
FOUND = """
import json
print(json.dumps({
    "broker": incident["broker_id"],
    "elections": [(each["topic"], each["partition_id"], each["old_leader"], each["leader"])
                  for each in elections.collect()],
    "at_risk": [each["to_offset"] for each in at_risk.collect()],
    "moves": [each["topic"] for each in moves.collect()],
}))
"""
"""Code after the cells of the notebook: it prints some of their variables."""
SECONDS = 300

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
    r"report what happened, from the metadata log alone .* Broker \d .*; "
    r"partition 0 had another leader after \d+\.\d\d s",
    r"stop in order .* exit code 0 from every node",
)


@dataclass
class Demo:
    """A demo that has ended."""

    ended: Ended
    folder: Path
    """It has `report.html`, and the nodes' folders in `cluster`."""

    @property
    def output(self) -> str:
        # Long lines are wrapped where nobody looks on.
        return re.sub(r"\s+", " ", self.ended.output)

    @property
    def killed(self) -> int:
        (node,) = re.findall(r"✓ kill -9 node (\d)", self.output)
        return int(node)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    folder = tmp_path_factory.mktemp("demo")
    file = folder / "five lines"
    file.write_bytes(b"one\ntwo\nthree\nfour\nfive")
    processes = Processes()
    try:
        ended = processes.run(
            *("demo", "--file", file, "--report", folder / "report.html", "--data", folder / "cluster"),
            seconds=SECONDS,
        )
    finally:
        processes.kill_all()
    assert (ended.code, ended.errors) == (0, ""), ended.output + ended.errors
    return Demo(ended, folder)


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.spark
def test_the_demo_is_an_operators_day(demo: Demo) -> None:
    assert not re.search(r"WARN|\[Stage", demo.ended.output), "a line of Spark's or Java's"
    steps = [each.strip() for each in re.findall(r"✓ ([^✓]*)", demo.output)]
    assert len(steps) == len(STEPS), steps
    for step, expected in zip(steps, STEPS, strict=True):
        assert re.match(expected, step), f"{step!r} is not {expected!r}"
    assert "every comparison held: 23 bytes in, the same 23 bytes out" in demo.output


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.spark
def test_the_demo_ends_with_a_report_that_names_the_killed_broker(demo: Demo) -> None:
    file = demo.folder / "report.html"
    assert str(file) in demo.ended.output.splitlines()[-1]
    assert f"<h3>Broker {demo.killed} " in file.read_text()


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.spark
def test_the_notebook_finds_the_kill_in_the_log_of_the_demo(demo: Demo, tmp_path: Path) -> None:
    """Its cells run in their order, as in Jupyter, with the log of a node that was not killed."""
    other = next(node for node in (1, 2, 3) if node != demo.killed)
    notebook = json.loads(NOTEBOOK.read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    script = tmp_path / "incident.py"
    script.write_text("\n\n".join([*cells, FOUND]))
    ended = subprocess.run(
        [sys.executable, script],
        env={**os.environ, "QUORATE_LOG": str(demo.folder / "cluster" / str(other) / "data")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found["broker"] == demo.killed
    ((topic, partition, old_leader, leader),) = found["elections"]
    assert (topic, partition, old_leader) == ("demo", 0, demo.killed)
    assert leader != demo.killed
    assert found["at_risk"] and None not in found["at_risk"], "the ends of what was under-replicated"
    assert "demo" in found["moves"], "the demo moves its topic"


def test_a_folder_that_exists_is_not_kept_from_another_demo(tmp_path: Path) -> None:
    error = Quorate().error("demo", "--data", tmp_path, code=ExitCode.USAGE)
    assert "exists; name a new folder with --data" in error
    missing = tmp_path / "nowhere" / "report.html"
    error = Quorate().error("demo", "--report", missing, code=ExitCode.USAGE)
    assert "name another file with --report" in error


def test_a_comparison_that_does_not_hold_says_what_was_expected_and_seen() -> None:
    demo_run._compare("the lag of the group", 3, 3)
    with pytest.raises(CommandError, match="the lag of the group: expected 3, and saw 5"):
        demo_run._compare("the lag of the group", 3, 5)
    demo_run._compare_bytes([b"on", b"e"], [b"one"])
    with pytest.raises(DemoError, match="what came back differs: 2 bytes for 3 sent"):
        demo_run._compare_bytes([b"on"], [b"one"])
