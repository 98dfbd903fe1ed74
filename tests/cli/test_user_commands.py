"""`quorate users` against a cluster of one."""

from pathlib import Path

import pytest

from quorate.cli.console.cli_errors import ExitCode
from tests.cli.command import Quorate


@pytest.fixture
def password(tmp_path: Path) -> str:
    file = tmp_path / "password"
    file.write_text("eight or more\n")
    return str(file)


@pytest.mark.slow
def test_users_are_added_listed_and_removed(ask: Quorate, password: str) -> None:
    def users(*words: str) -> str:
        return ask.output("users", *words)

    assert ask.json("users", "list") == []
    done = users("set", "ann", "--password-file", password)
    assert done == "set the password of ann for SCRAM-SHA-512\n"
    users("set", "ann", "--mechanism", "SCRAM-SHA-256", "--iterations", "8192", "--password-file", password)
    users("set", "bob", "--password-file", password)
    assert ask.json("users", "list", "ann") == [
        {"user": "ann", "mechanism": "SCRAM-SHA-256", "iterations": 8192},
        {"user": "ann", "mechanism": "SCRAM-SHA-512", "iterations": 4096},
    ]
    table = users("list")
    assert "bob" in table and "8192" in table and "eight" not in table
    assert users("remove", "ann") == "removed the password of ann for SCRAM-SHA-256, SCRAM-SHA-512\n"
    assert users("remove", "bob", "--mechanism", "SCRAM-SHA-512").startswith("removed the password of bob")
    assert ask.json("users", "list") == []
    assert "does not exist: ann" in ask.error("users", "remove", "ann")


@pytest.mark.bug("CVE-2020-15115")
def test_a_short_password_is_refused(quorate: Quorate, tmp_path: Path) -> None:
    file = tmp_path / "short"
    file.write_text("1234567\n")
    said = quorate.error("users", "set", "ann", "--password-file", str(file), code=ExitCode.USAGE)
    assert "has 7 characters; it needs at least 8" in said
    assert "1234567" not in said


def test_wrong_usage_names_the_remedy(quorate: Quorate, password: str) -> None:
    said = quorate.error(
        "users", "set", "ann", "--mechanism", "PLAIN", "--password-file", password, code=ExitCode.USAGE
    )
    assert "it must be one of SCRAM-SHA-256, SCRAM-SHA-512" in said
    said = quorate.error("users", "set", "ann", "--password-file", "nowhere", code=ExitCode.USAGE)
    assert "--password-file: nowhere can't be read" in said
