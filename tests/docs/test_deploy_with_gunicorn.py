"""The programs of docs/how-to/deploy-with-gunicorn.md, as its readers put them together."""

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from documents import write_files_of

from quorate.cli.node.free_ports import free_ports
from tests.kit.waiting import wait_until

PATIENCE_S = 60
REQUESTS = 40

pytestmark = pytest.mark.system


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_files_of("deploy-with-gunicorn.md", tmp_path, own_ports=True)
    return tmp_path


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Python program, and end it in order, which must succeed."""
    log = folder / f"{Path(arguments[-1]).stem}.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, *arguments], cwd=folder, stdout=output, stderr=output, process_group=0
        )
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0, log.read_text()
    except BaseException as error:
        error.add_note(log.read_text())
        raise
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # its workers too
            process.wait()


class Gunicorn:
    def __init__(self, process: subprocess.Popen[bytes], address: str) -> None:
        self._process = process
        self._address = address

    def ask(self, method: str) -> int:
        """Return the number in the answer. Raises `OSError`: there was none with success."""
        request = urllib.request.Request(f"http://{self._address}/", method=method)
        with urllib.request.urlopen(request, timeout=15) as answer:
            return int(answer.read())

    def asks(self, method: str) -> bool:
        try:
            self.ask(method)
        except OSError:
            return False
        return True

    def wait_answer(self) -> None:
        wait_until(lambda: self.asks("GET"), "gunicorn answers", seconds=PATIENCE_S)

    def workers(self) -> set[int]:
        master = self._process.pid
        return set(map(int, Path(f"/proc/{master}/task/{master}/children").read_text().split()))


@contextmanager
def gunicorn(folder: Path, config: str, application: str) -> Iterator[Gunicorn]:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    command = ("-m", "gunicorn", "--config", config, "--bind", address, "--no-control-socket", application)
    with running(folder, *command) as process:
        server = Gunicorn(process, address)
        server.wait_answer()
        yield server


@pytest.mark.slow
def test_workers_that_are_clients_are_killed_and_replaced_and_each_answer_counts_once(
    folder: Path,
) -> None:
    with running(folder, "node.py"), gunicorn(folder, "gunicorn.conf.py", "service:app") as server:
        with ThreadPoolExecutor(8) as pool:
            answers = sorted(pool.map(server.ask, ["POST"] * REQUESTS))
        assert answers == [*range(1, REQUESTS + 1)], "each request was counted once"
        first = server.workers()
        assert len(first) == 3
        os.kill(min(first), signal.SIGKILL)
        wait_until(lambda: len(server.workers() - first) == 1, "the killed worker is replaced")
        server.wait_answer()
        assert server.ask("POST") == REQUESTS + 1
        os.kill(server._process.pid, signal.SIGHUP)
        wait_until(
            lambda: len(server.workers()) == 3 and not server.workers() & first, "all workers are replaced"
        )
        server.wait_answer()
        assert server.ask("GET") == REQUESTS + 1


@pytest.mark.slow
def test_a_worker_that_is_a_node_goes_on_with_its_folder(folder: Path) -> None:
    with gunicorn(folder, "node.conf.py", "member:app") as server:
        assert [server.ask("POST"), server.ask("POST"), server.ask("GET")] == [1, 2, 2]
    with gunicorn(folder, "node.conf.py", "member:app") as server:
        assert [server.ask("GET"), server.ask("POST")] == [2, 3]
