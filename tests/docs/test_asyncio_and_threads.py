"""The programs of docs/how-to/asyncio-and-threads.md, as its readers put them together."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PAGE = "asyncio-and-threads.md"
PATIENCE_S = 60

pytestmark = pytest.mark.system


@pytest.fixture
def folder(tmp_path: Path, named_files: list[Any]) -> Path:
    for block in named_files:
        if block.file.name == PAGE:
            (tmp_path / block.mark.removeprefix("file ")).write_text(block.body)
    return tmp_path


def test_an_asyncio_program_awaits_the_quorum_and_goes_on_where_it_was(folder: Path) -> None:
    for printed in ("55\n", "110\n"):
        done = subprocess.run(
            [sys.executable, "with_asyncio.py"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert (done.stdout, done.stderr, done.returncode) == (printed, "", 0)


@contextmanager
def gunicorn(folder: Path) -> Iterator[Callable[[str], str]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with (folder / "gunicorn.log").open("ab") as output:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "gunicorn",
                "--config",
                "gunicorn.conf.py",
                "--bind",
                address,
                "service:app",
            ],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder)},
            stdout=output,
            stderr=output,
        )

    def ask(method: str) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                with urllib.request.urlopen(
                    urllib.request.Request(f"http://{address}/", method=method), timeout=15
                ) as answer:
                    return str(answer.read().decode())
            except urllib.error.URLError as error:
                logged = (folder / "gunicorn.log").read_text()
                assert process.poll() is None and time.monotonic() < deadline, f"{error}: {logged}"
                time.sleep(0.05)

    try:
        yield ask
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0, (folder / "gunicorn.log").read_text()
    finally:
        process.kill()
        process.wait()


def test_a_service_under_gunicorn_opens_the_quorum_in_its_worker(folder: Path) -> None:
    with gunicorn(folder) as ask:
        assert [ask("POST"), ask("POST"), ask("GET")] == ["1", "2", "2"]
    with gunicorn(folder) as ask:
        assert [ask("GET"), ask("POST")] == ["2", "3"]
