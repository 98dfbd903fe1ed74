"""The plugin in test runs of its own, as a user's project has it."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kit.pytest_projects import PytestProject, blocks_of_the_page
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.system


@pytest.fixture
def project(tmp_path: Path) -> PytestProject:
    return PytestProject(tmp_path)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.slow
def test_the_tests_of_the_page_pass_in_threads_asyncio_and_trio(project: PytestProject) -> None:
    for name, text in blocks_of_the_page().items():
        project.write(name, text)
    done = project.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout
    project.wait_nothing_left()


def test_the_host_of_nodes_starts_before_the_test_run_imports_what_it_needs_itself() -> None:
    """They import at the same time: the first cluster took as long as one after the other."""
    program = "import sys, quorate.testing.pool; print([each for each in sys.modules if 'broker' in each])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.slow
def test_workers_of_xdist_have_clusters_of_their_own(project: PytestProject) -> None:
    project.write(
        "test_both.py",
        "import pytest\n"
        "@pytest.mark.parametrize('number', [1, 2])\n"
        "def test_one(kafka_cluster, number, worker_id):\n"
        "    cluster = kafka_cluster(1)\n"
        "    cluster.create_topic('same')\n"
        "    open(f'{worker_id}-{number}', 'w').write(cluster.bootstrap_servers)\n",
    )
    done = project.run("-n", "2", "--dist", "each", "-k", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    servers = [(project.folder / f"gw{worker}-1").read_text() for worker in (0, 1)]
    assert len(set(servers)) == 2, servers
    assert project.folders() == []


@pytest.mark.slow
def test_a_failed_test_shows_the_cluster_and_the_logs_of_its_nodes(project: PytestProject) -> None:
    project.write(
        "test_fails.py",
        "import time\n"
        "def test_before(kafka_cluster):\n"
        "    kafka_cluster(2).create_topic('earlier')\n"
        "def test_fails(kafka_cluster):\n"
        "    cluster = kafka_cluster(2)\n"
        "    cluster.create_topic('orders', assignment=[[1, 2]])\n"
        "    while 'partition=orders-0' not in cluster.log(2):\n"
        "        time.sleep(0.01)\n"
        "    cluster.kill(2)\n"
        "    cluster.wait_isr('orders', 0, {1}, seconds=0.2)\n",
    )
    done = project.run()
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"ClusterError: not within 0\.2 s: node 1 ", done.stdout), done.stdout
    assert re.search(r"node 2 at 127\.0\.0\.1:\d+: ended with code -9", done.stdout), done.stdout
    for node in (1, 2):
        _, heading, log = done.stdout.partition(f"log of node {node} ---")
        assert heading, done.stdout
        assert "partition=orders-0" in log
    assert "partition=earlier-0" not in done.stdout, "the log of an earlier test"
    assert project.folders() == []


@pytest.mark.slow
@pytest.mark.costly
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_and_no_file_is_left_when_pytest_is_ended(
    project: PytestProject, number: signal.Signals
) -> None:
    run = project.start_and_sleep()
    assert len(project.processes()) == 4, "pytest, the process that nodes are forked from, and two nodes"
    assert project.folders()
    run.send_signal(number)
    run.wait(60)
    project.wait_nothing_left()


@pytest.mark.slow
def test_nodes_end_with_their_host_and_the_next_run_removes_their_folder(project: PytestProject) -> None:
    run = project.start_and_sleep()
    (host,) = (pid for pid in project.processes() if parent_of(pid) == run.pid)
    os.kill(host, signal.SIGKILL)
    wait_until(lambda: set(project.processes()) == {run.pid}, "the nodes end")
    run.kill()
    run.wait()
    (left,) = project.folders()
    long_ago = time.time() - 3600
    os.utime(project.folder / left, (long_ago, long_ago))
    project.write("test_sleeps.py", "def test_one(kafka_cluster):\n    kafka_cluster(1)\n")
    done = project.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert project.folders() == []


@pytest.mark.slow
def test_a_folder_that_can_not_be_written_is_named_with_the_remedy(project: PytestProject) -> None:
    project.write(
        "test_one.py",
        "import tempfile\n"
        "def test_one(kafka_cluster, monkeypatch):\n"
        "    monkeypatch.setattr(tempfile, 'tempdir', '/missing')\n"
        "    kafka_cluster(1)\n",
    )
    done = project.run()
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"ClusterError: /missing can't be written: .*set TMPDIR to another", done.stdout)
