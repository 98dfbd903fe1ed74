"""The simulation and the explorer use the field's words (CONTRIBUTING.md)."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRIVATE = frozenset(
    """letter letters sight sights hands mail mailbox situation situations promise promises promised
    trouble troubles troubled luck stranger strangers told untold noted""".split()  # noqa: SIM905
)
"""Not in the names nor in the prose of these packages. CONTRIBUTING.md has the words to use."""
PRIVATE_NAMES = PRIVATE | {"half", "halves", "gone", "move", "moves"}
"""Plain English in prose, and private as names."""
MAY_BE_NAMED = frozenset(("move_start", "move_on_after", "move_on_at", "half_open", "untoldfailureerror"))
"""The log start moves; trio's function; a half-open connection; an error of the broker."""


def _prose(source: str) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield token.string


def _names(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        for field in ("name", "id", "attr", "arg"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield name


def private_words(source: str) -> set[str]:
    names = {name for name in _names(source) if name.strip("_").lower() not in MAY_BE_NAMED}
    in_names = {part.lower() for name in names for part in re.findall(r"[A-Z]?[a-z]+", name)}
    in_prose = {word.lower() for text in _prose(source) for word in re.findall(r"[A-Za-z]+", text)}
    return (in_names & PRIVATE_NAMES) | (in_prose & PRIVATE)


@pytest.mark.parametrize(
    "path",
    sorted((ROOT / "quorate" / "simulation").rglob("*.py")),
    ids=lambda path: str(path.relative_to(ROOT / "quorate" / "simulation")),
)
def test_no_private_word_is_back(path: Path) -> None:
    assert not private_words(path.read_text()) | (private_words(f"{path.stem} = 1"))


@pytest.mark.parametrize(
    "source", ["class Letter: ...", "def _half(): ...", "x.moves = 1", '"""It breaks a promise."""', "# told"]
)
def test_a_private_word_is_found(source: str) -> None:
    assert private_words(source)
    assert not private_words("def move_start(): ...\n'half of the votes'\n# a message is lost")
