"""The documents, their fenced blocks, and a cluster for those that need one."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from quorate.cli.local_cluster import LocalCluster

ROOT = Path(__file__).parents[2]
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


@pytest.fixture
def blocks_of() -> Callable[[str], list[Block]]:
    """The `sh` blocks of a page, in order."""
    return lambda page: [block for block in blocks("sh") if block.file.name == page]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`sh_block`, `python_block`: every block of that language; `program`: Python that is whole."""
    if "program" in metafunc.fixturenames:
        whole = [block for block in blocks("python") if block.mark.startswith("run")]
        metafunc.parametrize("program", whole, ids=[block.name for block in whole])
    for language in ("sh", "python"):
        if f"{language}_block" in metafunc.fixturenames:
            found = blocks(language)
            metafunc.parametrize(f"{language}_block", found, ids=[block.name for block in found])
    if "document" in metafunc.fixturenames:
        metafunc.parametrize(
            "document", documents(), ids=[str(each.relative_to(ROOT)) for each in documents()]
        )
