"""Before other work of the machine.

Where the kernel weighs sessions against each other (sched_autogroup_enabled), a process's nice value counts
within its own session only, and the session has one of its own.
"""

import atexit
import os
from pathlib import Path

PROC = Path("/proc")


def go_first() -> None:
    """This session before all others, until the run ends. New sessions that it begins do not inherit that."""
    os.nice(-20)
    before = _session_nice("self")
    if before is not None:
        _autogroup("self").write_text("-20")
        atexit.register(_autogroup("self").write_text, before)


def as_ours(process: int) -> None:
    """The session that `process` began at its start as far ahead as this one."""
    ours = _session_nice("self")
    if ours is not None and _session_nice(process) != ours:
        _autogroup(process).write_text(ours)


def _autogroup(process: int | str) -> Path:
    return PROC / str(process) / "autogroup"


def _session_nice(process: int | str) -> str | None:
    """None where the kernel does not group by session, or has this process in a group of its own."""
    try:
        said = _autogroup(process).read_text().split()
    except FileNotFoundError:
        return None
    return said[-1] if said else None
