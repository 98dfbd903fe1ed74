"""TCP behind the runtime's network."""

import pytest

from quorate.runtime.network import Address, ConnectRefusedError, NetworkError
from quorate.runtime.real import RealNetwork


async def test_a_stream_or_listener_that_was_closed_here_says_so() -> None:
    network = RealNetwork()
    listener = await network.listen(Address("127.0.0.1", 0))
    stream = await network.connect(listener.address)
    stream.close()
    with pytest.raises(NetworkError, match="closed"):
        await stream.receive_some()
    with pytest.raises(NetworkError, match="closed"):
        await stream.receive_into(memoryview(bytearray(4)))
    with pytest.raises(NetworkError, match="closed"):
        await stream.send([b"x"])
    listener.close()
    with pytest.raises(NetworkError, match="closed"):
        await listener.accept()


async def test_a_port_where_nobody_listens_refuses() -> None:
    network = RealNetwork()
    listener = await network.listen(Address("127.0.0.1", 0))
    listener.close()
    with pytest.raises(ConnectRefusedError, match=r"can't connect to 127\.0\.0\.1"):
        await network.connect(listener.address)


async def test_a_host_that_cannot_be_reached_does_not_refuse() -> None:
    with pytest.raises(NetworkError, match="can't connect") as broken:
        await RealNetwork().connect(Address("255.255.255.255", 9))
    assert not isinstance(broken.value, ConnectRefusedError)
