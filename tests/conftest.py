"""What all tests share."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quorate.cli.local_cluster import LocalCluster

TESTS = Path(__file__).parent
REAL_TIME = frozenset(
    ("benchmarks", "cli", "clients", "docs", "examples", "metrics", "spark_source", "system")
)
"""Folders of tests that start processes and go by the real clock."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several workers, one has all that goes by the real clock, so that clusters meet no other clusters.
    What goes by virtual time fills the other processors."""
    for item in items:
        if item.path.relative_to(TESTS).parts[0] in REAL_TIME:
            item.add_marker(pytest.mark.xdist_group("real time"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rounds", type=int, default=10, help="rounds of kill -9 in tests/system/test_kill.py")


@pytest.fixture
def need() -> Callable[[str], str]:
    """Path of a program that a test drives; skips with how to get it. CI installs all of them."""

    def find(program: str, package: str | None = None) -> str:
        path = shutil.which(program)
        if path is None:
            pytest.skip(f"{program} is not installed (Debian: apt-get install {package or program})")
        return path

    return find


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[Callable[..., LocalCluster]]:
    """Starts clusters of real processes; leaves none behind."""
    clusters: list[LocalCluster] = []

    def make(nodes: int = 3, **overrides: str) -> LocalCluster:
        settings = {key.replace("_", "."): value for key, value in overrides.items()}
        cluster = LocalCluster.plan(
            tmp_path / f"cluster-{len(clusters)}", nodes=nodes, client_port=0, overrides=settings
        )
        clusters.append(cluster)
        cluster.prepare()
        cluster.start()
        cluster.wait_ready()
        return cluster

    yield make
    for cluster in clusters:
        cluster.kill_all()
