"""A process that a program starts for itself, and the socket that only the two have."""

import json
import os
import socket
import subprocess
import sys
from typing import Final

import trio

_END_SECONDS: Final = 5.0
_CODE: Final = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from importlib import import_module
import_module(sys.argv[2]).main(int(sys.argv[3]), int(sys.argv[4]))
"""


class ChildProcess:
    """A child of this process. It has the parent's `sys.path`, working directory, standard output and error,
    and a session of its own, so that Ctrl-C in the terminal is for the parent."""

    def __init__(self, process: trio.Process, ours: socket.socket) -> None:
        self._process = process
        self.stream: Final = trio.SocketStream(trio.socket.from_stdlib_socket(ours))

    @classmethod
    async def start(cls, module: str) -> "ChildProcess":
        """Start Python, and call `main(descriptor, parent)` of `module` there: with the descriptor of its end
        of the socket, for `inherited_stream`, and the id of this process, for `is_orphan`. Raises
        `OSError`."""
        ours, theirs = socket.socketpair()
        with theirs:
            ours.setblocking(False)
            arguments = [json.dumps(sys.path), module, str(theirs.fileno()), str(os.getpid())]
            try:
                process = await trio.lowlevel.open_process(
                    [sys.executable, "-c", _CODE, *arguments],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        return cls(process, ours)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def end(self) -> str:
        """Return how the process has ended, such as `ended with code 1`. It is killed if it does not end."""
        with trio.CancelScope(shield=True):
            with trio.move_on_after(_END_SECONDS):
                await self._process.wait()
            await self.kill()
        code = self._process.returncode
        if code is not None and code < 0:
            return f"was killed by signal {-code}"
        return f"ended with code {code}"

    async def kill(self) -> None:
        """Kill the process, if it runs, and close the socket."""
        with trio.CancelScope(shield=True):
            self._process.kill()
            await self._process.wait()
            await trio.aclose_forcefully(self.stream)


def inherited_stream(descriptor: int) -> trio.SocketStream:
    """Return the child's end of the socket."""
    inherited = socket.socket(fileno=descriptor)
    inherited.setblocking(False)
    os.set_inheritable(descriptor, False)
    return trio.SocketStream(trio.socket.from_stdlib_socket(inherited))


def is_orphan(parent: int) -> bool:
    """Return True if the parent has ended. Its forks may keep the socket open."""
    return os.getppid() != parent
