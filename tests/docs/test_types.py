"""The programs in the documents pass the type checkers that readers use."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from documents import BLOCKS, ROOT

WRONG = """
from quorate.raft import CommittedBatch, Quorum, QuorumConfig

class NoState:
    def apply(self, batch: CommittedBatch) -> list[int]:
        return []

def opened(config: QuorumConfig) -> None:
    Quorum.open(config, NoState())
"""
"""A state machine without snapshots: both checkers must find it, or else they check nothing."""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the documents' programs, the examples, and a program that is wrong."""
    folder = tmp_path_factory.mktemp("typed")
    for block in BLOCKS:
        if block.is_whole_program and "quorate" in block.body:  # the rest has another library's types
            name = "".join(letter if letter.isalnum() else "_" for letter in block.name)
            (folder / f"{name}.py").write_text(block.body)
        elif block.file_name:
            file = folder / block.file_name
            if file.exists() and file.read_text() != block.body:  # another page has one of this name
                file = folder / f"{block.file.stem.replace('-', '_')}_{block.file_name}"
            file.write_text(block.body)
    for example in sorted((ROOT / "examples").glob("*.py")):
        (folder / example.name).write_text(example.read_text())
    (folder / "wrong.py").write_text(WRONG)
    return folder


def by_file(found: Iterator[tuple[str, str]]) -> dict[str, list[str]]:
    told: dict[str, list[str]] = {}
    for file, line in found:
        told.setdefault(Path(file).name, []).append(line)
    return told


@pytest.mark.slow
def test_mypy_finds_nothing_in_them(programs: Path) -> None:
    files = sorted(path.name for path in programs.glob("*.py"))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--config-file=", f"--cache-dir={ROOT / 'build' / 'mypy-docs'}"),
            *("--check-untyped-defs", "--ignore-missing-imports", "--follow-imports=silent"),
            *("--namespace-packages", "--explicit-package-bases", "--output=json", *files),
        ],
        cwd=programs,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert not done.stderr, done.stderr
    each = (json.loads(line) for line in done.stdout.splitlines())
    found = by_file((one["file"], f"{one['line']}: {one['message']}") for one in each)
    assert list(found) == ["wrong.py"], found


@pytest.mark.slow
def test_pyright_finds_nothing_in_them(programs: Path) -> None:
    config = {
        "include": ["*.py"],
        "extraPaths": [str(ROOT), *sys.path[1:]],
        "pythonVersion": "3.11",
        "typeCheckingMode": "standard",
    }
    (programs / "pyrightconfig.json").write_text(json.dumps(config))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "-p", "pyrightconfig.json"],
        cwd=programs,
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    each = json.loads(done.stdout)["generalDiagnostics"]
    found = by_file(
        (one["file"], f"{one['range']['start']['line'] + 1}: {one['message']}")
        for one in each
        if one["severity"] == "error"
    )
    assert list(found) == ["wrong.py"], found
