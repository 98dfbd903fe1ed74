"""Small disks for real nodes, and full ones."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.kit.waiting import wait_until


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass
    return filler


@contextmanager
def tmpfs(folder: Path, options: str) -> Iterator[Path]:
    """Mount a file system in memory on the folder. Skips the test if this user may not."""
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this user may not mount a tmpfs: {done.stderr.strip()}")
    unmount = partial(subprocess.run, ["umount", str(folder)], capture_output=True)
    try:
        yield folder
    finally:
        wait_until(lambda: unmount().returncode == 0, f"{folder} can be unmounted", seconds=60.0)
