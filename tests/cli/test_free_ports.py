"""Ports for clusters on this machine: nobody else gets one before its node, or while the node is down."""

import contextlib
import multiprocessing
import socket
import tempfile
from pathlib import Path

import pytest

from quorate.cli.console.cli_errors import CommandError
from quorate.cli.node.free_ports import free_ports

KERNELS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_ports_that_somebody_listens_on_are_left_out() -> None:
    (port,) = free_ports(1)
    taken = [socket.socket() for _ in range(20)]
    try:
        behind = []
        for number, each in enumerate(taken, port + 1):
            with contextlib.suppress(OSError):
                each.bind(("127.0.0.1", number))
                behind.append(number)
        assert not set(behind) & set(free_ports(20))
    finally:
        for each in taken:
            each.close()


def test_several_processes_get_each_port_once() -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        given = pool.map(free_ports, [3] * 600, chunksize=1)
    ports = [port for each in given for port in each]
    assert len(set(ports)) == len(ports) == 1800


def test_runs_with_temporary_folders_of_their_own_begin_at_other_ports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They know nothing of each other: two test runs took the same port at once."""
    monkeypatch.setattr("quorate.cli.node.free_ports._is_free", lambda port: True)
    first = []
    for number in range(5):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        first += free_ports(1)
    assert len(set(first)) > 1, f"all began at {first[0]}"


@pytest.mark.skipif(not KERNELS.exists(), reason="Linux tells its range in /proc")
def test_ports_are_none_that_the_kernel_gives_to_connections() -> None:
    """A producer that looked for its dead cluster took the port of the next one."""
    low, high = map(int, KERNELS.read_text().split())
    assert not [port for port in free_ports(50) if low <= port <= high]


def test_too_few_free_ports_are_an_error_that_names_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.cli.node.free_ports._is_free", lambda port: port == 20_500)
    with pytest.raises(CommandError, match=r"3 free ports are needed, and of 20000 to \d+ only 1 are free"):
        free_ports(3)
