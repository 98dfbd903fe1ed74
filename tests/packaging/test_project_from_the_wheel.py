"""An empty project that installs the wheel with the extras of the how-to, pytest and stock clients."""

from pathlib import Path

import pytest

from tests.kit.pytest_projects import PytestProject, blocks_of_the_page
from tests.packaging.conftest import Install

pytestmark = [pytest.mark.slow, pytest.mark.system, pytest.mark.clients]

BESIDE = ("pytest", "pytest-asyncio", "pytest-trio", "aiokafka", "confluent-kafka", "kafka-python")


@pytest.fixture(scope="module")
def python(install: Install) -> Path:
    return install(extras=["broker", "certs"], beside=BESIDE)


@pytest.fixture
def project(tmp_path: Path, python: Path) -> PytestProject:
    return PytestProject(tmp_path, python)


def test_a_stock_client_passes_a_partition_and_a_heal_in_threads_asyncio_and_trio(
    project: PytestProject,
) -> None:
    blocks = blocks_of_the_page()
    for name in ("test_orders.py", "test_with_asyncio.py", "test_with_trio.py"):
        assert ".partition(" in blocks[name] and ".heal()" in blocks[name]
    for name, text in blocks.items():
        project.write(name, text)
    done = project.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout
    project.wait_nothing_left()


def test_nothing_is_left_when_pytest_is_killed_in_the_middle(project: PytestProject) -> None:
    run = project.start_and_sleep()
    assert len(project.processes()) == 4, "pytest, the process that nodes are forked from, and two nodes"
    run.kill()
    run.wait()
    project.wait_nothing_left()
