"""File systems of a given size for real nodes."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kit.full_disk import tmpfs


@pytest.fixture
def small_disk(need: Callable[[str], str]) -> Iterator[Callable[[Path, str], None]]:
    """Return a function that puts a folder and its content on a file system of its own, of the given size."""
    need("mount")
    with ExitStack() as mounted:

        def mount(folder: Path, size: str) -> None:
            aside = folder.with_name(folder.name + "-aside")
            folder.rename(aside)
            folder.mkdir()
            mounted.enter_context(tmpfs(folder, f"size={size}"))
            shutil.copytree(aside, folder, dirs_exist_ok=True)

        yield mount
