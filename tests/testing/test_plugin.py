"""The plugin in test runs of its own, as a user's project has it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kit.waiting import wait_until

pytestmark = pytest.mark.system

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "test-with-a-cluster.md"
SECONDS = 300.0


def blocks_of_the_page() -> dict[str, str]:
    """The Python files of the how-to by their names, which their first lines say."""
    found = re.findall(r"```python\n# (test_\w+\.py)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return dict(found)


def pytest_command(folder: Path, *arguments: str) -> list[str]:
    (folder / "pytest.ini").write_text("[pytest]\n")
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.run(
        pytest_command(folder, *arguments),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


def folders_left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("quorate-test-*"))


def is_running(pid: int) -> bool:
    """True unless the process has ended, or has only to be waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_tests_of_the_page_pass_in_threads_asyncio_and_trio(tmp_path: Path) -> None:
    blocks = blocks_of_the_page()
    assert len(blocks) == 3
    for name, text in blocks.items():
        (tmp_path / name).write_text(text)
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
    assert folders_left(tmp_path) == []


def test_workers_of_xdist_have_clusters_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "test_both.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('number', [1, 2])\n"
        "def test_one(kafka_cluster, number, worker_id):\n"
        "    cluster = kafka_cluster(1)\n"
        "    cluster.create_topic('same')\n"
        "    open(f'{worker_id}-{number}', 'w').write(cluster.bootstrap_servers)\n"
    )
    done = run_pytest(tmp_path, "-n", "2", "--dist", "each", "-k", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    servers = [(tmp_path / f"gw{worker}-1").read_text() for worker in (0, 1)]
    assert len(set(servers)) == 2, servers
    assert folders_left(tmp_path) == []


def test_a_failed_test_shows_the_cluster_and_the_logs_of_its_nodes(tmp_path: Path) -> None:
    (tmp_path / "test_fails.py").write_text(
        "def test_before(kafka_cluster):\n"
        "    kafka_cluster(2).create_topic('earlier')\n"
        "def test_fails(kafka_cluster):\n"
        "    cluster = kafka_cluster(2)\n"
        "    cluster.create_topic('orders', assignment=[[1, 2]])\n"
        "    cluster.kill(2)\n"
        "    cluster.wait_isr('orders', 0, {1}, seconds=0.2)\n"
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"ClusterError: not within 0\.2 s: node 1 ", done.stdout), done.stdout
    assert re.search(r"node 2 at 127\.0\.0\.1:\d+: ended with code -9", done.stdout), done.stdout
    for node in (1, 2):
        _, heading, log = done.stdout.partition(f"log of node {node} ---")
        assert heading, done.stdout
        assert "partition=orders-0" in log
    assert "partition=earlier-0" not in done.stdout, "the log of an earlier test"
    assert folders_left(tmp_path) == []


def start_and_sleep(tmp_path: Path) -> tuple[subprocess.Popen[bytes], dict[str, int]]:
    """Start a test run that has a cluster of two and sleeps. Return it, and its processes by name."""
    (tmp_path / "test_sleeps.py").write_text(
        "import json, os, time\n"
        "def test_sleeps(kafka_cluster, quorate_clusters):\n"
        "    cluster = kafka_cluster(2)\n"
        "    pids = {str(each['id']): each['pid'] for each in cluster.as_dict()['nodes']}\n"
        "    pids['host'] = int(open(f'/proc/{pids[\"1\"]}/stat').read().rpartition(')')[2].split()[1])\n"
        "    json.dump(pids, open('pids.part', 'w'))\n"
        "    os.rename('pids.part', 'pids')\n"
        "    cluster.pause(2)\n"
        "    time.sleep(600)\n"
    )
    output = tmp_path / "output"
    with output.open("w") as file:
        run = subprocess.Popen(
            pytest_command(tmp_path),
            cwd=tmp_path,
            env={**os.environ, "TMPDIR": str(tmp_path)},
            stdout=file,
            stderr=file,
        )
    pids = tmp_path / "pids"
    try:
        wait_until(lambda: pids.exists() or run.poll() is not None, "the test sleeps", seconds=SECONDS)
        assert pids.exists(), output.read_text()
    except BaseException:
        run.kill()
        raise
    return run, json.loads(pids.read_text())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_and_no_file_is_left_when_pytest_is_ended(tmp_path: Path, number: signal.Signals) -> None:
    run, pids = start_and_sleep(tmp_path)
    assert all(map(is_running, pids.values()))
    assert folders_left(tmp_path)
    run.send_signal(number)
    run.wait(60)
    wait_until(lambda: not any(map(is_running, pids.values())), f"processes {pids} end")
    wait_until(lambda: not folders_left(tmp_path), "the folder is removed")


def test_nodes_end_with_their_host_and_the_next_run_removes_their_folder(tmp_path: Path) -> None:
    run, pids = start_and_sleep(tmp_path)
    os.kill(pids["host"], signal.SIGKILL)
    wait_until(lambda: not any(map(is_running, pids.values())), f"processes {pids} end")
    run.kill()
    run.wait()
    (left,) = folders_left(tmp_path)
    long_ago = time.time() - 3600
    os.utime(tmp_path / left, (long_ago, long_ago))
    (tmp_path / "test_sleeps.py").write_text("def test_one(kafka_cluster):\n    kafka_cluster(1)\n")
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert folders_left(tmp_path) == []


def test_a_folder_that_can_not_be_written_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(
        "import tempfile\n"
        "def test_one(kafka_cluster, monkeypatch):\n"
        "    monkeypatch.setattr(tempfile, 'tempdir', '/missing')\n"
        "    kafka_cluster(1)\n"
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"ClusterError: /missing can't be written: .*set TMPDIR to another", done.stdout)
