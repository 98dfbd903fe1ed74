"""The processes that a Spark session has started, as /proc shows them: their processor time and their memory.

They are children of this process: JVMs (Java), and Python processes below them. Other children, such as the
nodes of a cluster, do not count.
"""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_LOOK_S: Final = 0.25
_JAVA: Final = "java"


@dataclass(frozen=True, slots=True)
class CpuSeconds:
    """Processor time so far, of ended processes too, in steps of 10 ms."""

    jvm: float
    python: float

    def since(self, earlier: "CpuSeconds") -> "CpuSeconds":
        return CpuSeconds(self.jvm - earlier.jvm, self.python - earlier.python)


class _Process(NamedTuple):
    pid: int
    parent: int
    is_jvm: bool
    own_ticks: int
    ended_children_ticks: int
    """Of those that it has waited for, and of theirs."""
    resident_bytes: int


def cpu_seconds() -> CpuSeconds:
    """The time of a moment at which no process ends: one that is read before it ends, and whose parent is
    read later, would count twice, and in the other order not at all."""
    found = list(_spark_processes())
    while True:
        earlier, found = found, list(_spark_processes())
        if {each.pid for each in earlier} == {each.pid for each in found}:
            return _sum_of(found)


def _sum_of(processes: Sequence[_Process]) -> CpuSeconds:
    jvm = python = 0
    for each in processes:
        if each.is_jvm:
            jvm += each.own_ticks
            # A JVM waits for Python processes alone: executors of a standalone cluster live as long as it.
            python += each.ended_children_ticks
        else:
            python += each.own_ticks + each.ended_children_ticks
    return CpuSeconds(jvm / _TICKS_PER_S, python / _TICKS_PER_S)


class PeakMemory:
    """The memory of the largest Python process within the block, looked at four times a second."""

    def __init__(self) -> None:
        self.worker_mib = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.is_set():
            self._look()
            self._over.wait(_LOOK_S)
        self._look()

    def _look(self) -> None:
        held = [each.resident_bytes for each in _spark_processes() if not each.is_jvm]
        self.worker_mib = max([self.worker_mib, *(size / 2**20 for size in held)])


def _spark_processes() -> Iterator[_Process]:
    """Yield the JVMs below this process, and everything below a JVM."""
    children: dict[int, list[_Process]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            # It may end while it is read.
            with suppress(FileNotFoundError, ProcessLookupError):
                process = _read(folder)
                children.setdefault(process.parent, []).append(process)
    waiting = [(each, False) for each in children.get(os.getpid(), ())]
    while waiting:
        process, below_jvm = waiting.pop()
        counts = below_jvm or process.is_jvm
        if counts:
            yield process
        waiting += [(each, counts) for each in children.get(process.pid, ())]


def _read(folder: Path) -> _Process:
    before, _, after = (folder / "stat").read_text().rpartition(")")
    # The fields from the process's state on, which proc(5) counts as the third.
    fields = after.split()
    return _Process(
        pid=int(folder.name),
        parent=int(fields[1]),
        is_jvm=before.partition("(")[2] == _JAVA,
        own_ticks=int(fields[11]) + int(fields[12]),
        ended_children_ticks=int(fields[13]) + int(fields[14]),
        resident_bytes=int(fields[21]) * _PAGE_BYTES,
    )
