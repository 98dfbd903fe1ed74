"""Plant faults, one at a time, in a copy of the tree, and run the tests that must find them.

    python scripts/mutate.py [--only TEXT] [--jobs 2] [--finder explorer] [--all-finders]

A fault counts as found if the finder it is meant for fails within its time. One that survives is a hole in
the tests. A fault whose text is no longer in its file, exactly once, is an error: the table has to follow
the code.
"""

import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from mutate_table import MUTATIONS, Finder, Mutation

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "quorate"
TIME_MAX_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Result:
    mutation: Mutation
    found_by: tuple[Finder, ...]
    seconds: float
    said: str
    """The output of the finder that is meant to find it."""


class TextError(Exception):
    """The table does not match the code."""


def problems() -> Iterator[str]:
    """Mutations whose text is not in its file exactly once."""
    for mutation in MUTATIONS:
        path = PACKAGE / mutation.file
        count = path.read_text().count(mutation.old) if path.exists() else 0
        if count != 1:
            yield f"{mutation.name}: its text is {count} times in {mutation.file}, not once"


def plant(mutation: Mutation | None, tree: Path) -> None:
    """Make `tree` a place to run Python in: links to the packages, with the fault in a copy of its module."""
    _link(PACKAGE, tree / "quorate", () if mutation is None else Path(mutation.file).parts)
    for folder in ("tests", "examples"):
        shutil.copytree(ROOT / folder, tree / folder)
    shutil.copy(ROOT / "pyproject.toml", tree)
    if mutation is not None:
        text = (PACKAGE / mutation.file).read_text()
        if text.count(mutation.old) != 1:
            raise TextError(f"{mutation.name}: its text is not once in {mutation.file}")
        (tree / "quorate" / mutation.file).write_text(text.replace(mutation.old, mutation.new))


def _link(source: Path, target: Path, changed: Sequence[str]) -> None:
    """Make `target` a folder like `source`, of links to its files. The module that is to be changed is left
    out, with its bytecode. Folders are no links: a test that looks through the sources would stop there."""
    target.mkdir()
    module = Path(changed[0]).stem if len(changed) == 1 else None
    for path in source.iterdir():
        if path.is_dir():
            inside = changed[1:] if path.name in changed[:1] else ()
            _link(path, target / path.name, changed if path.name == "__pycache__" else inside)
        elif module is None or path.name.partition(".")[0] != module:
            (target / path.name).symlink_to(path)


def compile_all() -> None:
    """Compile the packages once: each of hundreds of runs would compile all that it imports again."""
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(PACKAGE), str(ROOT / "tests")], check=True)


def uncollected(tree: Path) -> str:
    """The output of pytest if it can't collect a test of the table in `tree`. Empty if it can."""
    files = sorted({each for mutation in MUTATIONS for each in mutation.where if each.startswith("tests/")})
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", *files],
        cwd=tree,
        env=environment(tree),
        capture_output=True,
        text=True,
    )
    return done.stdout[-2000:] if done.returncode else ""


def environment(tree: Path) -> dict[str, str]:
    """Return the environment of programs in a copy of the tree."""
    return {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}


def commands(finder: Finder, where: Sequence[str]) -> Iterator[list[str]]:
    match finder:
        case Finder.EXPLORER | Finder.ISR_EXPLORER:
            explorer = [sys.executable, "-m", "tests.simulator.explorer"]
            if finder is Finder.ISR_EXPLORER:
                explorer.append("--isr")
            yield [*explorer, "--bound", "small"]
            for name in where:
                yield [*explorer, "--bound", "ci", "--only", name]
        case Finder.UNIT | Finder.TRACE | Finder.SIMULATION:
            tests = where or _DEFAULT_TESTS[finder]
            options = ["-q", "-x", "-p", "no:cacheprovider", "--no-header", "--tb=line"]
            options.append("--hypothesis-profile=many")
            yield [sys.executable, "-m", "pytest", *options, *tests]


_DEFAULT_TESTS = {
    Finder.UNIT: ("tests/raft/core", "tests/log", "tests/quorum_state"),
    Finder.TRACE: ("tests/traces",),
    Finder.SIMULATION: ("tests/simulation/test_quorum_seeds.py",),
}


def fails(finder: Finder, where: Sequence[str], tree: Path) -> str:
    """The output of a finder that fails. Empty if it finds nothing wrong."""
    ends_at = time.monotonic() + TIME_MAX_SECONDS
    for command in commands(finder, where):
        try:
            done = subprocess.run(
                command,
                cwd=tree,
                env=environment(tree),
                capture_output=True,
                text=True,
                timeout=max(1.0, ends_at - time.monotonic()),
            )
        except subprocess.TimeoutExpired:
            # On a busy machine that says nothing about the fault.
            return ""
        if done.returncode:
            return gist(done.stdout + done.stderr)
    return ""


def gist(output: str) -> str:
    """Return the line that says what failed."""
    lines = [line for line in output.splitlines() if line.strip()]
    for mark in ("BROKEN:", "FAILED", "ERROR", "Error"):
        for line in lines:
            if mark in line:
                return line.strip()[:160]
    return lines[-1][:160] if lines else "it failed without a word"


def judge(mutation: Mutation, *, all_finders: bool = False) -> Result:
    with tempfile.TemporaryDirectory(prefix="quorate-mutant-") as folder:
        tree = Path(folder)
        plant(mutation, tree)
        started = time.monotonic()
        said = fails(mutation.finder, mutation.where, tree)
        seconds = time.monotonic() - started
        found = [mutation.finder] if said else []
        for finder in Finder:
            if finder is not mutation.finder and (all_finders or not said) and fails(finder, (), tree):
                found.append(finder)
        return Result(mutation, tuple(found), seconds, said)


def control(mutations: Sequence[Mutation]) -> Iterator[str]:
    """The finders that fail without any fault, which then show nothing."""
    with tempfile.TemporaryDirectory(prefix="quorate-control-") as folder:
        tree = Path(folder)
        plant(None, tree)
        for finder, where in dict.fromkeys((each.finder, each.where) for each in mutations):
            said = fails(finder, where, tree)
            if said:
                yield f"{finder.value} {' '.join(where)}: {said}"


def main(
    only: Annotated[str, typer.Option(help="Those whose name, file or source has this in it.")] = "",
    finder: Annotated[Finder | None, typer.Option(help="Those meant for this finder.")] = None,
    jobs: Annotated[int, typer.Option(help="At the same time.", min=1)] = 1,
    all_finders: Annotated[
        bool, typer.Option(help="Ask every finder, not just the one it is meant for.")
    ] = False,
    skip_control: Annotated[bool, typer.Option(help="Don't check that all is well without a fault.")] = False,
) -> None:
    """Plant each fault in a copy of the tree and see whether the tests find it."""
    wrong = list(problems())
    for problem in wrong:
        typer.echo(problem)
    if wrong:
        raise typer.Exit(2)
    chosen = [
        each
        for each in MUTATIONS
        if only.lower() in f"{each.name} {each.file} {each.source}".lower() and finder in (None, each.finder)
    ]
    compile_all()
    if not skip_control:
        broken = list(control(chosen))
        for line in broken:
            typer.echo(f"fails without any fault: {line}")
        if broken:
            raise typer.Exit(2)
    survivors = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(judge, each, all_finders=all_finders) for each in chosen]
        for done in concurrent.futures.as_completed(waiting):
            result = done.result()
            mutation = result.mutation
            by = ", ".join(each.value for each in result.found_by) or "NOBODY"
            as_meant = mutation.finder in result.found_by
            survivors += not as_meant
            mark = "found " if as_meant else "MISSED"
            typer.echo(
                f"{mark} {result.seconds:6.1f} s  by {by:20} {mutation.name} "
                f"[{mutation.source}] ({mutation.file})"
            )
            if result.said:
                typer.echo(f"                  {result.said}")
    typer.echo(f"{len(chosen) - survivors} of {len(chosen)} found by who was meant to")
    if survivors:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
