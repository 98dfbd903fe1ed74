"""The documents of the repository, their fenced blocks, and running these as a reader does."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from quorate.cli.node.free_ports import free_ports

ROOT = Path(__file__).parents[2]
SECONDS = 600.0
"""The time limit of a block. A pipeline takes minutes on a busy machine."""
STORY = "story"
"""Marks the blocks of a page that run in their order, on a cluster of their own (test_stories.py)."""
TUTORIAL = "tutorial.md"
"""Its blocks follow from each other: test_tutorial.py runs them in their order, or skips all of them."""
AGAIN = "again and again"
"""Marks a program that keeps a folder, and goes on with it when it is run again."""
PROGRAMS = {"kcat": "kcat", "curl": "curl", "promtool": "prometheus", "pgrep": "procps"}
"""Programs that blocks use and PyPI does not have, and their Debian packages."""
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "NO_COLOR": "1"}
_PORT = re.compile(r"\b19[234]\d\d\b")
"""A port of a program."""
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<body>.*?)^(?P=indent)```$", re.M | re.S)
_MARK = re.compile(r"<!-- test: (?P<mark>[^>]*?) -->\s*\Z")

DOCUMENTS = (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))
each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))


@dataclass(frozen=True)
class Block:
    """One fenced block, and what the comment right before it says to the tests ("" if there is none)."""

    file: Path
    line: int
    language: str
    body: str
    mark: str

    @property
    def name(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}"

    @property
    def is_whole_program(self) -> bool:
        return self.language == "python" and self.mark.startswith("run")

    @property
    def file_name(self) -> str:
        """The name of the file that a Python block is, which other blocks of its page import. Or empty."""
        return self.mark.removeprefix("file ") if self.mark.startswith("file ") else ""


def _blocks() -> Iterator[Block]:
    for file in DOCUMENTS:
        text = file.read_text()
        for fence in _FENCE.finditer(text):
            before = text[: fence.start()]
            mark = _MARK.search(before)
            indent = fence["indent"]
            body = "".join(line.removeprefix(indent) for line in fence["body"].splitlines(keepends=True))
            yield Block(file, before.count("\n") + 1, fence["language"], body, mark["mark"] if mark else "")


BLOCKS = tuple(_blocks())


def blocks_of(page: str) -> list[Block]:
    """The `sh` blocks of a page, in order."""
    return [block for block in BLOCKS if block.language == "sh" and block.file.name == page]


def text_after(block: Block) -> str:
    """The body of the next `text` block of a block's page."""
    after = BLOCKS[BLOCKS.index(block) + 1 :]
    return next(each.body for each in after if each.file == block.file and each.language == "text")


def write_files_of(page: str, folder: Path, *, own_ports: bool = False) -> None:
    """Write the files that the Python blocks of a page are. `own_ports`: with free ports in place of theirs,
    so that pages run at the same time."""
    files = {block.file_name: block.body for block in BLOCKS if block.file.name == page and block.file_name}
    ports = sorted({port for body in files.values() for port in _PORT.findall(body)}) if own_ports else []
    free = dict(zip(ports, map(str, free_ports(len(ports))), strict=True))
    for name, body in files.items():
        (folder / name).write_text(_PORT.sub(lambda found: free.get(found[0], found[0]), body))


def run(*command: str | Path, folder: Path, seconds: float = SECONDS) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=seconds
    )


class Terminals:
    """Shells that are left open, as the reader leaves them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened: list[subprocess.Popen[str]] = []
        self._scripts: list[str] = []

    def run(self, script: str) -> str:
        done = subprocess.run(
            # Not as an argument: `pgrep -f` would find it there.
            ["bash", "-eu"],
            input=script,
            cwd=self._folder,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def open(self, script: str) -> str:
        """Start a command that goes on, and return its first line of output."""
        process = subprocess.Popen(
            ["bash", "-euc", f"exec {script}"],
            cwd=self._folder,
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self._opened.append(process)
        self._scripts.append(script)
        assert process.stdout is not None
        return process.stdout.readline()

    def reopen(self) -> str:
        """Repeat the command that has ended, and return its first line of output."""
        ended = [at for at, process in enumerate(self._opened) if process.poll() is not None]
        return self.open(self._scripts[ended[-1]])

    def ctrl_c(self) -> list[int]:
        """Press Ctrl-C in all of them, the last opened first, and return their exit codes."""
        for process in reversed(self._opened):
            process.send_signal(signal.SIGINT)
        return [process.wait(SECONDS) for process in self._opened]

    def close(self) -> None:
        for process in self._opened:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait(SECONDS)
