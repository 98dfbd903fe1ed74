"""The documents, their fenced blocks, and a cluster for those that need one."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from quorate.cli.node.local_cluster import LocalCluster

ROOT = Path(__file__).parents[2]
SECONDS = 60.0
STORY = "story"
"""Marks the blocks of a page that run in their order, on a cluster of their own (test_stories.py)."""
TUTORIAL = "tutorial.md"
"""Its blocks follow from each other: test_tutorial.py runs them in their order, or skips all of them."""
AGAIN = "again and again"
"""Marks a program that keeps a folder, and goes on with it when it is run again."""
PROGRAMS = {"kcat": "kcat", "curl": "curl", "promtool": "prometheus", "pgrep": "procps"}
"""Programs that blocks use and PyPI does not have, and their Debian packages."""
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<body>.*?)^(?P=indent)```$", re.M | re.S)
_MARK = re.compile(r"<!-- test: (?P<mark>[^>]*?) -->\s*\Z")


def documents() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


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


def blocks(language: str) -> list[Block]:
    found = []
    for file in documents():
        text = file.read_text()
        for fence in _FENCE.finditer(text):
            before = text[: fence.start()]
            mark = _MARK.search(before)
            indent = fence["indent"]
            body = "".join(line.removeprefix(indent) for line in fence["body"].splitlines(keepends=True))
            found.append(
                Block(file, before.count("\n") + 1, fence["language"], body, mark["mark"] if mark else "")
            )
    return [block for block in found if block.language == language]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three nodes, for all documents."""
    made = LocalCluster.plan(tmp_path_factory.mktemp("docs") / "quorate-data", nodes=3, client_port=0)
    try:
        made.prepare()
        made.start()
        made.wait_ready()
        yield made
    finally:
        made.kill_all()


def on(cluster: LocalCluster, text: str) -> str:
    """`text` for this cluster: ports and folder in documents are the defaults of `quorate cluster start`."""
    for number, node in enumerate(cluster.nodes):
        for host in ("localhost", "127.0.0.1"):
            text = re.sub(rf"\b{host}:{9092 + number}\b", f"127.0.0.1:{node.client_port}", text)
            text = re.sub(rf"\b{host}:{7071 + number}\b", f"127.0.0.1:{node.metrics_port}", text)
    return text.replace("./quorate-data", str(cluster.folder)).replace(".venv/bin/", "")


@pytest.fixture
def live(cluster: LocalCluster) -> Callable[[str], str]:
    return lambda text: on(cluster, text)


@pytest.fixture(scope="session")
def whole_programs() -> list[Block]:
    return [block for block in blocks("python") if block.mark.startswith("run")]


@pytest.fixture
def need_programs(need: Callable[..., str]) -> Callable[[Sequence[Block]], None]:
    """Skips if a program that the blocks use is not installed."""

    def check(used: Sequence[Block]) -> None:
        for program, package in PROGRAMS.items():
            if any(re.search(rf"\b{program}\b", block.body) for block in used):
                need(program, package)

    return check


@pytest.fixture(scope="session")
def named_files() -> list[Block]:
    """Python blocks that are files of a name, which others of their page import."""
    return [block for block in blocks("python") if block.mark.startswith("file ")]


@pytest.fixture
def blocks_of() -> Callable[[str], list[Block]]:
    """The `sh` blocks of a page, in order."""
    return lambda page: [block for block in blocks("sh") if block.file.name == page]


@pytest.fixture
def text_after() -> Callable[[Block], str]:
    """The body of the `text` block that follows a block."""

    def body(block: Block) -> str:
        following = [each for each in blocks("text") if each.file == block.file and each.line > block.line]
        assert following, f"{block.name} is followed by no text"
        return min(following, key=lambda each: each.line).body

    return body


class Terminals:
    """Shells that are left open, as the reader leaves them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path, "NO_COLOR": "1"}
        self.opened: list[subprocess.Popen[str]] = []

    def run(self, script: str) -> str:
        done = subprocess.run(
            # Not as an argument: `pgrep -f` would find it there.
            ["bash", "-eu"],
            input=script,
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def open(self, script: str) -> str:
        """Its first line of output; it goes on."""
        process = subprocess.Popen(
            ["bash", "-euc", f"exec {script}"],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self.opened.append(process)
        assert process.stdout is not None
        return process.stdout.readline()

    def ctrl_c(self) -> list[int]:
        """In all of them, the last opened first; how they ended."""
        for process in reversed(self.opened):
            process.send_signal(signal.SIGINT)
        return [process.wait(SECONDS) for process in self.opened]


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Terminals]:
    made = Terminals(tmp_path)
    yield made
    for process in made.opened:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(SECONDS)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`sh_block`, `python_block`: every block of that language; `program`: Python that is whole;
    `program_with_a_folder`: Python that is whole and keeps its state."""
    if "program" in metafunc.fixturenames:
        whole = [block for block in blocks("python") if block.mark.startswith("run")]
        whole = [block for block in whole if AGAIN not in block.mark]
        slow = [[pytest.mark.slow] if "spark" in block.body else [] for block in whole]
        marked = [pytest.param(block, marks=marks) for block, marks in zip(whole, slow, strict=True)]
        metafunc.parametrize("program", marked, ids=[block.name for block in whole])
    if "program_with_a_folder" in metafunc.fixturenames:
        lasting = [block for block in blocks("python") if AGAIN in block.mark]
        metafunc.parametrize("program_with_a_folder", lasting, ids=[block.name for block in lasting])
    for language in ("sh", "python"):
        if f"{language}_block" in metafunc.fixturenames:
            found = [
                block
                for block in blocks(language)
                if not block.mark.startswith((STORY, "skip,"))
                and not (language == "sh" and block.file.name == TUTORIAL)
            ]
            metafunc.parametrize(f"{language}_block", found, ids=[block.name for block in found])
    if "story" in metafunc.fixturenames:
        pages = sorted({block.file.name for block in blocks("sh") if block.mark.startswith(STORY)})
        metafunc.parametrize("story", pages)
    if "document" in metafunc.fixturenames:
        metafunc.parametrize(
            "document", documents(), ids=[str(each.relative_to(ROOT)) for each in documents()]
        )
