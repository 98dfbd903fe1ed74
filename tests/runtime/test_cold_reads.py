"""What the page cache lacks is read on a thread: the event loop waits for no device."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from quorate.log import Log, LogConfig
from quorate.log.batches.records import build_batch
from quorate.runtime.real import RealDisk, SyncStrategy

T0 = 1_700_000_000_000
BATCHES = 3000


@pytest.fixture(params=list(SyncStrategy), ids=[each.value for each in SyncStrategy])
def disk(request: pytest.FixtureRequest) -> RealDisk:
    return RealDisk(sync=request.param)


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """No page is in the cache. Returns the names of the threads that waited for the device."""
    waited: list[str] = []
    pread = os.pread

    def refuse_to_wait(fd: int, buffers: list[bytearray], position: int, flags: int) -> int:
        assert flags == os.RWF_NOWAIT, "it would have waited"
        raise BlockingIOError

    def wait(fd: int, size: int, position: int) -> bytes:
        waited.append(threading.current_thread().name)
        return pread(fd, size, position)

    monkeypatch.setattr(os, "preadv", refuse_to_wait)
    monkeypatch.setattr(os, "pread", wait)
    yield waited
    assert waited, "nothing was read"
    assert threading.current_thread().name not in waited, "the event loop waited for the device"


async def test_a_cold_page_of_a_file(disk: RealDisk, tmp_path: Path, cold: list[str]) -> None:
    file = disk.open(f"{tmp_path}/f", create=True)
    file.append([b"0123456789"])
    assert await file.read(3, 4) == b"3456"
    file.close()


async def test_cached_pages_of_a_large_read_take_no_thread(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    pread = os.pread

    def read(fd: int, size: int, position: int) -> bytes:
        threads.append(threading.current_thread().name)
        return pread(fd, size, position)

    monkeypatch.setattr(os, "pread", read)
    data = bytes(number % 251 for number in range(300_000))
    file = disk.open(f"{tmp_path}/f", create=True)
    file.append([data])
    for position, size in ((0, 300_000), (1, 65_537), (7, 131_072), (299_990, 100_000)):
        assert await file.read(position, size) == data[position : position + size]
    file.close()
    assert set(threads) == {threading.current_thread().name}


async def test_one_cold_page_of_a_large_read(
    disk: RealDisk, tmp_path: Path, cold: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def all_but_one(fd: int, buffers: list[memoryview], position: int, flags: int) -> int:
        assert flags == os.RWF_NOWAIT, "it would have waited"
        return sum(map(len, buffers)) - 4096

    monkeypatch.setattr(os, "preadv", all_but_one)
    file = disk.open(f"{tmp_path}/f", create=True)
    file.append([bytes(300_000)])
    assert await file.read(0, 300_000) == bytes(300_000)
    file.close()


async def test_a_cold_page_that_is_read_once_leaves_the_cache_again(
    disk: RealDisk, tmp_path: Path, cold: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    advice: list[tuple[int, int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda fd, *what: advice.append(what))
    file = disk.open(f"{tmp_path}/f", create=True)
    file.append([bytes(10_000)])
    for _ in range(2):
        assert await file.read_once(5000, 100) == bytes(100)
    file.close()
    dropped = (4096, 4096, os.POSIX_FADV_DONTNEED)
    assert advice == [(0, 0, os.POSIX_FADV_RANDOM), dropped, dropped]


async def test_a_page_that_was_in_the_cache_stays_there(
    disk: RealDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    advice: list[int] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda fd, start, size, what: advice.append(what))
    file = disk.open(f"{tmp_path}/f", create=True)
    file.append([b"0123456789"])
    assert await file.read_once(3, 40) == b"3456789"
    file.close()
    assert advice == [os.POSIX_FADV_RANDOM]


async def test_a_file_that_is_closed_under_a_cold_read_is_read_to_the_end(
    disk: RealDisk, tmp_path: Path, cold: list[str]
) -> None:
    file = disk.open(f"{tmp_path}/f", create=True)
    file.append([b"0123456789"])
    read: list[bytes] = []
    asks = trio.Event()

    async def take() -> None:
        asks.set()
        read.append(await file.read(0, 10))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        await asks.wait()
        file.close()
    assert read == [b"0123456789"]


async def test_cold_pages_of_a_log(disk: RealDisk, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Reads by offset and by time, and voter sets, also through a wrong index."""
    config = LogConfig(segment_bytes=128 * 1024, tail_bytes=0)
    log = await Log.open(disk, f"{tmp_path}/t-0", config, now_ms=lambda: T0)
    for offset in range(BATCHES):
        batch = build_batch(base_offset=offset, epoch=1, timestamp_ms=T0 + offset, values=[b"x" * 100])
        log.append_own(batch, base_offset=offset, end_offset=offset + 1, epoch=1)
    request.getfixturevalue("cold")
    assert (await log.read(5, 1))[:8] == (5).to_bytes(8, "big")
    assert (await log.read(1234, 100_000))[:8] == (1234).to_bytes(8, "big")
    assert await log.offset_for_timestamp(T0 + 1234) == 1234
    assert await log.voter_sets(0) == []
    log._segments[0].indexes.offsets._positions[0] += 1
    entry_offset = log._segments[0].indexes.offsets._offsets[0]
    assert (await log.read(entry_offset + 1, 1))[:8] == (entry_offset + 1).to_bytes(8, "big")
    log.close()
