"""The network that is cut and the disk that is slow or full, in one process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from quorate.runtime import DiskFullError, NetworkError
from quorate.runtime.network import Address, Listener, Stream
from quorate.runtime.real import RealNetwork
from quorate.testing.faults import CuttableNetwork, FaultyDisk, NodeFaults


@asynccontextmanager
async def connected(network: CuttableNetwork) -> AsyncIterator[tuple[Stream, Stream, Listener]]:
    """A stream of the network, its other end, which is no part of it, and the other end's listener."""
    listener = await RealNetwork().listen(Address("127.0.0.1", 0))
    ours = await network.connect(listener.address)
    theirs = await listener.accept()
    try:
        yield ours, theirs, listener
    finally:
        network.cut(frozenset())
        for each in (ours, theirs, listener):
            each.close()


async def receives_nothing(stream: Stream) -> bool:
    with trio.move_on_after(0.05) as scope:
        await stream.receive_some()
    return scope.cancelled_caught


async def test_bytes_in_both_directions_wait_for_the_heal() -> None:
    network = CuttableNetwork()
    async with connected(network) as (ours, theirs, listener):
        network.cut(frozenset({listener.address}))
        await theirs.send([b"to us"])
        assert ours.send_nowait([b"to them"]) == 0, "a cut way takes no byte"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ours.send, [b"to them"])
            assert await receives_nothing(ours)
            assert await receives_nothing(theirs)
            network.cut(frozenset())
        assert await theirs.receive_some() == b"to them"
        assert await ours.receive_some() == b"to us"


async def test_bytes_that_arrive_at_a_waiting_reader_while_the_way_is_cut_are_held() -> None:
    """The reader already waits in the kernel when the way is cut."""
    network = CuttableNetwork()
    async with connected(network) as (ours, theirs, listener):
        received: list[bytes] = []

        async def read_into() -> None:
            buffer = bytearray(3)
            count = await ours.receive_into(memoryview(buffer))
            received.append(bytes(buffer[:count]))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read_into)
            await trio.testing.wait_all_tasks_blocked()
            network.cut(frozenset({listener.address}))
            await theirs.send([b"abcdef"])
            await trio.sleep(0.05)
            assert received == [], "nothing arrives through a cut way"
            network.cut(frozenset())
        assert received == [b"abc"]
        assert await ours.receive_some() == b"def"


async def test_a_reader_that_was_cancelled_in_a_cut_loses_no_byte() -> None:
    network = CuttableNetwork()
    async with connected(network) as (ours, theirs, listener):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ours.receive_into, memoryview(bytearray(10)))
            await trio.testing.wait_all_tasks_blocked()
            network.cut(frozenset({listener.address}))
            await theirs.send([b"kept"])
            await trio.sleep(0.05)
            nursery.cancel_scope.cancel()
        network.cut(frozenset())
        assert await ours.receive_some() == b"kept"


async def test_a_connection_to_a_cut_off_address_waits_for_the_heal() -> None:
    network = CuttableNetwork()
    async with connected(network) as (_, _, listener):
        network.cut(frozenset({listener.address}))
        with trio.move_on_after(0.05) as scope:
            await network.connect(listener.address)
        assert scope.cancelled_caught, "a cut way opens no connection, and refuses none"
        network.cut(frozenset())
        (await network.connect(listener.address)).close()


async def test_the_end_of_a_stream_is_not_seen_before_the_heal() -> None:
    network = CuttableNetwork()
    async with connected(network) as (ours, theirs, listener):
        network.cut(frozenset({listener.address}))
        async with trio.open_nursery() as nursery:

            async def read() -> None:
                with pytest.raises(NetworkError, match="closed"):
                    await ours.receive_some()

            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            ours.close()
        assert await receives_nothing(theirs)
        network.cut(frozenset())
        assert await theirs.receive_some() == b""


async def test_other_ways_stay_whole() -> None:
    network = CuttableNetwork()
    async with connected(network) as (_, _, cut_off), connected(network) as (ours, theirs, _):
        network.cut(frozenset({cut_off.address}))
        await ours.send([b"on"])
        assert await theirs.receive_some() == b"on"


async def test_a_full_disk_refuses_growth_and_reads_on(tmp_path: Path) -> None:
    disk = FaultyDisk()
    file = disk.open(str(tmp_path / "file"), create=True)
    file.append([b"before"])
    disk.state.is_full = True
    for grow in (lambda: file.append([b"x"]), lambda: file.write_at(5, b"xx")):
        with pytest.raises(DiskFullError, match=r"file: no space left on the device"):
            grow()
    file.write_at(0, b"B")
    assert file.read_at(0, 100) == b"Before"
    assert disk.space(str(tmp_path)).usable == 0
    disk.state.is_full = False
    file.append([b", after"])
    assert file.read_at(0, 100) == b"Before, after"
    file.close()


async def test_a_slow_disk_takes_its_time_for_each_sync(tmp_path: Path) -> None:
    disk = FaultyDisk()
    file = disk.open(str(tmp_path / "file"), create=True)
    assert file.sync_at_once(), "no sync waits for the device"
    disk.state.sync_ms = 80
    assert not file.sync_at_once()
    for sync in (file.sync, lambda: disk.sync_folder(str(tmp_path))):
        started = trio.current_time()
        await sync()
        assert trio.current_time() - started >= 0.08
    file.close()


def test_faults_are_read_as_they_were_sent() -> None:
    faults = NodeFaults(
        unreachable=frozenset({Address("127.0.0.1", 1), Address("::1", 2)}), sync_ms=3, disk_is_full=True
    )
    assert NodeFaults.decode(faults.encode(7)) == (7, faults)
