"""The processes of the nodes of a cluster on this machine."""

import signal
import subprocess
import time
from collections.abc import Mapping
from typing import Protocol


class NodeProcess(Protocol):
    """The process of a node, as `subprocess.Popen` has it."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None:
        """As of the last `poll` or `wait`."""
        ...

    def poll(self) -> int | None: ...

    def send_signal(self, sig: int) -> None: ...

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code. Raises `subprocess.TimeoutExpired`."""
        ...


def stop_in_order(processes: Mapping[int, NodeProcess], *, seconds: float) -> dict[int, int]:
    """Send SIGTERM to nodes, which then stop leading in order. Return their exit codes.

    All get it at once: one after the other, the last would wait for a quorum that has ended. A node that
    takes longer than `seconds` is killed.
    """
    for process in processes.values():
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + seconds
    for process in processes.values():
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
    return {number: process.wait() for number, process in processes.items()}
