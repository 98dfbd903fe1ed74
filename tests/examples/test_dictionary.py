"""The example as its readers run it: three processes, curl's requests, and a kill -9."""

import re
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from quorate.cli.node.free_ports import free_ports

EXAMPLES = Path(__file__).parents[2] / "examples"
LINES_MAX = {
    "dictionary.py": 75,
    "dictionary_asyncio.py": 60,
    "dictionary_threads.py": 60,
    "dictionary_fastapi.py": 60,
}
"""The same service on trio, on asyncio, with threads and on FastAPI, each with the length that it stays
below."""
PATIENCE_S = 60

pytestmark = pytest.mark.system


class Cluster:
    def __init__(self, folder, example):
        self.example = EXAMPLES / example
        ports = free_ports(6)
        self.folder = folder
        self.http = dict(zip((1, 2, 3), ports[:3], strict=True))
        self.voters = ",".join(f"{n}@127.0.0.1:{port}" for n, port in zip((1, 2, 3), ports[3:], strict=True))
        self.processes = {}

    def start(self, node):
        with open(self.folder / f"{node}.log", "a") as output:
            self.processes[node] = subprocess.Popen(
                [
                    sys.executable,
                    self.example,
                    str(node),
                    str(self.http[node]),
                    str(self.folder / str(node)),
                    self.voters,
                ],
                stdout=output,
                stderr=output,
            )

    def kill(self, node):
        self.processes[node].send_signal(signal.SIGKILL)
        self.processes.pop(node).wait()

    def leader(self):
        """Of the highest epoch that any node wrote of becoming leader."""
        lines = [
            (int(found["epoch"]), node)
            for node in (1, 2, 3)
            for line in (self.folder / f"{node}.log").read_text().splitlines()
            if "role changed" in line and "role=leader" in (plain := re.sub(r"\x1b\[[0-9;]*m", "", line))
            for found in [re.search(r"epoch=(?P<epoch>\d+)", plain)]
            if found is not None
        ]
        return max(lines)[1]

    def put(self, node, key, value):
        return self.request(node, f"/{key}/{value}", "PUT")

    def request(self, node, path, method="GET"):
        """Until it is answered with success: nodes may be starting or electing."""
        url = f"http://127.0.0.1:{self.http[node]}{path}"
        deadline = time.monotonic() + PATIENCE_S
        while True:
            request = urllib.request.Request(url, method=method)
            try:
                with urllib.request.urlopen(request, timeout=15) as response:
                    return response.read().decode()
            except (urllib.error.URLError, OSError) as error:
                if time.monotonic() > deadline:
                    raise AssertionError(f"node {node} gave no answer: {self.logs()}") from error

    def eventually(self, node, path, expected):
        deadline = time.monotonic() + PATIENCE_S
        while (found := self.request(node, path)) != expected:
            assert time.monotonic() < deadline, f"{path} is {found!r} on node {node}: {self.logs()}"

    def logs(self):
        return "\n".join((self.folder / f"{node}.log").read_text()[-2000:] for node in (1, 2, 3))

    def close(self):
        for process in self.processes.values():
            process.kill()
            process.wait()


OTHER_DOORS = [pytest.param(each, marks=pytest.mark.slow) for each in LINES_MAX if each != "dictionary.py"]


@pytest.fixture(params=["dictionary.py", *OTHER_DOORS])
def cluster(tmp_path, request):
    cluster = Cluster(tmp_path, request.param)
    try:
        for node in (1, 2, 3):
            cluster.start(node)
        yield cluster
    finally:
        cluster.close()


def test_nothing_is_lost_when_the_leader_is_killed_and_comes_back(cluster):
    for number in range(9):
        assert cluster.put(number % 3 + 1, f"key-{number}", f"value-{number}").startswith("was ")
    for node in (1, 2, 3):
        for number in range(9):
            cluster.eventually(node, f"/key-{number}", f"value-{number}")
    assert cluster.put(1, "key-0", "newer") == "was value-0"

    killed = cluster.leader()
    cluster.kill(killed)
    alive = [node for node in (1, 2, 3) if node != killed]
    for number in range(9, 18):
        cluster.put(alive[number % 2], f"key-{number}", f"value-{number}")
    assert cluster.leader() in alive

    cluster.start(killed)
    for node in (1, 2, 3):
        cluster.eventually(node, "/key-0", "newer")
        for number in range(1, 18):
            cluster.eventually(node, f"/key-{number}", f"value-{number}")
    assert cluster.put(killed, "key-17", "newest").startswith("was ")
    cluster.eventually(alive[0], "/key-17", "newest")


def spoken(cluster, node, request):
    """What the node says to these bytes, until it closes the connection."""
    with socket.create_connection(("127.0.0.1", cluster.http[node]), timeout=15) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(4096), b""))


def test_an_invalid_request_closes_only_its_own_connection(cluster):
    """A load balancer's health check, which connects and says nothing, ended the node."""
    cluster.put(1, "colour", "blue")
    for request in (
        b"",
        b"\0\xff\r\n",
        b"PUT /colour HTTP/1.1\r\n\r\n",
        b"GET",
        b"DELETE / HTTP/1.1\r\n\r\n",
    ):
        answer = spoken(cluster, 1, request)
        # uvicorn closes a connection without a whole request, and does not answer.
        assert answer.startswith(b"HTTP/1.0 400 ") or "fastapi" in cluster.example.name, request
        assert not answer.startswith(b"HTTP/1.1 2"), request
    reset = socket.create_connection(("127.0.0.1", cluster.http[1]))
    reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    reset.close()
    assert cluster.request(1, "/colour") == "blue"
    assert cluster.processes[1].poll() is None


def test_a_value_is_read_on_any_node_as_soon_as_it_was_put_on_another(cluster):
    for number in range(30):
        cluster.put(number % 3 + 1, "counter", str(number))
        assert cluster.request((number + 1) % 3 + 1, "/counter") == str(number)


def test_a_node_without_a_majority_gives_no_old_value(cluster):
    cluster.put(1, "colour", "blue")
    for node in (2, 3):
        cluster.kill(node)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://127.0.0.1:{cluster.http[1]}/colour", timeout=PATIENCE_S)
    assert refused.value.code == 503


@pytest.mark.parametrize("example", LINES_MAX)
def test_the_example_stays_short_enough_to_read(example):
    assert len((EXAMPLES / example).read_text().splitlines()) < LINES_MAX[example]
