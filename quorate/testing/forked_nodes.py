"""The process that nodes are forked from: `python -m quorate.testing.forked_nodes FOLDER PROGRAM`.

It imports once what all nodes of a program need, so that a node starts within milliseconds. It is also the
one that leaves nothing behind. When its standard input ends, because a test run has ended or was killed, it
kills its nodes and removes the folder. When it is killed itself, the kernel kills the nodes
(PR_SET_PDEATHSIG).
"""

import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

LOCK: Final = "lock"
_MESSAGE_MAX_BYTES: Final = 64 * 1024
_ORPHAN_SECONDS: Final = 1.0
"""The time between two looks at whether the parent has ended while a child of it keeps our input open."""
_PR_SET_PDEATHSIG: Final = 1


def main(folder: Path, program: str) -> None:
    """Fork nodes as the messages on standard input ask for it, until that ends."""
    parent = os.getppid()
    # Held by the nodes too: the folder is in use as long as one of them lives.
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    signal.signal(signal.SIGTERM, _end)
    children: set[int] = set()
    try:
        _preload(program)
        with socket.socket(fileno=os.dup(0)) as channel:
            while True:
                if not select.select([channel], [], [], _ORPHAN_SECONDS)[0]:
                    if os.getppid() != parent:
                        return
                    continue
                message, received, _, _ = socket.recv_fds(channel, _MESSAGE_MAX_BYTES, 1)
                if not message:
                    return
                match json.loads(message):
                    case {"start": str(config_file), "program": str(program), "log": str(log_file)}:
                        _preload(program)
                        started = _fork(channel, program, config_file, log_file, received[0])
                        children.add(started)
                        channel.send(b"%d" % started)
                    case {"reap": int(child)}:
                        children.discard(child)
                        channel.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        shutil.rmtree(folder, ignore_errors=True)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def _preload(program: str) -> None:
    if program in sys.modules:
        return
    importlib.import_module(program).preload()
    # Collections in a node would copy the pages that all nodes share.
    gc.collect()
    gc.freeze()


def _fork(channel: socket.socket, program: str, config_file: str, log_file: str, control: int) -> int:
    host = os.getpid()
    child = os.fork()
    if child:
        os.close(control)
        return child
    code = 1
    try:
        _die_with(host)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        channel.close()
        output = os.open(log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, target in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(descriptor, target)

        code = importlib.import_module(program).run(Path(config_file), socket.socket(fileno=control))
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _die_with(host: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != host:
        os._exit(1)


def remove_abandoned(parent: Path, prefix: str) -> None:
    """Remove the folders of hosts that were killed before they could do it."""
    for folder in parent.glob(f"{prefix}*"):
        with contextlib.suppress(OSError), _unlocked(folder):
            shutil.rmtree(folder, ignore_errors=True)


_NEW_SECONDS: Final = 60.0
"""A folder as young as that may be one whose host has not locked it yet."""


@contextlib.contextmanager
def _unlocked(folder: Path) -> Iterator[None]:
    """Take the lock of a folder. Raises `BlockingIOError` if it is in use, `OSError` if it is not ours."""
    if time.time() - folder.stat().st_mtime < _NEW_SECONDS:
        raise BlockingIOError
    lock = os.open(folder / LOCK, os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
