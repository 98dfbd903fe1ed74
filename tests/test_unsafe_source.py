"""What no source of quorate does, because published holes of others began with it.

Other rules of the source are in `pyproject.toml` and in `test_architecture.py`.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "quorate"
REVERSE = {"getfqdn", "gethostbyaddr", "gethostbyname_ex", "getnameinfo", "http.server"}
"""The calls that ask the DNS for the name of an address, and the module whose server does so."""
RUNS_CODE = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "unsafe_load"}
"""What makes bytes into objects of any class, and so may call anything."""
CALLS_CODE = {"eval", "exec", "compile", "__import__"}
OWN_CHILD = {f"raft/doors/child_{name}.py" for name in ("main", "messages", "node")}
"""A program and the process that it starts, on a pair of sockets that nobody else can reach."""
OWN_TYPES = {"cbor/arrays.py"}
"""Code that is made of the fields of quorate's own dataclasses, when they are declared."""
KNOWS_SECRETS = re.compile(
    r"broker/access/|broker/wire/sasl/|broker/wire/login_network|metrics/token_file|oauth|secret|join"
)
SECRET = re.compile(
    r"(?:^|_)(?:password|salted|proof|signature|stored_key|server_key|client_key|digest|h?mac|secret|tag|token)$"
)
COMPARES = {
    "broker/access/sealing.py",
    "broker/wire/login_network.py",
    "broker/wire/sasl/plain.py",
    "broker/wire/sasl/scram.py",
    "metrics/token_file.py",
}
"""Where something that a client sends is compared with a secret, or with what is made of one."""


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """The modules of the package that is published, by the paths in it."""
    return {path.relative_to(SOURCE).as_posix(): path.read_text() for path in sorted(SOURCE.rglob("*.py"))}


def names_in(tree: ast.AST) -> Iterator[str]:
    """All names that a module imports, or uses behind a dot or by themselves."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (each.name for each in node.names)
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id


def calls_in(tree: ast.AST) -> Iterator[str]:
    """The names that a module calls without a dot."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id


@pytest.mark.slow
@pytest.mark.bug("CVE-2026-24281")
def test_no_address_is_looked_up_for_its_name(texts: dict[str, str]) -> None:
    """Who holds an address chooses that name."""
    found = {path: names for path, text in texts.items() if (names := REVERSE & {*names_in(ast.parse(text))})}
    assert not found


@pytest.mark.slow
@pytest.mark.bug("hivemind issue 381")
def test_no_input_is_unpickled_or_run(texts: dict[str, str]) -> None:
    found = {
        path: names
        for path, text in texts.items()
        for tree in (ast.parse(text),)
        if (names := (RUNS_CODE & {*names_in(tree)}) | (CALLS_CODE & {*calls_in(tree)}))
    }
    assert {*found} == OWN_CHILD | OWN_TYPES, found


def last_name(node: ast.expr) -> str:
    """The name by which a value is reached, or the function that makes it."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def comparisons_of_secrets(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops):
            sides = [node.left, *node.comparators]
            # What is compared with a text of the program tells nothing of a secret.
            if not any(isinstance(side, ast.Constant) for side in sides) and any(
                SECRET.search(last_name(side)) for side in sides
            ):
                yield f"line {node.lineno}: {ast.unparse(node)}"


@pytest.mark.bug("CVE-2021-38153")
def test_secrets_are_compared_in_a_time_that_says_nothing(texts: dict[str, str]) -> None:
    found = {
        path: lines
        for path, text in texts.items()
        if KNOWS_SECRETS.search(path) and (lines := [*comparisons_of_secrets(ast.parse(text))])
    }
    assert not found, "use hmac.compare_digest"
    assert {path for path in COMPARES if "compare_digest" in names_in(ast.parse(texts[path]))} == COMPARES


@pytest.mark.bug("KAFKA-19147")
def test_nothing_can_be_built_without_saying_who_decides(texts: dict[str, str]) -> None:
    """An authorizer that may be left out is one that allows everything."""
    found, named = [], 0
    for path, text in texts.items():
        for node in ast.walk(ast.parse(text)) if "Authorizer" in text else ():
            if isinstance(node, ast.ClassDef):
                fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
                given = [(ast.unparse(each.annotation), each.value) for each in fields]
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                plain = [*node.args.posonlyargs, *node.args.args]
                missing = len(plain) - len(node.args.defaults)
                pairs = [*zip(plain, [*[None] * missing, *node.args.defaults], strict=True)]
                pairs += zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
                given = [(ast.unparse(arg.annotation), value) for arg, value in pairs if arg.annotation]
            else:
                continue
            for annotation, value in given:
                if re.search(r"\bAuthorizer\b", annotation):
                    named += 1
                    if value is not None:
                        found.append(f"{path}: {node.name}")
    assert not found
    assert named >= 5
