"""The file descriptors of this process: sockets and files share one number."""

import os
import resource
from typing import Final

_ENOUGH: Final = 1 << 20
"""Asked for where the hard limit is none."""
_RESERVE: Final = 256


def raise_soft_limit() -> int:
    """Raise the soft limit to the hard one, as Java does; the limit that holds then. The default is often
    1,024, which a thousand clients use up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else hard
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return soft if soft != resource.RLIM_INFINITY else _ENOUGH
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        return soft
    return wanted


def limit() -> int:
    """Return the soft limit. Other processes may change it (`prlimit`)."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _ENOUGH if soft == resource.RLIM_INFINITY else soft


def left() -> int:
    """Return the least number of files that can still be opened, from the lowest free descriptor."""
    try:
        lowest = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    os.close(lowest)
    return max(0, limit() - lowest)


def reserve() -> int:
    """Return the number of descriptors kept for files and other nodes. Other connections are refused."""
    return min(_RESERVE, limit() // 4)


def exhausted_message() -> str:
    """Return the message, with its remedy, for `EMFILE` and `ENFILE`."""
    return (
        f"no file descriptor is left (the limit is {limit()}); raise it (ulimit -n, LimitNOFILE= of systemd, "
        "--ulimit nofile= of Docker), or lower max.connections or the number of partitions. The disk is fine"
    )
