"""Signals during the start of a server: it ends at once, because nothing is open yet.

Without it SIGTERM in the first second of a start, while modules are imported, ended the process by the
signal's default action, which supervisors take for a crash.
"""

import os
import signal
from collections.abc import Sequence
from types import FrameType


def end_at_once_while_starting(arguments: Sequence[str]) -> None:
    """Install the handlers if `arguments` (as `sys.argv`) start a server. `run_server` takes their place."""
    if tuple(arguments[1:3]) == ("server", "start"):
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _end)


def _end(number: int, frame: FrameType | None) -> None:
    # Not by an exception, which an import that is under way could catch.
    os.write(2, b"quorate: stopped while it started; nothing was open\n")
    os._exit(0)
