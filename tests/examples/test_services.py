"""The example services as their users run them: processes, HTTP, load, and kill -9."""

import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.simulation import Verdict
from tests.kit.services import (
    NODES,
    PATIENCE_S,
    Front,
    Load,
    NothingHappenedError,
    Service,
    ask,
    get,
    kill_and_restart,
    put,
    running,
)
from tests.kit.waiting import wait_until

EXAMPLES = Path(__file__).parents[2] / "examples"
LINES_MAX = 60
"""The length that each program stays below."""
QUICK = "dictionary.py"
"""The service that `make test` runs. `make check` and CI run all of them."""
ASGI = ("dictionary_fastapi.py", "dictionary_hypercorn.py")
"""The same service on FastAPI, under uvicorn's loop of asyncio and under hypercorn's of trio."""
MEMBERS = (QUICK, "dictionary_asyncio.py", "dictionary_threads.py", *ASGI)
"""The same service on trio, on asyncio, with threads and on FastAPI, whose processes are the nodes."""
CLIENTS = ("dictionary_flask.py", "dictionary_django.py")
"""The same service on gunicorn, whose workers are clients of nodes in processes of their own."""
ROUNDS_MAX = 8
"""The most kills until a planted fault shows."""

pytestmark = pytest.mark.system

each_service = pytest.mark.parametrize(
    "program", [pytest.param(each, marks=() if each == QUICK else pytest.mark.slow) for each in MEMBERS]
)


@pytest.fixture
def service(tmp_path: Path, program: str) -> Iterator[Service]:
    with running(Service(tmp_path, EXAMPLES / program)) as service:
        yield service


@pytest.mark.slow
@each_service
def test_kills_of_leader_and_follower_under_load_lose_and_double_nothing(service: Service) -> None:
    load = Load(service)
    with load.running():
        for victim in (Service.leader, Service.follower, Service.leader):
            kill_and_restart(load, victim)
    load.read_all()
    load.check().require()
    assert set(load.answered) == set(service.ports.values()), "each node has answered"


@pytest.mark.slow
@pytest.mark.parametrize("application", CLIENTS)
def test_workers_of_gunicorn_lose_and_double_nothing_when_nodes_and_workers_are_killed(
    tmp_path: Path, application: str
) -> None:
    gunicorn = ("-m", "gunicorn", "--no-control-socket", "--config", "python:dictionary_workers")
    front = Front([sys.executable, *gunicorn, f"{application.removesuffix('.py')}:app"], EXAMPLES)
    with running(Service(tmp_path, EXAMPLES / "dictionary_node.py", front=front)) as service:
        load = Load(service)
        with load.running():
            for victim in (Service.leader, Service.follower, Service.leader):
                kill_and_restart(load, victim)
            service.kill_worker()
            load.wait_progress()
        load.read_all()
        load.check().require()


def planted(folder: Path, old: str, new: str) -> Path:
    """The service on FastAPI with one change."""
    text = (EXAMPLES / "dictionary_fastapi.py").read_text()
    assert text.count(old) == 1, f"{old!r} is not in the example once"
    for module in ("dictionary_state.py", "three_nodes.py"):
        (folder / module).write_text((EXAMPLES / module).read_text())
    program = folder / "planted.py"
    program.write_text(text.replace(old, new))
    return program


APPENDS = '    return f"was {(await quorum.append([dictionary.entry(key, value)])).results[0]}"'
APPENDS_AGAIN = """
    from quorate.raft import OutcomeUnknownError
    while True:
        try:
            return f"was {(await quorum.append([dictionary.entry(key, value)])).results[0]}"
        except OutcomeUnknownError:
            pass"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(APPENDS, APPENDS_AGAIN, id="an append is repeated without a session"),
        pytest.param(
            "await quorum.read(partial(dictionary.found, key))",
            "dictionary.found(key)",
            id="a read of the local state",
        ),
    ],
)
def test_a_planted_fault_is_found(tmp_path: Path, old: str, new: str) -> None:
    with running(Service(tmp_path, planted(tmp_path, old, new))) as service:
        load = Load(service)
        for _ in range(ROUNDS_MAX):
            with load.running():
                kill_and_restart(load, Service.leader)
            report = load.check()
            if report.verdict is Verdict.NOT_LINEARIZABLE:
                return
    pytest.fail(f"not found within {ROUNDS_MAX} kills of leaders: {load.outcomes}")


def spoken(port: int, request: bytes) -> bytes:
    """What the node says to these bytes, until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=15) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(4096), b""))


@each_service
def test_an_invalid_request_closes_only_its_own_connection(service: Service) -> None:
    """A load balancer's health check, which connects and says nothing, ended the node."""
    port = service.ports[1]
    wait_until(lambda: puts(port, "colour", "blue"), "a value is put")
    for request in (
        b"",
        b"\0\xff\r\n",
        b"PUT /colour HTTP/1.1\r\n\r\n",
        b"GET",
        b"DELETE / HTTP/1.1\r\n\r\n",
    ):
        answer = spoken(port, request)
        # uvicorn and hypercorn close a connection without a whole request, and do not answer.
        assert answer.startswith(b"HTTP/1.0 400 ") or service.program.name in ASGI, request
        assert not answer.startswith(b"HTTP/1.1 2"), request
    reset = socket.create_connection(("127.0.0.1", port))
    reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    reset.close()
    assert get(port, "colour") == "blue"
    assert service.processes["1"].poll() is None


def puts(port: int, key: str, value: str) -> bool:
    """Put a value. False: nobody leads yet."""
    try:
        put(port, key, value)
    except NothingHappenedError:
        return False
    return True


@pytest.mark.slow
@each_service
def test_a_node_without_a_majority_gives_no_old_value_and_puts_nothing(service: Service) -> None:
    port = service.ports[1]
    wait_until(lambda: puts(port, "colour", "blue"), "a value is put", seconds=PATIENCE_S)
    for node in NODES[1:]:
        service.kill(node)
    with pytest.raises(NothingHappenedError):
        ask(port, "GET", "/colour")


@pytest.mark.parametrize(
    "program", sorted({path.name for path in EXAMPLES.glob("*.py")} - {"minimal_driver.py"})
)
def test_the_example_stays_short_enough_to_read(program: str) -> None:
    assert len((EXAMPLES / program).read_text().splitlines()) < LINES_MAX
