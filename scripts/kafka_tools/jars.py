"""Kafka's tools as jars, and our Java beside them. And jars of packages for Spark.

Maven fetches what a pom.xml pins, by its own settings, into the folder that QUORATE_KAFKA_TOOLS names
(~/.cache/quorate/kafka-tools without it). jars.sha256 beside the pom.xml says what each file has to be, so
that a folder that is whole needs neither Maven nor a network.
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
POM = "pom.xml"
PINNED = "jars.sha256"
"""A file as sha256sum prints it: digest, two blanks, file name."""
SOURCES = HERE / "java"
FOLDER = "QUORATE_KAFKA_TOOLS"


class CantRunHereError(Exception):
    """This machine lacks a program or file. The message names it, and the way to get it."""


def folder() -> Path:
    given = os.environ.get(FOLDER)
    return Path(given) if given else Path.home() / ".cache" / "quorate" / "kafka-tools"


def class_path() -> str:
    """Return the class path of Kafka's jars and our compiled classes. Raises `CantRunHereError`."""
    program("java", "default-jdk-headless")
    jars = _fetched(HERE, folder() / "jars")
    return os.pathsep.join([str(_compiled(folder(), jars[0].parent)), *map(str, jars)])


def of_spark(package: str) -> list[Path]:
    """Return the jars of a package for Spark: `kafka`, its Kafka source, or `delta`. Raises
    `CantRunHereError`."""
    return _fetched(HERE / "spark" / package, folder() / "spark" / package)


def program(name: str, package: str) -> str:
    """Return the path of a program. Raises `CantRunHereError`."""
    path = shutil.which(name)
    if path is None:
        raise CantRunHereError(f"{name} is not installed (Debian: apt-get install {package})")
    return path


def _fetched(pins: Path, jars: Path) -> list[Path]:
    """Return the files in the folder `jars` that the folder `pins` names. Raises `CantRunHereError`."""
    lines = (line.split() for line in (pins / PINNED).read_text().splitlines())
    pinned = {name: digest for digest, name in lines}
    if _wrong(jars, pinned):
        _fetch(pins / POM, jars)
        if wrong := _wrong(jars, pinned):
            raise CantRunHereError(f"{wrong[0]} in {jars} is not the file whose digest is in {pins / PINNED}")
    return [jars / name for name in sorted(pinned)]


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _wrong(jars: Path, pinned: dict[str, str]) -> list[str]:
    return [
        name
        for name, digest in pinned.items()
        if not (jars / name).is_file() or _digest(jars / name) != digest
    ]


def _fetch(pom: Path, jars: Path) -> None:
    maven = program("mvn", "maven")
    jars.mkdir(parents=True, exist_ok=True)
    ask = ["dependency:copy-dependencies", f"-DoutputDirectory={jars}", "-DincludeScope=runtime"]
    said = ""
    # What Maven has already, it need not ask for.
    for offline in (["-o"], []):
        done = subprocess.run(
            [maven, "-q", "-B", "-f", str(pom), *offline, *ask], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return
        said = done.stdout + done.stderr
    raise CantRunHereError(f"Maven could not fetch what {pom} names: {said[-500:]}")


def _compiled(into: Path, jars: Path) -> Path:
    """Return the folder of our classes, which the digest of their sources names."""
    sources = sorted(SOURCES.glob("*.java"))
    key = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    classes = into / f"classes-{key}"
    if not classes.exists():
        compiler = program("javac", "default-jdk-headless")
        started = into / f"classes-{key}-{os.getpid()}"
        done = subprocess.run(
            [compiler, "-nowarn", "-cp", f"{jars}/*", "-d", str(started), *map(str, sources)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(f"{SOURCES} does not compile:\n{done.stderr}")
        try:
            started.rename(classes)
        except OSError:  # another run was first
            shutil.rmtree(started)
    return classes
