"""A cluster and terminals for the blocks that need them."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from documents import PROGRAMS, Block, Terminals

from quorate.cli.node.local_cluster import LocalCluster


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


@pytest.fixture
def live(cluster: LocalCluster) -> Callable[[str], str]:
    """A text for the cluster: ports and folder in documents are the defaults of `quorate cluster start`."""

    def on_cluster(text: str) -> str:
        for number, node in enumerate(cluster.nodes):
            for host in ("localhost", "127.0.0.1"):
                text = re.sub(rf"\b{host}:{9092 + number}\b", f"127.0.0.1:{node.client_port}", text)
                text = re.sub(rf"\b{host}:{7071 + number}\b", f"127.0.0.1:{node.metrics_port}", text)
        return text.replace("./quorate-data", str(cluster.folder)).replace(".venv/bin/", "")

    return on_cluster


@pytest.fixture
def need_programs(need: Callable[..., str]) -> Callable[[Sequence[Block]], None]:
    """Skips if a program that the blocks use is not installed."""

    def check(used: Sequence[Block]) -> None:
        for program, package in PROGRAMS.items():
            if any(re.search(rf"\b{program}\b", block.body) for block in used):
                need(program, package)

    return check


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Terminals]:
    made = Terminals(tmp_path)
    yield made
    made.close()
