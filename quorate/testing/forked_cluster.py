"""Nodes in the hands of a test: processes that are killed, paused, cut off from each other and restarted."""

import shutil
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from quorate.cli.node.node_processes import stop_in_order
from quorate.runtime import Address
from quorate.testing.cluster_error import ClusterError
from quorate.testing.faults import NodeFaults
from quorate.testing.node_host import ForkedNode, NodeFiles, NodeHost, no_room

_Answer = TypeVar("_Answer")

_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 30.0
_LAST_LINES: Final = 15


class ForkedCluster(ABC):
    """Nodes 1 to n, each a process.

    Methods block, most for milliseconds, and may be called from any thread. In a coroutine, call those that
    wait as `await asyncio.to_thread(...)` or `await trio.to_thread.run_sync(...)`, so that the loop goes on.

    All raise `ClusterError`.
    """

    cluster_id: str

    def __init__(self, host: NodeHost, folder: Path, *, nodes: int) -> None:
        self._host = host
        self._folder = folder
        self._faults = dict.fromkeys(range(1, nodes + 1), NodeFaults())
        self._processes: dict[int, ForkedNode] = {}
        self._lock = threading.RLock()
        self._log_starts: dict[int, int] = {}
        self._was_disturbed = False

    @abstractmethod
    def _files(self, node: int) -> NodeFiles:
        """The program of a node, and its files."""

    @abstractmethod
    def _listeners(self, node: int) -> tuple[Address, ...]:
        """The addresses at which other nodes reach this one."""

    def _wait_all_known(self) -> None:
        """Return when the nodes that serve know each other."""
        return

    @abstractmethod
    def _described(self) -> str:
        """Return the state that the nodes share, in lines."""

    @property
    def nodes(self) -> tuple[int, ...]:
        """The ids of all nodes, running or not."""
        return tuple(self._faults)

    def folder(self, node: int) -> Path:
        """The folder of one node, with its configuration, its log and its data."""
        return self._files(node).config_file.parent

    def pid(self, node: int) -> int:
        """The process id of a running node."""
        return self._running(node).pid

    # Processes

    def kill(self, *nodes: int) -> None:
        """Kill nodes with SIGKILL. Returns when they have ended."""
        with self._disturbing(nodes):
            self._kill(nodes)

    def _kill(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            if self._runs(node):
                self._processes[node].send_signal(signal.SIGKILL)
                self._processes[node].wait()

    def pause(self, *nodes: int) -> None:
        """Stop nodes with SIGSTOP: their connections stay open, and nothing answers."""
        with self._disturbing(nodes):
            for node in nodes:
                self._running(node).send_signal(signal.SIGSTOP)

    def resume(self, *nodes: int) -> None:
        """Let paused nodes go on."""
        with self._disturbing(nodes):
            for node in nodes:
                self._running(node).send_signal(signal.SIGCONT)
            self._wait_applied()

    def restart(self, *nodes: int, wait: bool = True) -> None:
        """Start nodes again, at their addresses and with their data. Those that run are stopped in order
        first. Returns when they serve; with `wait=False` when they start, for a node without a majority."""
        with self._disturbing(nodes):
            stop_in_order(
                {node: self._processes[node] for node in nodes if self._runs(node)}, seconds=_STOP_SECONDS
            )
            self._start(nodes, wait=wait)

    def _start_all(self) -> None:
        """Start a new cluster. If a node does not start, none is left running."""
        try:
            self._start(self.nodes)
        except BaseException:
            self.stop()
            raise

    def _start(self, nodes: Iterable[int], *, wait: bool = True) -> None:
        numbers = tuple(nodes)
        try:
            for node in numbers:
                self._processes[node] = self._host.start(node, self._files(node), self._faults[node])
        except OSError as error:
            raise no_room(self._folder, error) from error
        if not wait:
            return
        deadline = time.monotonic() + _START_SECONDS
        for number in numbers:
            if not self._processes[number].wait_ready(deadline):
                code = self._processes[number].poll()
                why = (
                    f"was not ready within {_START_SECONDS:g} s"
                    if code is None
                    else f"ended with code {code}"
                )
                raise ClusterError(f"node {number} {why}. Its log ends:\n{self._last_lines(number)}")
        self._wait_all_known()

    def _last_lines(self, node: int) -> str:
        return "\n".join(self.log(node).splitlines()[-_LAST_LINES:])

    # Network and disks

    def partition(self, *sides: Collection[int]) -> None:
        """Cut the network between nodes of different sides, such as `partition({1}, {2, 3})`.

        Nodes on no side reach all others, and clients reach every node. Messages between the sides wait for
        the heal, as TCP's do. A new partition replaces the old one.
        """
        side_of = {node: index for index, side in enumerate(sides) for node in side}
        if len(side_of) != sum(map(len, sides)):
            raise ClusterError(f"{sides}: a node is on two sides; name each once")
        with self._disturbing(side_of):
            for node in self.nodes:
                cut_off = (each for each in side_of if node in side_of and side_of[each] != side_of[node])
                unreachable = frozenset(address for each in cut_off for address in self._listeners(each))
                self._set(node, unreachable=unreachable)
            self._wait_applied()

    def slow_disk(self, *nodes: int, sync_ms: int = 500) -> None:
        """Let each sync of a file take `sync_ms` on these nodes. 0: no time, as at the start."""
        with self._disturbing(nodes):
            for node in nodes:
                self._set(node, sync_ms=sync_ms)
            self._wait_applied()

    def fill_disk(self, *nodes: int) -> None:
        """Let no write on these nodes find room, as on a full disk. A node that has ended by it serves again
        after `heal` and `restart`."""
        with self._disturbing(nodes):
            for node in nodes:
                self._set(node, disk_is_full=True)
            self._wait_applied()

    def heal(self) -> None:
        """End the partition, and the faults of all disks. Killed nodes stay killed, paused ones paused."""
        with self._lock:
            for node in self.nodes:
                self._faults[node] = NodeFaults()
                if node in self._processes:
                    self._processes[node].send(self._faults[node])
            self._wait_applied()

    def _set(
        self,
        node: int,
        *,
        unreachable: frozenset[Address] | None = None,
        sync_ms: int | None = None,
        disk_is_full: bool = False,
    ) -> None:
        held = self._faults[node]
        self._faults[node] = NodeFaults(
            unreachable=held.unreachable if unreachable is None else unreachable,
            sync_ms=held.sync_ms if sync_ms is None else sync_ms,
            disk_is_full=disk_is_full or held.disk_is_full,
        )
        self._processes[node].send(self._faults[node])

    def _wait_applied(self) -> None:
        for process in self._processes.values():
            process.wait_applied()

    # Questions

    def serving(self) -> tuple[int, ...]:
        """Return the nodes that run, are not paused, and reach the most others. Questions go to them. Raises
        `ClusterError` if there are none."""
        running = [node for node in self.nodes if self._runs(node) and not self._processes[node].is_paused]
        if not running:
            raise ClusterError("no node runs; start one with restart")

        def reached(node: int) -> tuple[int, ...]:
            unreachable = self._faults[node].unreachable
            return tuple(each for each in running if not unreachable.intersection(self._listeners(each)))

        return max([reached(node) for node in running], key=len)

    def _runs(self, node: int) -> bool:
        return node in self._processes and self._processes[node].poll() is None

    def _running(self, node: int) -> ForkedNode:
        if not self._runs(node):
            raise ClusterError(f"node {node} does not run; start it with restart({node})")
        return self._processes[node]

    # Tests, one after another

    def begin_test(self) -> None:
        """Let logs and descriptions begin here."""
        self._log_starts = {node: _size(self._files(node).log_file) for node in self.nodes}

    def stop(self) -> None:
        """Kill all nodes, and remove their data."""
        with self._lock:
            self._kill(self.nodes)
            shutil.rmtree(self._folder, ignore_errors=True)

    # Descriptions

    def log(self, node: int) -> str:
        """Return the node's log since the test began."""
        file_of_log = self._files(node).log_file
        if not file_of_log.exists():
            return ""
        with file_of_log.open(errors="replace") as file:
            file.seek(self._log_starts.get(node, 0))
            return file.read()

    def describe(self) -> str:
        """Return the state of the nodes, and of what they share, in lines, as failed tests show it."""
        lines = [self._state(node) for node in self.nodes]
        try:
            lines.append(self._described())
        except ClusterError as error:
            lines.append(f"the cluster does not answer: {error}")
        return "\n".join(lines)

    def _state(self, node: int) -> str:
        process, faults = self._processes[node], self._faults[node]
        code = process.poll()
        state = "runs" if code is None else f"ended with code {code}"
        states = ["paused" if process.is_paused and code is None else state]
        cut_off = [each for each in self.nodes if faults.unreachable.intersection(self._listeners(each))]
        if cut_off:
            states.append(f"cut off from {', '.join(map(str, cut_off))}")
        if faults.sync_ms:
            states.append(f"syncs take {faults.sync_ms} ms")
        if faults.disk_is_full:
            states.append("disk full")
        return f"node {node} at {self._listeners(node)[0]}: {'; '.join(states)}"

    def _states(self) -> str:
        return "; ".join(map(self._state, self.nodes))

    @contextmanager
    def _disturbing(self, nodes: Iterable[int]) -> Iterator[None]:
        """Check the names of the nodes, and remember that this cluster is no longer as new."""
        unknown = sorted(set(nodes) - set(self.nodes))
        if unknown:
            raise ClusterError(
                f"there is no node {unknown[0]}; the nodes are {', '.join(map(str, self.nodes))}"
            )
        with self._lock:
            self._was_disturbed = True
            yield


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def run_on_thread(function: Callable[[], _Answer]) -> _Answer:
    """Run a function that runs an event loop: this thread's may be running."""
    answers: list[_Answer] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="quorate-testing", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return answers[0]
