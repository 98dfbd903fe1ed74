"""A node of few file descriptors, under idle connections and many partitions."""

import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode

from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.kafka_client import WireClient, open_client
from quorate.runtime.network import Address, NetworkError
from quorate.runtime.real import RealNetwork
from tests.cli.command import COMMAND, Node, first_line

pytestmark = pytest.mark.system


@pytest.fixture
def limited(formatted_node: Node) -> Iterator[Callable[[int, int], Any]]:
    """Start a node with a soft and a hard limit. Return its process and its client address."""
    running: list[subprocess.Popen[str]] = []

    def start(soft: int, hard: int) -> tuple[subprocess.Popen[str], Address]:
        # prlimit, as a shell's ulimit sets both.
        server = [*COMMAND, "server", "start", str(formatted_node.config)]
        command = ["prlimit", f"--nofile={soft}:{hard}", *server]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        running.append(process)
        found = re.search(r"clients at ([0-9.]+):(\d+)", first_line(process))
        assert found
        return process, Address(found[1], int(found[2]))

    yield start
    for process in running:
        process.kill()
        process.communicate()


async def create(client: WireClient, name: str, partitions: int) -> ErrorCode:
    """Create a topic once the node is unfenced."""
    while True:
        response: Any = await client.call(
            ApiKey.CREATE_TOPICS,
            topics=[
                {"name": name, "num_partitions": partitions, "replication_factor": 1}
                | {"assignments": (), "configs": ()}
            ],
            timeout=timedelta(seconds=5),
        )
        code: ErrorCode = response.topics[0].error_code
        if code is not ErrorCode.invalid_replication_factor:
            return code


async def create_anew(address: Address, name: str, partitions: int) -> ErrorCode:
    """Create a topic over a connection of its own, once there is room for one."""
    while True:
        try:
            async with open_client(RealNetwork(), address, timeout_s=20) as client:
                return await create(client, name, partitions)
        except NetworkError:
            await trio.sleep(0.02)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


@pytest.mark.slow
def test_the_soft_limit_of_a_node_is_raised(limited: Callable[[int, int], Any]) -> None:
    process, _ = limited(64, 3000)
    limits = Path(f"/proc/{process.pid}/limits").read_text()
    assert re.search(r"Max open files +3000 +3000", limits)


@pytest.mark.slow
def test_idle_connections_beyond_the_descriptors_are_refused_and_the_node_goes_on(
    limited: Callable[[int, int], Any],
) -> None:
    process, address = limited(200, 200)

    async def main() -> None:
        async with open_client(RealNetwork(), address, timeout_s=20) as client:
            idle = [socket.create_connection((address.host, address.port)) for _ in range(260)]
            idle[-1].settimeout(20)
            assert idle[-1].recv(1) == b"", "the last is refused"
            try:
                assert await create(client, "t", 5) is ErrorCode.none
            finally:
                for each in idle:
                    each.close()
        with trio.fail_after(20):
            assert await create_anew(address, "u", 5) is ErrorCode.none

    trio.run(main)
    code, errors = ended(process)
    assert code == 0, errors
    assert "connections are refused" in errors
    assert "mend the disk" not in errors


@pytest.mark.slow
def test_partitions_beyond_the_descriptors_say_to_raise_the_limit_and_the_node_goes_on(
    limited: Callable[[int, int], Any],
) -> None:
    process, address = limited(64, 64)

    async def main() -> None:
        async with open_client(RealNetwork(), address, timeout_s=20) as client:
            assert await create(client, "t", 60) is ErrorCode.none
            assert await create(client, "u", 1) is ErrorCode.none

    trio.run(main)
    assert process.stderr is not None
    line = ""
    while "raise the limit" not in line:
        line = process.stderr.readline()
        assert line, "the node ended"
    code, errors = ended(process)
    assert code == 0, errors
    assert "has failed" not in errors
    assert "Traceback" not in errors
