"""Pages and docstrings name only classes, members and fields that exist."""

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from quorate.raft.core import Effect
from quorate.raft.driver.driver import Driver

ROOT = Path(__file__).parents[2]

_NAMED = re.compile(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+)`")
"""Words in code spans that look like classes of more than one word."""


def docstrings(tree: ast.Module) -> Iterator[str]:
    """The docstrings of modules, classes and functions, and the strings below fields."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.value.value


def test_the_page_and_the_driver_name_the_barriers_that_there_are() -> None:
    """Both named two of the three."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    (sentence,) = re.findall(r"Barriers \((.*?)\)", text, re.S)
    barriers = {each for each in get_args(Effect) if each.is_barrier}
    assert set(re.findall(r"`(\w+)`", sentence)) == {each.__name__ for each in barriers}
    assert set(get_args(get_type_hints(Driver._complete_barrier)["barrier"])) == barriers


@pytest.mark.slow
def test_classes_that_docstrings_name_exist() -> None:
    """An effect that had been split lived on in the text."""
    trees = {path: ast.parse(path.read_text()) for path in sorted((ROOT / "quorate").rglob("*.py"))}
    known = set(dir(builtins)) | {
        node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    }
    known |= {  # names that are said as they are
        node.value
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier()
    }
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, tree in trees.items()
        for text in docstrings(tree)
        for name in _NAMED.findall(text)
        if name not in known
    ]
    assert len(known) > 500
    assert not missing, missing


_MEMBER = re.compile(r"`([A-Z]\w+)\.(\w+)[^`\n]*`")
KAFKAS = frozenset((("AdminClient", "list_topics"), ("PartitionState", "maximalIsr")))
"""Classes of Kafka and of its clients with a name that ours has too."""


def members() -> dict[str, set[str]]:
    """The methods, fields and attributes of each class, with those of its bases of the same repository."""
    own: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for path in sorted((ROOT / "quorate").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ClassDef):
                continue
            names = own.setdefault(node.name, set())
            bases.setdefault(node.name, set()).update(
                each.id for each in node.bases if isinstance(each, ast.Name)
            )
            for each in ast.walk(node):
                match each:
                    case ast.FunctionDef() | ast.AsyncFunctionDef():
                        names.add(each.name)
                    case ast.Name(ctx=ast.Store()):
                        names.add(each.id)
                    case ast.Attribute(ctx=ast.Store()):
                        names.add(each.attr)

    def with_inherited(name: str) -> set[str]:
        return own.get(name, set()).union(*(with_inherited(base) for base in bases.get(name, ())))

    return {name: with_inherited(name) for name in own}


@pytest.mark.slow
def test_members_that_pages_name_are_members() -> None:
    """The rules of KRaft named two methods of a class that had been renamed."""
    known = members()
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    missing = [
        f"{page.relative_to(ROOT)}: {owner}.{member}"
        for page in pages
        for owner, member in _MEMBER.findall(page.read_text())
        if owner in known and member not in known[owner] and (owner, member) not in KAFKAS
    ]
    assert not missing, missing


def test_the_log_line_that_the_how_to_shows_has_the_fields_that_are_logged() -> None:
    page = (ROOT / "docs" / "how-to" / "embed-the-quorum.md").read_text()
    (shown,) = re.findall(r"A message reads `role changed (.*?)`", page, re.S)
    calls = [
        node
        for node in ast.walk(ast.parse((ROOT / "quorate" / "raft" / "driver" / "driver.py").read_text()))
        if isinstance(node, ast.Call)
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value == "role changed"
    ]
    (logged,) = calls
    assert re.findall(r"(\w+)=", shown) == [keyword.arg for keyword in logged.keywords]
