"""Ports for clusters on this machine: nobody else gets one before its node, or while the node is down."""

import socket
from pathlib import Path

import pytest

from quorate.cli.free_ports import free_ports

KERNELS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_a_port_is_given_once_and_not_while_somebody_listens() -> None:
    first = free_ports(3)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first[-1] + 1))
        second = free_ports(2)
        assert first[-1] + 1 not in second
    assert len({*first, *second}) == 5


@pytest.mark.skipif(not KERNELS.exists(), reason="Linux tells its range in /proc")
def test_ports_are_none_that_the_kernel_gives_to_connections() -> None:
    """A producer that looks for its dead cluster took the port of the next one."""
    low, high = map(int, KERNELS.read_text().split())
    assert not [port for port in free_ports(50) if low <= port <= high]
