"""Every command explains itself, quickly."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main
from typer.core import TyperGroup

from quorate.cli.all_commands import every_command
from quorate.cli.console.cli_errors import ExitCode
from tests.cli.command import COMMAND, Quorate


def commands() -> Iterator[tuple[str, ...]]:
    def walk(group: TyperGroup, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield path
        for name, command in group.commands.items():
            if isinstance(command, TyperGroup):
                yield from walk(command, (*path, name))
            else:
                yield (*path, name)

    root = typer.main.get_command(every_command())
    assert isinstance(root, TyperGroup)
    return walk(root, ())


@pytest.mark.parametrize("path", list(commands()), ids=lambda path: " ".join(path) or "quorate")
def test_every_help_has_an_example(path: tuple[str, ...], quorate: Quorate) -> None:
    shown = quorate.output(*path, "--help")
    assert "Example: quorate" in shown
    example = " ".join(shown.partition("Example: ")[2].split())
    assert example.startswith(" ".join(("quorate", *path))), "the example is of this command"


HEAVY = ("trio", "kio", "pyspark", "hypothesis", "confluent_kafka", "prometheus_client", "cbor2")


def imported(*arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *COMMAND[1:], *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr[-1000:]
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "import time:" in line}


@pytest.mark.parametrize("arguments", [("--help",), ("server", "start", "--help"), ("demo", "--help")])
def test_help_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    roots = {name.split(".")[0] for name in imported(*arguments)}
    assert "typer" in roots
    assert not roots.intersection(HEAVY)


def test_a_command_imports_no_other() -> None:
    program = (
        "import sys\n"
        "from quorate.cli.all_commands import every_command\n"
        "every_command(['topics', 'list'])\n"
        "print(*(name for name in sys.modules if name.endswith('_commands')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert set(done.stdout.split()) == {
        "quorate.cli.all_commands", "quorate.cli.commands.topic_commands"
    }, done.stderr  # fmt: skip


def test_an_unknown_command_is_compared_with_all(quorate: Quorate) -> None:
    assert "topics" in quorate.error("topic", "list", code=ExitCode.USAGE)


def test_drawing_an_id_does_not_import_a_broker() -> None:
    names = imported("storage", "random-uuid")
    assert not [name for name in names if name.startswith(("quorate.broker", "kio", "trio"))]


def test_a_log_is_dumped_without_spark(tmp_path: Path) -> None:
    file = tmp_path / "__cluster_metadata-0" / "00000000000000000000.log"
    file.parent.mkdir()
    file.write_bytes(b"")
    assert "pyspark" not in {name.split(".")[0] for name in imported("log", "dump", str(file))}


def test_a_shell_completes_commands() -> None:
    asked = {"COMP_WORDS": "quorate cluster ba", "COMP_CWORD": "2", "_QUORATE_COMPLETE": "complete_bash"}
    command = Path(sys.executable).with_name("quorate")
    done = subprocess.run([command], env=os.environ | asked, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["balance"], done.stderr
