"""The programs of docs/how-to/asyncio-and-threads.md, as its readers put them together."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from documents import run, write_files_of

PAGE = "asyncio-and-threads.md"
PATIENCE_S = 60
KIT = Path(__file__).parents[1] / "kit"

pytestmark = pytest.mark.system


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_files_of(PAGE, tmp_path)
    return tmp_path


@pytest.mark.slow
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
            print("a second one:", str(failed).strip().splitlines()[-1])
        many = await asyncio.gather(*(ask("POST", "/") for _ in range(20)))
        print(sorted(int(body) for _, body in many) == [*range(3, 23)])
    async with served(app) as ask:
        print(await ask("GET", "/"))


asyncio.run(main())
"""


@pytest.mark.slow
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
