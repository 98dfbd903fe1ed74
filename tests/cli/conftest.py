"""The command, a small cluster to ask, and a node's files."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from quorate.cli.node.local_cluster import LocalCluster
from tests.cli.command import Node, Processes, Quorate
from tests.kit.clusters import running_cluster
from tests.kit.full_disk import tmpfs


@pytest.fixture
def quorate() -> Quorate:
    return Quorate()


@pytest.fixture(scope="module")
def one_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Start a cluster of one node, which the tests of a module share."""
    with running_cluster(tmp_path_factory.mktemp("one-node") / "cluster", nodes=1) as cluster:
        yield cluster


@pytest.fixture
def ask(quorate: Quorate, one_node: LocalCluster) -> Quorate:
    """Return the command at the cluster of one node."""
    return quorate.at(one_node)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    made = Node(tmp_path / "server.properties", tmp_path / "data")
    made.write()
    return made


@pytest.fixture
def formatted_node(node: Node, quorate: Quorate) -> Node:
    quorate.output("storage", "format", "-t", "a-cluster", "-c", node.config)
    return node


@pytest.fixture
def processes() -> Iterator[Processes]:
    started = Processes()
    yield started
    started.kill_all()


@pytest.fixture
def small_disk(tmp_path: Path, need: Callable[[str], str]) -> Iterator[Callable[[str], Path]]:
    """Return a function that mounts a folder of its own with the given options. It skips the test where that
    is not allowed."""
    need("mount")
    with ExitStack() as mounted:

        def mount(options: str) -> Path:
            folder = tmp_path / "disk"
            folder.mkdir()
            return mounted.enter_context(tmpfs(folder, options))

        yield mount
