"""The return of freed memory to the kernel.

glibc itself returns only the free memory at the end of its heap. One living object at the end keeps all freed
memory below: a thousand connections that each leave a buffer keep hundreds of megabytes.
"""

import ctypes
import os
from collections.abc import Callable
from typing import Final

import trio

_STATM: Final = "/proc/self/statm"
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_LOOK_S: Final = 2.0
_LONGEST_WAIT_S: Final = 300.0
_WORTH_BYTES: Final = 32 * 1024 * 1024
"""The growth of the process after which free memory is searched."""


async def give_back_freed_memory() -> None:
    """Give freed memory back, until cancelled: every few seconds while there is more than there was, and less
    often where that is in use. Returns where the C library has no `malloc_trim`.

    The search runs in a thread, at about 30 ms for 400 MB that go back; others that allocate wait for it.
    """
    trim = _trim()
    if trim is None:
        return
    least = known = _resident_bytes()
    wait_s, due = _LOOK_S, trio.current_time()
    while True:
        await trio.sleep(_LOOK_S)
        resident = _resident_bytes()
        if resident - least < _WORTH_BYTES:
            least = min(least, resident)
            continue
        now = trio.current_time()
        if resident - known >= _WORTH_BYTES:
            wait_s, due = _LOOK_S, now
        if now < due:
            continue
        await trio.to_thread.run_sync(trim, 0)
        known = _resident_bytes()
        least = min(least, known)
        wait_s = _LOOK_S if resident - known >= _WORTH_BYTES else min(2 * wait_s, _LONGEST_WAIT_S)
        due = now + wait_s


def _trim() -> Callable[[int], int] | None:
    found: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return found if os.path.exists(_STATM) else None


def _resident_bytes() -> int:
    with open(_STATM, encoding="ascii") as statm:
        return int(statm.read().split()[1]) * _PAGE_BYTES
