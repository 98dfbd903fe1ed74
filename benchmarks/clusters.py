"""Clusters as processes, and a client of each in another: what every system looks like to the benchmarks."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, cast

from node_requests import CERTIFICATES

from quorate.cli.node.free_ports import free_ports

HERE = Path(__file__).parent

Answer = dict[str, float]


class ClientFailedError(Exception):
    """The client process ended, or did not answer in time."""


class Client:
    """A client process: one JSON command a line in, one answer a line out (see quorum_client.py)."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._log = log
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )

    def ask(self, do: str, *, timeout: float = 120, **arguments: object) -> Answer:
        """Raises `ClientFailedError`."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self._failed(f"has ended before {do!r}") from None
        if not select.select([self.process.stdout], [], [], timeout)[0]:
            raise self._failed(f"did not answer {do!r} within {timeout} s")
        line = self.process.stdout.readline()
        if not line:
            raise self._failed(f"ended during {do!r}")
        return cast(Answer, json.loads(line))

    def _failed(self, what: str) -> ClientFailedError:
        return ClientFailedError(f"the client {what}: {self._log.read_text()[-2000:] or 'it said nothing'}")

    def cpu_seconds(self) -> float:
        """Its children's too: a node may be one."""
        pid = self.process.pid
        files = Path(f"/proc/{pid}/task").glob("*/children")
        return sum(
            map(cpu_seconds, (pid, *(int(child) for file in files for child in file.read_text().split())))
        )

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


class Cluster(ABC):
    """Nodes numbered from 1, each a process, in a folder that is theirs alone."""

    name: ClassVar[str]

    def __init__(self, folder: Path, *, size: int = 3, environment: Mapping[str, str] | None = None) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.numbers = range(1, size + 1)
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self._environment = {**os.environ, **(environment or {})}
        self._client: Client | None = None

    @abstractmethod
    def node_command(self, number: int) -> list[str]: ...

    def node_environment(self, number: int) -> dict[str, str]:
        return {}

    @abstractmethod
    def client_command(self) -> list[str]: ...

    def start(self, *numbers: int) -> None:
        for number in numbers or self.numbers:
            with (self.folder / f"{number}.out").open("ab") as output:
                self.processes[number] = subprocess.Popen(
                    self.node_command(number),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=self.folder,
                    env={**self._environment, **self.node_environment(number)},
                )

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = Client(self.client_command(), self.folder / "client.out")
        return self._client

    def leader(self) -> int:
        return int(self.client.ask("leader")["leader"])

    def commit(self, timeout: float = 60) -> int:
        """Return once something sent after the call is committed; by whom."""
        return int(self.client.ask("commit", timeout=timeout)["leader"])

    def kill(self, number: int) -> None:
        self.processes[number].kill()
        self.processes[number].wait()

    def terminate(self, number: int) -> None:
        """Ask it to stop; `wait` for it to be gone."""
        self.processes[number].terminate()

    def wait(self, number: int) -> None:
        self.processes[number].wait(60)

    def pause(self, number: int) -> None:
        self.processes[number].send_signal(signal.SIGSTOP)

    def resume(self, number: int) -> None:
        self.processes[number].send_signal(signal.SIGCONT)

    def cpu_seconds(self) -> float:
        return sum(cpu_seconds(process.pid) for process in self.processes.values())

    def stop(self) -> None:
        if self._client is not None:
            self._client.stop()
            self._client = None
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Quorate(Cluster):
    """Its client is the one that it ships (`quorate.raft.transport.channel`), in Python: what users have."""

    name = "quorate"

    def __init__(
        self, folder: Path, *, size: int = 3, profiles: bool = False, certificates: Path | None = None
    ) -> None:
        """`certificates`: the folder with those of the nodes, and of a node 99, which the client is. None: no
        TLS."""
        secured = {} if certificates is None else {CERTIFICATES: str(certificates)}
        super().__init__(folder, size=size, environment=secured)
        self.ports = free_ports(size)
        self.profiles = profiles
        self.certificates = certificates

    @property
    def voters(self) -> str:
        return ",".join(
            f"{number}@127.0.0.1:{port}" for number, port in zip(self.numbers, self.ports, strict=True)
        )

    def node_command(self, number: int) -> list[str]:
        folder = self.folder / str(number)
        return [sys.executable, str(HERE / "quorum_node.py"), str(number), str(folder), self.voters]

    def node_environment(self, number: int) -> dict[str, str]:
        return {"QUORATE_BENCH_PROFILE": str(self.profile_file(number))} if self.profiles else {}

    def profile_file(self, number: int) -> Path:
        return self.folder / f"{number}.profile"

    def client_command(self) -> list[str]:
        secured = [] if self.certificates is None else [str(self.certificates)]
        return [sys.executable, str(HERE / "quorum_client.py"), self.voters, *secured]


def cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process, those that ended included, to the nanosecond."""
    # The clock id of a process's CPU time: see CPUCLOCK_SCHED in the kernel's posix-timers.
    return time.clock_gettime(~pid << 3 | 2)


def user_and_system_seconds(pid: int) -> tuple[float, float]:
    """In steps of a clock tick (10 ms)."""
    fields = _stat(pid)
    tick = os.sysconf("SC_CLK_TCK")
    return int(fields[11]) / tick, int(fields[12]) / tick


def page_faults(pid: int) -> int:
    """How often the process touched memory that it had only been promised."""
    return int(_stat(pid)[7])


def wake_ups(pid: int) -> int:
    """How often the process's main thread waited for something."""
    return _status(pid, "voluntary_ctxt_switches:")


def resident_mib(pid: int) -> float:
    return _status(pid, "VmRSS:") / 1024


def _stat(pid: int) -> list[str]:
    """From the process's state on, which proc(5) counts as the third field."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()


def _status(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    raise RuntimeError(f"no {field} for {pid}")


def wait_for_replicas(nodes: Sequence[Path], count: int, *, within_s: float = 600) -> None:
    """Wait until each of the brokers with these folders has made `count` replicas, and a while longer."""
    patience = time.monotonic() + within_s
    while min(len(list(node.glob("data/*-*/"))) for node in nodes) < count:
        if time.monotonic() > patience:
            raise TimeoutError(f"a broker has less than {count} replicas after {within_s:g} s")
        time.sleep(0.5)
    time.sleep(3)
