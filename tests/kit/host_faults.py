"""Faults of the machine of a real node: a clock that is wrong, a disk that hangs or is slow, a newer program.

A node's process imports `sitecustomize` before anything else. The one written here puts its own functions
beneath those of the standard library that `quorate/runtime/real` calls. They look at files for each node, so
that a fault begins and ends while the node runs.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

_FOLDER: Final = "QUORATE_TEST_HOST_FAULTS"
_SITE: Final = """
import os, sys, time

def _node():
    for each in sys.orig_argv:
        # Other clusters of the tests are not meant.
        if each.startswith(os.environ["QUORATE_TEST_HOST_FAULTS"]) and each.endswith("/server.properties"):
            return each.split("/")[-2]
    return None

def _install(folder, node):
    def read(what):
        try:
            with open(f"{folder}/{node}.{what}") as file:
                return file.read()
        except OSError:
            return ""

    real_ns, steady = time.time_ns, time.monotonic
    known = [0, -1.0]

    def offset_ns():
        if steady() - known[1] > 0.1:
            known[:] = [int(float(read("clock") or 0) * 1e9), steady()]
        return known[0]

    time.time_ns = lambda: real_ns() + offset_ns()
    time.time = lambda: time.time_ns() / 1e9

    real_fsync = os.fsync

    def fsync(fd):
        while (path := read("hangs")) and os.readlink(f"/proc/self/fd/{fd}") == path:
            time.sleep(0.05)
        real_fsync(fd)

    os.fsync = fsync

    real_fdatasync = os.fdatasync

    def fdatasync(fd):
        seconds, _, path = read("slow").partition(" ")
        if seconds and os.readlink(f"/proc/self/fd/{fd}").startswith(path):
            until = steady() + float(seconds)
            while steady() < until and read("slow"):
                time.sleep(0.05)
        real_fdatasync(fd)

    os.fdatasync = fdatasync

    if feature := read("feature"):
        from dataclasses import replace
        from quorate.broker.metadata import supported_features
        name, level = feature.split("=")
        supported_features.SUPPORTED_FEATURES = tuple(
            replace(each, max_level=int(level)) if each.name == name else each
            for each in supported_features.SUPPORTED_FEATURES
        )

if _node() is not None:
    _install(os.environ["QUORATE_TEST_HOST_FAULTS"], _node())
"""


@dataclass(frozen=True, slots=True)
class HostFaults:
    """The faults of the nodes of a cluster below `folder`, in folders with their numbers (`LocalCluster`)."""

    folder: Path

    @classmethod
    @contextmanager
    def installed(cls, folder: Path) -> Iterator["HostFaults"]:
        """Let all nodes that are started meanwhile have them."""
        (folder / "site").mkdir(parents=True)
        (folder / "site" / "sitecustomize.py").write_text(_SITE)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(folder / "site"), prepend=":")
            patch.setenv(_FOLDER, str(folder))
            yield cls(folder)

    def shift_clock(self, node: int, seconds: float) -> None:
        """Set the wall clock of a node so far ahead. 0: synchronise it."""
        self._write(node, "clock", str(seconds))

    def hang(self, node: int, folder: Path | None) -> None:
        """Let syncs of this folder's entries hang. None: no longer."""
        self._write(node, "hangs", "" if folder is None else str(folder))

    def slow(self, node: int, folder: Path, seconds: float) -> None:
        """Let each sync of a file below this folder take so long. 0: as long as the disk needs."""
        self._write(node, "slow", f"{seconds} {folder}" if seconds else "")

    def support(self, node: int, feature: str, level: int) -> None:
        """From its next start on the node's program supports this level."""
        self._write(node, "feature", f"{feature}={level}")

    def _write(self, node: int, what: str, value: str) -> None:
        written = self.folder / f"{node}.{what}.new"
        written.write_text(value)
        written.rename(self.folder / f"{node}.{what}")
