"""Each bug of others in docs/reference/scenarios.md is in the test that is named there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "scenarios.md"
_ROW = re.compile(r"^\| ([ETSRF]\d+) \|.*\| (.*) \|$", re.M)
_TEST = re.compile(r"\[(\S+?)\]\(\.\./\.\./(\S+?)\)")


def named_tests() -> dict[str, list[tuple[str, Path]]]:
    """By id: the name of each test and its file."""
    return {
        row[1]: [(name, ROOT / path) for name, path in _TEST.findall(row[2])]
        for row in _ROW.finditer(PAGE.read_text())
    }


def says(name: str, file: Path) -> str:
    """A story's text; of a test its name and docstring."""
    if file.suffix == ".txt":
        return file.read_text()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return f"{name.replace('_', ' ')} {ast.get_docstring(node) or ''}"
    raise AssertionError(f"{file.name} has no {name}")


def test_each_bug_is_mentioned_by_the_tests_that_are_named() -> None:
    found = named_tests()
    assert len(found) > 60
    for number, tests in found.items():
        assert tests, f"{number} names no test"
        for name, file in tests:
            assert re.search(rf"\b{number}\b", says(name, file), re.I), f"{number} is not in {name}"


def test_each_bug_that_a_story_or_a_mutation_mentions_is_explained() -> None:
    known = set(named_tests())
    stories = "".join(file.read_text() for file in sorted((ROOT / "tests" / "traces").glob("*.txt")))
    mentioned = set(re.findall(r"\b([ETSR]\d+)\b", " ".join(re.findall(r"\([^()]*\)", stories))))
    assert len(mentioned) > 30
    assert mentioned <= known, mentioned - known
