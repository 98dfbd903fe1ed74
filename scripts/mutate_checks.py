"""Take every single check of who may do what out of the code, one at a time, and run the tests that must find
that.

    python scripts/mutate_checks.py [--only TEXT] [--jobs 2] [--turn N]

The checks are found in the code, so that a new one is here by itself: calls that ask what somebody may do,
calls that raise if somebody may not or is not who it claims to be, and conditions before such an error. The
needs in the rows of tables are taken out in tests/broker/apis/test_permissions.py and
tests/broker/controller/test_permits.py.
"""

import ast
import concurrent.futures
import queue
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import mutate
import typer

TURNS: Final = 8
_QUESTIONS: Final = ("may", "may_any", "may_on_cluster", "has_any", "_has", "allows")
"""Calls that are true for who may."""
_GUARDS: Final = (
    "check", "check_each", "check_topic", "check_configs", "check_super_users", "check_seals_again",
    "check_claims", "check_caller", "check_node", "node_at", "identity_at", "_identify", "_check_encrypted",
)  # fmt: skip
"""Calls that raise for who may not, or is another. Those whose result is used are no guards."""
_ERRORS: Final = ("TlsError", "PeerProtocolError", "DeniedError", "KafkaError", "TlsFilesError", "_denied")

_APIS: Final = (
    "tests/broker/apis/test_permissions.py",
    "tests/broker/apis/test_scram_encryption.py",
    "tests/broker/replication/test_fetch_permissions.py",
    "tests/broker/apis/test_acl_apis.py",
)
_CONTROLLER: Final = ("tests/broker/controller/test_permits.py",)
_IDENTITIES: Final = ("tests/raft/test_identities.py", "tests/broker/access/test_certificates.py")


@dataclass(frozen=True, slots=True)
class Place:
    """Modules with checks, and the tests that must find what lacks one."""

    pattern: str
    """Below `quorate`."""
    tests: Sequence[str]
    errors: bool = False
    """Its conditions before errors are checks, too."""


PLACES: Final = (
    Place("broker/apis/*.py", _APIS),
    Place("broker/controller/*.py", _CONTROLLER),
    Place("broker/controller/operations/*.py", _CONTROLLER),
    Place("raft/transport/identities.py", _IDENTITIES, errors=True),
    Place("raft/transport/peers.py", _IDENTITIES),
    Place("raft/transport/channel.py", _IDENTITIES),
    Place("raft/transport/quorum_server.py", _IDENTITIES),
    Place("broker/access/certificates.py", _IDENTITIES, errors=True),
)
_WITH_ERRORS: Final = ("broker/apis/api_row.py", "broker/controller/permits.py")
EQUIVALENT: Final[Mapping[str, str]] = {}
"""Mutants, by name, that change nothing, and why."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check, and the text without it."""

    file: str
    """Below `quorate`."""
    function: str
    line: int
    text: str
    without: str
    """The whole module."""
    tests: Sequence[str]

    @property
    def name(self) -> str:
        return f"{self.file} {self.function}: {self.text}"


def checks() -> Iterator[Check]:
    """Yield all checks in the code."""
    for place in PLACES:
        for path in sorted(mutate.PACKAGE.glob(place.pattern)):
            file = str(path.relative_to(mutate.PACKAGE))
            yield from _checks_of(file, path.read_text(), place.tests, place.errors or file in _WITH_ERRORS)


def _checks_of(file: str, source: str, tests: Sequence[str], errors: bool) -> Iterator[Check]:
    data = source.encode()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def check(function: str, node: ast.expr, instead: bytes) -> Check:
        assert node.end_lineno is not None and node.end_col_offset is not None
        first = starts[node.lineno - 1] + node.col_offset
        last = starts[node.end_lineno - 1] + node.end_col_offset
        text = " ".join(data[first:last].decode().split())
        without = (data[:first] + instead + data[last:]).decode()
        return Check(file, function, node.lineno, text, without, tests)

    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if function.name in ("may_on_cluster", "may_any"):
            continue  # the way to `may` itself
        for node in _own_nodes(function):
            if isinstance(node, ast.Expr) and _called(node.value) in _GUARDS:
                yield check(function.name, node.value, b"None")
            elif isinstance(node, ast.Call) and _called(node) in _QUESTIONS:
                yield check(function.name, node, b"True")
            elif errors and isinstance(node, ast.If) and _refuses(node) and not _asks(node.test):
                yield check(function.name, node.test, b"False")


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield what is in a function and in no function within it."""
    for child in ast.iter_child_nodes(function):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _own_nodes(child)


def _called(node: ast.expr) -> str:
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Attribute):
        # Values of settings are checked too, by other objects than a permit.
        of = getattr(node.func.value, "id", "")
        return "" if node.func.attr == "check" and of != "permit" else node.func.attr
    return getattr(node.func, "id", "")


def _asks(test: ast.expr) -> bool:
    return any(isinstance(each, ast.Call) and _called(each) in _QUESTIONS for each in ast.walk(test))


def _refuses(node: ast.If) -> bool:
    """Return whether the body raises that somebody may not, or is another."""
    last = node.body[-1]
    return isinstance(last, ast.Raise) and last.exc is not None and _called(last.exc) in _ERRORS


def main(
    only: Annotated[str, typer.Option(help="Those whose name has this in it.")] = "",
    jobs: Annotated[int, typer.Option(help="At the same time.", min=1)] = 1,
    turn: Annotated[int | None, typer.Option(help=f"One part of {TURNS}.")] = None,
) -> None:
    """Take each check out, and see whether the tests find it."""
    chosen = [each for each in checks() if only.lower() in each.name.lower() and each.name not in EQUIVALENT]
    if turn is not None:
        chosen = chosen[turn % TURNS :: TURNS]
    mutate.compile_all()
    missed = 0
    with tempfile.TemporaryDirectory(prefix="quorate-checks-") as folder:
        trees: queue.Queue[Path] = queue.Queue()
        for number in range(jobs):
            tree = Path(folder, str(number))
            tree.mkdir()
            mutate.plant(None, tree)
            trees.put(tree)

        def judge(check: Check) -> tuple[Check, str, float]:
            tree, began = trees.get(), time.monotonic()
            try:
                return check, failure_without(check, tree), time.monotonic() - began
            finally:
                trees.put(tree)

        for tests in dict.fromkeys(each.tests for each in chosen):
            if broken := run_tests(tests, tree):
                typer.echo(f"fails with every check in its place: {broken}")
                raise typer.Exit(2)
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            for check, said, took_s in pool.map(judge, chosen):
                missed += not said
                mark = "found " if said else "MISSED"
                typer.echo(f"{mark} {took_s:5.1f} s  line {check.line} of {check.name}")
    typer.echo(f"{len(chosen) - missed} of {len(chosen)} checks found when they are left out")
    if missed:
        raise typer.Exit(1)


def failure_without(check: Check, tree: Path) -> str:
    """Return what fails in a copy of the tree without the check. Empty: nothing does."""
    module = tree / "quorate" / check.file
    module.unlink()
    module.write_text(check.without)
    try:
        return run_tests(check.tests, tree)
    finally:
        module.unlink()
        module.symlink_to(mutate.PACKAGE / check.file)


def run_tests(tests: Sequence[str], tree: Path) -> str:
    """Return what fails in a copy of the tree."""
    options = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--tb=line"]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=tree,
            env=mutate.environment(tree),
            capture_output=True,
            text=True,
            timeout=mutate.TIME_MAX_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return "they hang"
    return mutate.gist(done.stdout + done.stderr) if done.returncode else ""


if __name__ == "__main__":
    typer.run(main)
