"""The test run's side of forked nodes: one host for all clusters of a process."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from quorate.testing.cluster_error import ClusterError
from quorate.testing.faults import MESSAGE_MAX_BYTES, READY, NodeFaults
from quorate.testing.forked_nodes import remove_abandoned

_END_SECONDS: Final = 5.0
_PREFIX: Final = f"quorate-test-{os.getuid()}-"


class NodeProgram(StrEnum):
    """The modules of nodes. `preload()` imports what all nodes need. `run(config_file, control)` is a node
    until SIGTERM, and returns the exit code."""

    BROKER = "quorate.testing.broker_node"
    QUORUM_NODE = "quorate.testing.quorum_node"


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """The program of a node, and its files."""

    program: NodeProgram
    config_file: Path
    log_file: Path


class NodeHost:
    """Starts nodes, and ends them and removes their folders when it is closed, or when this process ends."""

    def __init__(self, program: NodeProgram) -> None:
        """`program`: that of the first nodes, which is imported meanwhile."""
        parent = Path(tempfile.gettempdir())
        remove_abandoned(parent, _PREFIX)
        try:
            self.folder: Final = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        except OSError as error:
            raise no_room(parent, error) from error
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        self._errors = self.folder / "host.log"
        self._owner = os.getpid()
        with theirs, self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "quorate.testing.forked_nodes", str(self.folder), program],
                stdin=theirs.fileno(),
                stdout=errors,
                stderr=errors,
                # Ctrl-C in the terminal is for the test run.
                start_new_session=True,
            )

    def start(self, node: int, files: NodeFiles, faults: NodeFaults) -> "ForkedNode":
        """Start a node that has these faults from its first step on."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            message = {
                "start": str(files.config_file),
                "program": files.program,
                "log": str(files.log_file),
            }
            pid = self._ask(message, theirs.fileno())
        return ForkedNode(self, node, pid, ours, faults)

    def reap(self, pid: int) -> int:
        """Return the exit code of a node that has ended."""
        return self._ask({"reap": pid})

    def _ask(self, message: object, *descriptors: int) -> int:
        with self._lock:
            try:
                socket.send_fds(self._channel, [json.dumps(message).encode()], list(descriptors))
                answer = self._channel.recv(MESSAGE_MAX_BYTES)
            except OSError as error:
                raise self._ended() from error
        if not answer:
            raise self._ended()
        return int(json.loads(answer))

    def _ended(self) -> ClusterError:
        code = self._process.wait()
        try:
            said = self._errors.read_text(errors="replace").strip()
        except FileNotFoundError:
            said = ""
        return ClusterError(f"the process that starts nodes ended with code {code}. {said}".rstrip(". "))

    def close(self) -> None:
        """Kill all nodes, and remove all folders. In a forked child of the owner: nothing."""
        if os.getpid() == self._owner:
            self._channel.close()
            self._process.wait()


class ForkedNode:
    """A running node, with the methods of `subprocess.Popen` that a cluster needs."""

    def __init__(
        self, host: NodeHost, node_id: int, pid: int, control: socket.socket, faults: NodeFaults
    ) -> None:
        self._host = host
        self._node_id = node_id
        self.pid: Final = pid
        self.returncode: int | None = None
        self.is_paused = False
        # The host reaps it only when it is asked to, so no other process has the number by now.
        self._pidfd = os.pidfd_open(pid)
        self._control = control
        self._sent = 0
        self._applied = 0
        self._is_ready = False
        self.send(faults)

    # As subprocess.Popen

    def poll(self) -> int | None:
        return self._reap_within(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._reap_within(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"node {self._node_id}", timeout or 0.0)
        return code

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            signal.pidfd_send_signal(self._pidfd, sig)
            self.is_paused = sig == signal.SIGSTOP or (self.is_paused and sig != signal.SIGCONT)

    def _reap_within(self, seconds: float | None) -> int | None:
        if self.returncode is None and _is_readable(self._pidfd, seconds):
            self.returncode = self._host.reap(self.pid)
            os.close(self._pidfd)
            self._control.close()
        return self.returncode

    # Control

    def send(self, faults: NodeFaults) -> None:
        """Give the node its faults. `wait_applied` returns when they hold. A node that has ended has none."""
        self._sent += 1
        try:
            self._control.send(faults.encode(self._sent))
        except OSError:
            self.poll()

    def wait_applied(self, *, seconds: float = 10.0) -> None:
        """Return when the node has the newest faults, or has ended, or is paused: then it has them as soon as
        it goes on, before it is asked again."""
        deadline = time.monotonic() + seconds
        while self._applied < self._sent and not self.is_paused and self._receive(deadline):
            pass

    def wait_ready(self, deadline: float) -> bool:
        """Return True when the node serves; False when it has ended, or `deadline` (of `time.monotonic`) has
        passed."""
        while not self._is_ready and self._receive(deadline):
            pass
        return self._is_ready

    def _receive(self, deadline: float) -> bool:
        if self.returncode is not None or not _is_readable(
            self._control.fileno(), deadline - time.monotonic()
        ):
            return False
        try:
            message = self._control.recv(MESSAGE_MAX_BYTES)
        except ConnectionResetError:
            message = b""
        if not message:
            # It has closed all that it had, and is a moment from its end.
            self._reap_within(_END_SECONDS)
        elif message == READY:
            self._is_ready = True
        else:
            self._applied = int(message)
        return bool(message)


def _is_readable(descriptor: int, seconds: float | None) -> bool:
    ready = select.poll()
    ready.register(descriptor, select.POLLIN)
    return bool(ready.poll(None if seconds is None else max(0.0, seconds) * 1000))


def no_room(folder: Path, error: OSError) -> ClusterError:
    """Return the error for a folder that can't be written."""
    return ClusterError(
        f"{folder} can't be written: {error.strerror}; make room there, or set TMPDIR to another folder that "
        "this user may write"
    )
