"""The programs and commands that the documents show run."""

import ast
import re
import signal
import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from documents import AGAIN, BLOCKS, ROOT, STORY, TUTORIAL, Block, run, text_after, write_files_of

SECONDS = 300
CAN_NOT_RUN_HERE = 77
"""The exit code of our scripts where the machine lacks what they need, as the last line says."""


def each_of(blocks: Iterable[Block]) -> pytest.MarkDecorator:
    marked = [
        pytest.param(
            block,
            marks=[pytest.mark.slow] if block.is_whole_program and "spark" in block.body else [],
            id=block.name,
        )
        for block in blocks
    ]
    return pytest.mark.parametrize("block", marked)


SHOWN = [block for block in BLOCKS if not block.mark.startswith((STORY, "skip,"))]
WHOLE = [block for block in SHOWN if block.is_whole_program]


@pytest.mark.slow
@pytest.mark.system
@each_of(block for block in SHOWN if block.language == "sh" and block.file.name != TUTORIAL)
def test_every_shell_block_runs(
    block: Block, request: pytest.FixtureRequest, need_programs: Callable[..., None]
) -> None:
    kind, _, detail = block.mark.partition(" ")
    need_programs([block])
    script = request.getfixturevalue("live")(block.body)
    done = run("bash", "-euc", script, folder=ROOT, seconds=SECONDS)
    if done.returncode == CAN_NOT_RUN_HERE:
        pytest.skip(f"{done.stdout}{done.stderr}".strip().splitlines()[-1])
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    if kind == "prints":
        assert done.stdout.strip() == detail


@pytest.mark.parametrize(
    "block", [block for block in SHOWN if block.language == "python"], ids=lambda block: block.name
)
def test_every_python_block_compiles(block: Block) -> None:
    compile(textwrap.dedent(block.body), block.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.slow
@pytest.mark.system
@each_of(block for block in WHOLE if AGAIN not in block.mark)
def test_python_blocks_that_are_whole_programs_run(
    block: Block, live: Callable[[str], str], tmp_path: Path
) -> None:
    script = tmp_path / "block.py"
    script.write_text(live(block.body))
    write_files_of(block.file.name, tmp_path)
    done = run(sys.executable, script, folder=tmp_path, seconds=SECONDS)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    if "prints what follows" in block.mark:
        assert done.stdout == text_after(block)


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


@pytest.mark.slow
@pytest.mark.system
@each_of(block for block in WHOLE if AGAIN in block.mark)
def test_a_program_that_keeps_a_folder_starts_again_after_a_snapshot_and_a_kill(
    block: Block, tmp_path: Path
) -> None:
    script = tmp_path / "block.py"
    script.write_text(block.body)
    printed = []
    for killed in (True, True, False, False):
        program = ("-c", KILLED_ONCE_IT_HAS_A_SNAPSHOT, script) if killed else (script,)
        done = run(sys.executable, *program, folder=tmp_path, seconds=SECONDS)
        assert done.returncode == (-signal.SIGKILL if killed else 0), f"{done.stdout}\n{done.stderr}"
        assert done.stderr == "", "a library is silent that its program did not ask to log"
        printed += done.stdout.splitlines()
    told = text_after(block).splitlines()
    assert printed[: len(told)] == told
    assert len(printed) == len(set(printed)) == 4, printed


def test_blocks_that_are_left_out_are_few_and_say_why() -> None:
    texts = [path.read_text() for path in (ROOT / "docs").rglob("*.md")]
    left_out = sum(text.count("<!-- test: skip") for text in texts)
    assert left_out == sum(len(re.findall(r"<!-- test: skip, \w", text)) for text in texts)
    shown = sum(len(re.findall(r"^ *```sh$", text, re.M)) for text in texts)
    assert left_out * 2 <= shown
