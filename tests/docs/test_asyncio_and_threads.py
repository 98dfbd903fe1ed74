"""The programs of docs/how-to/asyncio-and-threads.md, as its readers put them together."""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from documents import run, write_files_of

from quorate.cli.node.free_ports import free_ports

PAGE = "asyncio-and-threads.md"
PATIENCE_S = 60
KIT = Path(__file__).parents[1] / "kit"

pytestmark = pytest.mark.system


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_files_of(PAGE, tmp_path)
    return tmp_path


def test_a_program_of_threads_goes_on_where_one_of_asyncio_was(folder: Path) -> None:
    for program, printed in (("with_asyncio.py", "55\n"), ("with_threads.py", "110\n")):
        done = run(sys.executable, program, folder=folder)
        assert (done.stdout, done.stderr, done.returncode) == (printed, "", 0)


ASKS = """
import asyncio
import sys

from asgi import app
from asgi_client import StartupFailedError, served


async def main() -> None:
    async with served(app) as ask:
        print(await ask("POST", "/"), await ask("POST", "/"), await ask("GET", "/"))
        try:
            async with served(app):
                pass
        except StartupFailedError as failed:
            print("a second one:", failed)
        many = await asyncio.gather(*(ask("POST", "/") for _ in range(20)))
        print(sorted(int(body) for _, body in many) == [*range(3, 23)])
    async with served(app) as ask:
        print(await ask("GET", "/"))


asyncio.run(main())
"""


def test_an_asgi_service_opens_the_quorum_in_its_lifespan(folder: Path) -> None:
    (folder / "asks.py").write_text(ASKS)
    done = subprocess.run(
        [sys.executable, "asks.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(KIT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    first, second, third, fourth = done.stdout.splitlines()
    assert first == "(200, b'1') (200, b'2') (200, b'2')"
    assert second.startswith("a second one: ") and "another process is using this folder" in second
    assert (third, fourth) == ("True", "(200, b'22')")


@contextmanager
def gunicorn(folder: Path) -> Iterator[Callable[[str], str]]:
    address = f"127.0.0.1:{free_ports(1)[0]}"
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
