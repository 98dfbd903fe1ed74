"""What the documents show runs."""

import ast
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = 300
CAN_NOT_RUN_HERE = 77
"""The exit code of our scripts where the machine lacks what they need, as the last line says."""


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "NO_COLOR": "1"}


@pytest.mark.system
def test_every_shell_block_runs(
    sh_block: Any, request: pytest.FixtureRequest, need_programs: Callable[..., None]
) -> None:
    kind, _, detail = sh_block.mark.partition(" ")
    need_programs([sh_block])
    script = request.getfixturevalue("live")(sh_block.body)
    done = subprocess.run(
        ["bash", "-euc", script], cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=SECONDS
    )
    if done.returncode == CAN_NOT_RUN_HERE:
        pytest.skip(f"{done.stdout}{done.stderr}".strip().splitlines()[-1])
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    if kind == "prints":
        assert done.stdout.strip() == detail


def test_every_python_block_compiles(python_block: Any) -> None:
    compile(
        textwrap.dedent(python_block.body), python_block.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    )


@pytest.mark.system
def test_python_blocks_that_are_whole_programs_run(
    program: Any, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    script = tmp_path / "block.py"
    script.write_text(request.getfixturevalue("live")(program.body))
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    if "prints what follows" in program.mark:
        assert done.stdout == request.getfixturevalue("text_after")(program)


KILLED_ONCE_IT_HAS_A_SNAPSHOT = """
import os, runpy, signal, sys
from quorate.raft import Quorum

take = Quorum.take_snapshot

async def take_and_die(self):
    await take(self)
    os.kill(os.getpid(), signal.SIGKILL)

Quorum.take_snapshot = take_and_die
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.system
def test_a_program_that_keeps_a_folder_starts_again_after_a_snapshot_and_a_kill(
    program_with_a_folder: Any, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    script = tmp_path / "block.py"
    script.write_text(program_with_a_folder.body)
    printed = []
    for killed in (True, True, False, False):
        program = ["-c", KILLED_ONCE_IT_HAS_A_SNAPSHOT, str(script)] if killed else [str(script)]
        done = subprocess.run(
            [sys.executable, *program],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == (-signal.SIGKILL if killed else 0), f"{done.stdout}\n{done.stderr}"
        assert done.stderr == "", "a library that nobody asked to log is silent"
        printed += done.stdout.splitlines()
    told = request.getfixturevalue("text_after")(program_with_a_folder).splitlines()
    assert printed[: len(told)] == told
    assert len(printed) == len(set(printed)) == 4, printed


def test_blocks_that_are_left_out_are_few_and_say_why() -> None:
    texts = [path.read_text() for path in (ROOT / "docs").rglob("*.md")]
    left_out = sum(text.count("<!-- test: skip") for text in texts)
    assert left_out == sum(len(re.findall(r"<!-- test: skip, \w", text)) for text in texts)
    shown = sum(len(re.findall(r"^ *```sh$", text, re.M)) for text in texts)
    assert left_out * 2 <= shown
