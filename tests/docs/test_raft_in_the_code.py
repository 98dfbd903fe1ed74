"""The pages that show where Raft and Kafka happen name functions, and lines in them, that are there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RAFT = "docs/explanation/raft-in-the-code.md"
KAFKA = "docs/explanation/kafka-in-the-code.md"
_ITEM = re.compile(r"\[`([\w.]+)`\]\(\.\./\.\./([^)]+\.py)\), at\s+`([^`]+)`")


def source_of(path: str, name: str) -> str:
    """The source of a function, or of a method of a class. Empty if there is none."""
    text = (ROOT / path).read_text()
    owner, _, function = name.rpartition(".")
    tree = ast.parse(text)
    classes = (each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == owner)
    place = next(classes, None) if owner else tree
    for each in [] if place is None else place.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name == function:
            return ast.get_source_segment(text, each) or ""
    return ""


@pytest.mark.parametrize("page", [RAFT, KAFKA])
def test_each_function_is_there_and_has_the_line(page: str) -> None:
    text = (ROOT / page).read_text()
    items = _ITEM.findall(text)
    # Each item of a list names one.
    assert len(items) == len(re.findall(r"^- ", text, re.M)) > 15
    missing = [(path, name, line) for name, path, line in items if line not in source_of(path, name)]
    assert not missing


def test_the_three_questions_are_answered_and_the_readme_leads_there() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / RAFT).read_text(), re.M)
    assert headings[:3] == [
        "Where is a vote granted?",
        "Where does a record become durable?",
        "Where does the high watermark move?",
    ]
    assert RAFT in (ROOT / "README.md").read_text()
    assert KAFKA in (ROOT / "README.md").read_text()
