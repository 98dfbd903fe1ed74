"""Services of three nodes, as real processes: load over HTTP, kill -9, and the check of all answers.

A service behind HTTP answers `PUT /key/value` with `was VALUE` or `was nothing`, and `GET /key` with the
value. Status 503 says that nothing happened, and 504 that it may have.
"""

import http.client
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import count
from pathlib import Path
from typing import TypeVar

from quorate.cli.node.free_ports import free_ports
from quorate.simulation import UNKNOWN, Operation, Report, check_history, models
from quorate.simulation.histories.linearizability import Unknown
from tests.kit.waiting import wait_until

NODES = (1, 2, 3)
PATIENCE_S = 60
REQUEST_S = 20
"""Longer than a service waits for the quorum."""
CLIENTS = 6
KEYS = tuple(f"key-{number}" for number in range(4))
PAUSE_S = 0.004
"""The time between two requests of a client."""
PROGRESS = 8
"""The answers at each address that show a service at work."""

Request = models.Get | models.Put
History = list[Operation[Request, Hashable]]
AnyNodes = TypeVar("AnyNodes", bound="Nodes")


@dataclass(frozen=True, slots=True)
class Exchanges:
    """A key whose puts are answered with the value before them, so that a put in effect twice or not at all
    shows in the next answer."""

    def initial(self) -> Hashable:
        return None

    def step(self, state: Hashable, request: Request, answer: Hashable | Unknown) -> tuple[bool, Hashable]:
        right = answer is UNKNOWN or answer == state
        return right, request.value if isinstance(request, models.Put) else state

    def is_read(self, request: Request) -> bool:
        return isinstance(request, models.Get)


@dataclass(frozen=True, slots=True)
class Front:
    """A server that is no node, such as gunicorn, whose workers are clients of the nodes."""

    command: Sequence[str | Path]
    """It takes `--bind ADDRESS`, and the nodes' client listeners from the variable NODES."""
    folder: Path
    """The folder that it runs in."""


class Nodes:
    """Three processes of a program, each `PROGRAM NODE ARGUMENT FOLDER VOTERS`, with a log each."""

    def __init__(self, folder: Path, program: Path, argument: Callable[[int], str]) -> None:
        self.program = program
        self.folder = folder
        self._argument = argument
        ports = zip(NODES, free_ports(len(NODES)), strict=True)
        self._voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in ports)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, *nodes: int) -> None:
        for node in nodes:
            command = [sys.executable, self.program, str(node), self._argument(node)]
            self._start(str(node), [*command, self.folder / f"node-{node}", self._voters])

    def _start(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        in_own_group: bool = False,
    ) -> None:
        with self._log(name).open("ab") as output:
            self.processes[name] = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0 if in_own_group else None,
            )

    def kill(self, node: int) -> None:
        process = self.processes.pop(str(node))
        process.kill()
        process.wait()

    def stop(self) -> None:
        """Kill all."""
        for process in self.processes.values():
            process.kill()
            process.wait()

    def leader(self) -> int:
        """Return the node that was the last to write that it leads, as soon as there is one."""
        wait_until(self._elected, "a node leads", seconds=PATIENCE_S)
        return max(self._elected())[1]

    def _elected(self) -> list[tuple[int, int]]:
        """The epochs and the nodes that led in them."""
        return [
            (int(found["epoch"]), node)
            for node in NODES
            for line in self._read(str(node)).splitlines()
            if "role changed" in line and "role=leader" in line
            for found in [re.search(r"epoch=(?P<epoch>\d+)", line)]
            if found is not None
        ]

    def follower(self) -> int:
        """Return a node that does not lead."""
        leader = self.leader()
        return next(node for node in NODES if node != leader)

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _read(self, name: str) -> str:
        file = self._log(name)
        return file.read_text(errors="replace") if file.exists() else ""

    def logs(self) -> str:
        """Return the last lines of all logs."""
        return "\n".join(
            f"{file.name}:\n{self._read(file.stem)[-2000:]}" for file in self.folder.glob("*.log")
        )


class Service(Nodes):
    """A service behind HTTP. A node serves it at its port, or serves there the clients of a front."""

    def __init__(self, folder: Path, program: Path, *, front: Front | None = None) -> None:
        super().__init__(folder, program, lambda node: str(self.ports[node]))
        *ports, self._front_port = free_ports(len(NODES) + 1)
        self.ports = dict(zip(NODES, ports, strict=True))
        self._front = front

    def start_front(self) -> None:
        if self._front is not None:
            nodes = ",".join(f"127.0.0.1:{port}" for port in self.ports.values())
            command = [*self._front.command, "--bind", f"127.0.0.1:{self._front_port}"]
            self._start(
                "front", command, folder=self._front.folder, environment={"NODES": nodes}, in_own_group=True
            )

    def kill_worker(self) -> None:
        """Kill one of the processes that the front has forked."""
        front = self.processes["front"].pid
        workers = Path(f"/proc/{front}/task/{front}/children").read_text().split()
        os.kill(int(workers[0]), signal.SIGKILL)

    def stop(self) -> None:
        front = self.processes.pop("front", None)
        if front is not None:
            os.killpg(front.pid, signal.SIGKILL)  # its workers too
            front.wait()
        super().stop()

    def addresses(self) -> list[int]:
        """Return the ports that serve HTTP now."""
        if self._front is not None:
            return [self._front_port]
        return [port for node, port in self.ports.items() if str(node) in self.processes]


@contextmanager
def running(nodes: AnyNodes) -> Iterator[AnyNodes]:
    """Start all nodes, and the front of a service. Leave nothing of it running. An error of the block gets
    the logs."""
    try:
        nodes.start(*NODES)
        if isinstance(nodes, Service):
            nodes.start_front()
        yield nodes
    except BaseException as error:
        error.add_note(nodes.logs())
        raise
    finally:
        nodes.stop()


class NothingHappenedError(Exception):
    """The service did not do it, and will not."""


class MaybeHappenedError(Exception):
    """The service may have done it, or still do it."""


def ask(port: int, method: str, path: str) -> str:
    """Return the text of an answer with success. Raises `NothingHappenedError` or `MaybeHappenedError`."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REQUEST_S)
    try:
        try:
            connection.connect()
        except OSError as error:
            raise NothingHappenedError(str(error)) from error
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            text = answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            raise MaybeHappenedError(f"{type(error).__name__}: {error}") from error
    finally:
        connection.close()
    match answer.status:
        case HTTPStatus.OK:
            return text
        case HTTPStatus.SERVICE_UNAVAILABLE:
            raise NothingHappenedError(text)
        case HTTPStatus.GATEWAY_TIMEOUT:
            raise MaybeHappenedError(text)
    raise AssertionError(f"{method} {path} at port {port}: {answer.status} {text}")


def put(port: int, key: str, value: str) -> Hashable:
    """Return the value before."""
    return _value(ask(port, "PUT", f"/{key}/{value}").removeprefix("was "))


def get(port: int, key: str) -> Hashable:
    return _value(ask(port, "GET", f"/{key}"))


def _value(text: str) -> Hashable:
    return None if text in ("", "nothing") else text


@dataclass
class Load:
    """Clients that put and get at all addresses of a service, and keep the history of it."""

    service: Service
    history: History = field(default_factory=list)
    answered: Counter[int] = field(default_factory=Counter)
    """The answers with success, by address."""
    outcomes: Counter[str] = field(default_factory=Counter)
    _ends: "list[Future[None]]" = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _values: "count[int]" = field(default_factory=count)

    @contextmanager
    def running(self) -> Iterator[None]:
        self._stop.clear()
        with ThreadPoolExecutor(CLIENTS) as pool:
            self._ends = [pool.submit(self._run, f"client-{n}", n) for n in range(CLIENTS)]
            try:
                yield
            finally:
                self._stop.set()
        for end in self._ends:
            end.result()

    def _run(self, client: str, number: int) -> None:
        draw = random.Random(number)
        while not self._stop.wait(PAUSE_S):
            key = draw.choice(KEYS)
            request: Request = models.Get(key)
            if draw.random() < 0.5:
                request = models.Put(key, f"value-{next(self._values)}")
            self.call(client, draw.choice(self.service.addresses()), request)

    def call(self, client: str, port: int, request: Request) -> bool:
        """Ask, and keep it in the history. True: it was answered with success."""
        begin = time.monotonic()
        end, answer, outcome = float("inf"), UNKNOWN, "answered"
        try:
            match request:
                case models.Get(key):
                    answer = get(port, str(key))
                case models.Put(key, value):
                    answer = put(port, str(key), str(value))
            end = time.monotonic()
            self.answered[port] += 1
        except NothingHappenedError:
            outcome = "refused"
        except MaybeHappenedError:
            outcome = "unknown"
        self.outcomes[outcome] += 1
        if outcome == "answered" or (outcome == "unknown" and isinstance(request, models.Put)):
            self.history.append(
                Operation(client=client, request=request, answer=answer, invoked_at=begin, returned_at=end)
            )
        return outcome == "answered"

    def wait_progress(self, answers: int = PROGRESS) -> None:
        """Return when each address has given that many answers more."""
        before = Counter(self.answered)

        def left() -> list[int]:
            for end in self._ends:
                if end.done():
                    end.result()
            given = self.answered - before
            return [port for port in self.service.addresses() if given[port] < answers]

        wait_until(
            lambda: not left(), lambda: f"{answers} answers at {left()}: {self.outcomes}", seconds=PATIENCE_S
        )

    def read_all(self) -> None:
        """Get every key at every address."""
        for port in self.service.addresses():
            for key in KEYS:
                wait_until(
                    lambda port=port, key=key: self.call("last", port, models.Get(key)),
                    f"{key} is read at {port}",
                    seconds=PATIENCE_S,
                )

    def check(self) -> Report[Request, Hashable]:
        """Return whether one order of all requests explains all answers."""
        return check_history(Exchanges(), self.history, key=models.key_of)


def kill_and_restart(load: Load, victim: Callable[[Service], int]) -> None:
    """Kill a node under load and start it again. The service answers at every address before, between and
    after."""
    load.wait_progress()
    node = victim(load.service)
    load.service.kill(node)
    load.wait_progress()
    load.service.start(node)
    load.wait_progress()
