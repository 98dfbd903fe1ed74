"""Wide tables of a cluster, on a terminal of 80 columns: nothing of what --json says is cut."""

import os
import pty
import re
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quorate.cli.node.local_cluster import LocalCluster
from tests.cli.command import COMMAND, SECONDS, Quorate
from tests.kit.clusters import running_cluster, wait_in_sync

pytestmark = [pytest.mark.system, pytest.mark.slow]

TOPIC = "orders-of-the-customers-who-have-paid-last-month-and-not-yet-got-anything-at-all"


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder: Path = (
        tmp_path_factory.mktemp("tables") / "a-directory-whose-name-is-as-long-as-those-of-operators"
    )
    folder.mkdir()
    with running_cluster(folder / "cluster") as cluster:
        yield cluster


def on_a_terminal(*words: str) -> str:
    """Return what a command that succeeds writes on a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    env = {
        name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "FORCE_COLOR")
    }
    with subprocess.Popen(
        [*COMMAND, *words], stdin=theirs, stdout=theirs, env=env | {"TERM": "xterm", "NO_COLOR": "1"}
    ) as process:
        os.close(theirs)
        written = b""
        try:
            while data := os.read(ours, 1 << 16):
                written += data
        except OSError:  # Linux says so when the other side has closed
            pass
        os.close(ours)
        assert process.wait(SECONDS) == 0, written
    return re.sub(r"\x1b\[\d+m", "", written.decode().replace("\r\n", "\n"))


def words_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from words_of(each)
    elif isinstance(value, str):
        yield from value.split()


def test_wide_tables_are_whole_on_a_narrow_terminal(quorate: Quorate, three: LocalCluster) -> None:
    ask = quorate.at(three)
    ask.output("topics", "create", "-t", TOPIC, "--replica-assignment", "1:2:3,2:3:1")
    wait_in_sync(three, TOPIC)
    ids = [f"{TOPIC}-0", f"{TOPIC}-1", "OnlinePartition", "OnlineReplica"]
    directories = [each["logDir"] for broker in ask.json("log-dirs", "describe")["brokers"]
                   for each in broker["logDirs"]]  # fmt: skip
    assert len(directories) == 3 and all(len(each) > 80 for each in directories)
    changes = [
        word
        for life in ask.json("state-changes", "-t", TOPIC)
        for word in words_of(
            [life["requested"], life["reason"], [part["outcome"] for part in life["brokers"]]]
        )
    ]
    assert "completed" in changes
    for command, wanted in (
        (("topics", "states", "-t", TOPIC), ids),
        (("log-dirs", "describe"), [*directories, TOPIC]),
        (("state-changes", "-t", TOPIC), [*ids[:2], *changes]),
    ):
        text = on_a_terminal(*command, "-b", three.bootstrap)
        tokens = {word.rstrip(",:") for word in text.split()}
        assert not [word for word in wanted if word.rstrip(",:") not in tokens], text
        assert "\u2026" not in text
        for line in text.splitlines():
            # What is longer is one word, which the terminal wraps.
            assert len(line) <= 80 or len(line.split()[-1]) > 60, line


def test_the_live_view_says_all_of_a_long_name(three: LocalCluster) -> None:
    """rich crops it at the edge, so it goes on in the next line."""
    text = on_a_terminal("top", "--once", "--interval", "0.2", "-b", three.bootstrap)
    assert TOPIC in text.replace("\n", "")
    assert not [line for line in text.splitlines() if len(line) > 80]
