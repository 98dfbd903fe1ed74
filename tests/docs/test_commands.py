"""Commands that documents mention outside of blocks, or in blocks that are left out, could be given so."""

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from documents import ROOT, each_document

_SPAN = re.compile(r"`((?:\.venv/bin/)?python [^`]+|make [a-z][^`]*)`")
_LINE = re.compile(r"^((?:\.venv/bin/)?python .+|make [a-z].*)$", re.M)
_OWN_FILE = re.compile(r"^<!-- test: file (\S+) -->$", re.M)


def mentioned(document: Path) -> list[str]:
    """The commands of the page, but those of the programs that it has its reader write."""
    text = document.read_text()
    own = _OWN_FILE.findall(text)
    commands = [each.partition("#")[0] for each in (*_SPAN.findall(text), *_LINE.findall(text))]
    return [each for each in commands if each.split()[1] not in own]


@cache
def help_of(*program: str) -> str:
    done = subprocess.run(
        [sys.executable, *program, "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"},
    )
    assert done.returncode == 0, f"{program}: {done.stderr}"
    return done.stdout


def problems(command: str) -> list[str]:
    first, *words = shlex.split(command)
    if first == "make":
        makefile = (ROOT / "Makefile").read_text()
        targets = [word for word in words if "=" not in word]
        variables = [word.partition("=")[0] for word in words if "=" in word]
        return [
            *(word for word in targets if not re.search(rf"^{word}:", makefile, re.M)),
            *(
                word
                for word in variables
                if f"$({word})" not in makefile and f"$(or $({word})" not in makefile
            ),
        ]
    program = words[:2] if words[0] == "-m" else words[:1]
    if program[-1] == "pytest":
        named = [word for word in words[2:] if word.startswith("tests")]
        return [word for word in named if not (ROOT / word).exists()]
    known = help_of(*program)
    options = [word.partition("=")[0] for word in words[len(program) :] if word.startswith("--")]
    return [option for option in options if not re.search(rf"(?<![\w-]){option}\b", known)]


@pytest.mark.slow
@each_document
def test_commands_that_are_mentioned_exist_with_their_options(document: Path) -> None:
    wrong = {command: found for command in mentioned(document) if (found := problems(command))}
    assert not wrong


def test_a_command_that_is_not_there_is_noticed() -> None:
    assert problems("make tea") == ["tea"]
    assert problems("make fuzz CUPS=3") == ["CUPS"]
    assert problems("python -m tests.simulator --core --politely") == ["--politely"]
    assert problems(".venv/bin/python -m pytest tests/nowhere") == ["tests/nowhere"]
