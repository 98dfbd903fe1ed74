"""The wheel as it is published, and environments with it."""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Collection
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Protocol

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
_BUILD = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this checkout, with the files that git has or would add."""
    source = tmp_path_factory.mktemp("source")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, source / name)
    return source


@pytest.fixture(scope="session")
def built(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist of this checkout, built in a copy of it."""
    built = tmp_path_factory.mktemp("built")
    for kind in ("build_wheel", "build_sdist"):
        subprocess.run(
            [sys.executable, "-c", _BUILD, kind, str(built)], cwd=source, capture_output=True, check=True
        )
    return built


@pytest.fixture(scope="session")
def wheel(built: Path) -> Path:
    (wheel,) = built.glob("quorate-*.whl")
    return wheel


def needed_by(requirements: list[str], extras: frozenset[str]) -> dict[str, Distribution]:
    """The distributions of this environment that `requirements` need under `extras`, directly or not."""
    found: dict[str, Distribution] = {}
    for text in requirements:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in extras | {""}):
            continue
        if requirement.name == "quorate" or requirement.name in found:
            continue
        each = distribution(requirement.name)
        found[requirement.name] = each
        found |= needed_by(each.requires or [], frozenset(requirement.extras))
    return found


class Install(Protocol):
    def __call__(self, *, extras: Collection[str] = (), beside: Collection[str] = ()) -> Path: ...


@pytest.fixture(scope="session")
def install(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Install:
    """Makes an environment with the wheel, what it requires with `extras`, and the distributions `beside` it.
    Returns its Python."""

    def make(*, extras: Collection[str] = (), beside: Collection[str] = ()) -> Path:
        home = tmp_path_factory.mktemp("fresh")
        venv.create(home, symlinks=True, with_pip=False)
        (packages,) = home.glob("lib/python3*/site-packages")
        with zipfile.ZipFile(wheel) as opened:
            opened.extractall(packages)
            (metadata,) = (name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
            lines = opened.read(metadata).decode().partition("\n\n")[0].splitlines()
        asked = [line.partition(": ")[2] for line in lines if line.startswith("Requires-Dist:")]
        for each in needed_by([*asked, *beside], frozenset(extras)).values():
            for top in {file.parts[0] for file in each.files or [] if file.parts[0] != ".."}:
                if not (packages / top).exists() and top != "__pycache__":
                    os.symlink(str(each.locate_file(top)), packages / top)
        return home / "bin" / "python"

    return make
