"""The code uses the field's words (CONTRIBUTING.md), the simulation in its prose too."""

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


ELSEWHERE = frozenset(
    """stranger strangers told untold noted gone sight sights echo echoes upto story stories luck trouble
    troubles rung handover seam seams""".split()  # noqa: SIM905
)
"""Not in the names of any package. Prose may say that a process is gone."""
NAMED_ELSEWHERE = frozenset(("BROKER_GONE", "echo"))
"""A reason that records and the Spark source have; typer's function."""


def test_no_private_name_is_in_another_package() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / "quorate").rglob("*.py"))
        for name in {*_names(path.read_text()), path.stem}
        if name not in NAMED_ELSEWHERE
        and {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)} & ELSEWHERE
    ]
    assert not found


@pytest.mark.parametrize(
    "source", ["class Letter: ...", "def _half(): ...", "x.moves = 1", '"""It breaks a promise."""', "# told"]
)
def test_a_private_word_is_found(source: str) -> None:
    assert private_words(source)
    assert not private_words("def move_start(): ...\n'half of the votes'\n# a message is lost")
