"""File descriptors: counted, reserved for files and nodes. Their end is never taken for a broken disk."""

import gc
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.runtime.disk import DescriptorsExhaustedError
from quorate.runtime.real import RealDisk, SyncStrategy, descriptors


@pytest.fixture
def few() -> Iterator[list[int]]:
    """A soft limit 8 above what this process has open; the list holds what a test opens."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # What earlier tests have left to be collected is not closed meanwhile, and no number below those that are
    # open is free.
    gc.collect()
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    fillers = [os.dup(0)]
    while fillers[-1] <= highest:
        fillers.append(os.dup(0))
    opened: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (fillers[-1] + 9, hard))
    try:
        yield opened
    finally:
        for each in (*opened, *fillers):
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_each_open_file_lowers_the_number_of_free_descriptors(few: list[int]) -> None:
    assert descriptors.left() == 8
    few += [os.dup(0) for _ in range(3)]
    assert descriptors.left() == 5
    few += [os.dup(0) for _ in range(5)]
    assert descriptors.left() == 0


async def test_a_disk_without_descriptors_says_to_raise_the_limit_and_not_that_it_is_broken(
    few: list[int], tmp_path: Path
) -> None:
    disk = RealDisk(sync=SyncStrategy.INLINE)
    held = disk.open(str(tmp_path / "held"), create=True)
    while descriptors.left():
        few.append(os.dup(0))
    for act in (
        lambda: disk.open(str(tmp_path / "new"), create=True),
        lambda: disk.open(str(tmp_path / "held")),
        lambda: disk.list(str(tmp_path)),
        lambda: disk.lock(str(tmp_path / "lock")),
    ):
        with pytest.raises(DescriptorsExhaustedError, match=r"raise it .*The disk is fine"):
            act()
    with pytest.raises(DescriptorsExhaustedError):
        await disk.sync_folder(str(tmp_path))
    assert held.append([b"what is open goes on"]) == 0
    os.close(few.pop())
    held.close()
    assert disk.list(str(tmp_path)) == ["held"], "nothing was left behind"


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    program = (
        "import resource; from quorate.runtime.real import descriptors\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300))\n"
        "said = descriptors.raise_soft_limit()\n"
        "print(said, resource.getrlimit(resource.RLIMIT_NOFILE), descriptors.reserve())"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout == "300 (300, 300) 75\n"
