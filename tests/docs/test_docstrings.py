"""Every public name has a docstring that is a sentence by itself, as an editor shows it."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.raft import Telemetry
from quorate.runtime import Disk

PACKAGES = [
    "quorate.aio",
    "quorate.blocking",
    "quorate.client",
    "quorate.history",
    "quorate.log",
    "quorate.metrics",
    "quorate.quorum_state",
    "quorate.raft",
    "quorate.runtime",
    "quorate.simulation",
    "quorate.spark_source",
    "quorate.testing",
]
WORDS_MIN = 5
FRAGMENT = re.compile(
    r"(?:Above|And|As|Below|But|By|For|From|How|If|In|Of|On|Or|So|To|What|When|Where|Whether|Which|Who|With)\b"
)
"""The beginning of a sentence that only continues the name."""


def is_documented(docstring: str) -> bool:
    """True if the first paragraph is a sentence: a beginning, enough words and a stop."""
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    return (
        re.match(r"[A-Z`]", paragraph) is not None
        and FRAGMENT.match(paragraph) is None
        and len(re.findall(r"[\w`'.-]+", paragraph)) >= WORDS_MIN
        and paragraph.endswith((".", "::"))
    )


def documented(name: str) -> Iterator[tuple[str, object]]:
    """The classes and functions that a package exports, and their public methods and properties."""
    package = importlib.import_module(name)
    for public in getattr(package, "__all__", ()):
        each = getattr(package, public)
        if inspect.isfunction(each):
            yield f"{name}.{public}", each
        if not inspect.isclass(each):
            continue
        yield f"{name}.{public}", each
        for member, value in vars(each).items():
            function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            if not member.startswith("_") and inspect.isfunction(function):
                yield f"{name}.{public}.{member}", function


@pytest.mark.parametrize("package", PACKAGES)
def test_each_public_name_has_a_sentence_that_stands_alone(package: str) -> None:
    lacking = []
    for name, each in documented(package):
        docstring = inspect.getdoc(each)
        member = name.rpartition(".")[2]
        for interface in (Telemetry, Disk):
            if docstring is None and hasattr(interface, member):
                docstring = inspect.getdoc(getattr(interface, member))
        generated = (
            inspect.isclass(each) and docstring is not None and docstring.startswith(f"{each.__name__}(")
        )
        if docstring is None or generated or not is_documented(docstring):
            lacking.append(f"{name}: {docstring!r}")
    assert lacking == []


@pytest.mark.slow
def test_each_module_begins_with_a_sentence_that_stands_alone() -> None:
    root = Path(__file__).parents[2]
    files = sorted(file for place in ("quorate", "tests/simulator") for file in (root / place).rglob("*.py"))
    begins = {file: ast.get_docstring(ast.parse(file.read_text())) for file in files}
    assert [
        str(file.relative_to(root)) for file, text in begins.items() if text and FRAGMENT.match(text)
    ] == []


@pytest.mark.parametrize(
    "docstring",
    [
        "Or shrank.",
        "Of a request, by its number and its kind.",
        "Durable when it returns.",
        "Ends without stop",
    ],
)
def test_a_fragment_is_no_documentation(docstring: str) -> None:
    assert not is_documented(docstring)
