"""A call that waits for a device does not delay others, and a sync that failed stays failed."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from quorate.runtime import DiskError
from quorate.runtime.real import RealDisk, SyncStrategy
from quorate.runtime.real.disk_threads import DiskThreads


class Hang:
    """The syncs of some files do not return until `end`."""

    def __init__(self) -> None:
        self.files: set[int] = set()
        self.begun = 0
        self._ended = threading.Event()
        self._fdatasync = os.fdatasync

    def fdatasync(self, fd: int) -> None:
        if os.fstat(fd).st_ino in self.files:
            self.begun += 1
            self._ended.wait(10)
        self._fdatasync(fd)

    def end(self) -> None:
        self._ended.set()


@pytest.fixture
def hang(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hang]:
    hanging = Hang()
    monkeypatch.setattr(os, "fdatasync", hanging.fdatasync)
    yield hanging
    hanging.end()


async def test_a_sync_that_hangs_holds_up_neither_another_files_sync_nor_a_folders(
    tmp_path: Path, hang: Hang
) -> None:
    """A vote is not late because a large log of another device is flushed."""
    disk = RealDisk(sync=SyncStrategy.THREAD)
    slow, other = (disk.open(f"{tmp_path}/{name}", create=True) for name in ("slow", "other"))
    hang.files.add(os.stat(tmp_path / "slow").st_ino)
    ended: list[str] = []

    async def sync_slow() -> None:
        await slow.sync()
        ended.append("slow")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sync_slow)
        await trio.testing.wait_all_tasks_blocked()
        with trio.fail_after(5):
            await other.sync()
            await disk.sync_folder(str(tmp_path))
        assert not ended
        hang.end()
    assert ended == ["slow"]
    slow.close()
    other.close()


async def test_syncs_that_hang_do_not_hold_up_a_read_of_what_the_page_cache_lacks(
    tmp_path: Path, hang: Hang, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing_cached(fd: int, buffers: list[bytearray], position: int, flags: int) -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "preadv", nothing_cached)
    disk = RealDisk(sync=SyncStrategy.THREAD)
    files = [disk.open(f"{tmp_path}/{number}", create=True) for number in range(40)]
    files[0].append([b"0123456789"])
    hang.files.update(os.stat(tmp_path / str(number)).st_ino for number in range(40))
    async with trio.open_nursery() as nursery:
        for file in files:
            nursery.start_soon(file.sync)
        await trio.testing.wait_all_tasks_blocked()
        with trio.fail_after(5):
            assert await files[0].read(2, 3) == b"234"
        hang.end()
    for file in files:
        file.close()


async def test_calls_one_after_the_other_take_one_thread_and_calls_at_once_no_more_than_may_be() -> None:
    names: list[int] = []

    async def call(threads: DiskThreads, gate: threading.Event) -> None:
        def wait() -> int:
            names.append(threading.get_ident())
            gate.wait(10)
            return threading.get_ident()

        await threads.call(wait)

    threads, gate = DiskThreads(most=3), threading.Event()
    gate.set()
    for _ in range(5):
        await call(threads, gate)
    assert len(set(names)) == 1
    names.clear()
    gate.clear()
    async with trio.open_nursery() as nursery:
        for _ in range(7):
            nursery.start_soon(call, threads, gate)
        await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(0.3)
        assert len(names) == len(set(names)) == 3, "the others wait for a thread"
        gate.set()
    assert len(names) == 7
    assert len(set(names)) == 3


async def test_an_error_of_a_call_is_raised_where_it_was_awaited() -> None:
    threads = DiskThreads(most=1)

    def fail() -> None:
        raise OSError(5, "broken")

    with pytest.raises(OSError, match="broken"):
        await threads.call(fail)
    assert await threads.call(lambda: 7) == 7


@pytest.mark.parametrize("strategy", list(SyncStrategy), ids=[each.value for each in SyncStrategy])
async def test_every_sync_after_one_that_failed_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: SyncStrategy
) -> None:
    """The kernel reports lost bytes once, and a later fsync succeeds without them (fsyncgate)."""
    told: list[int] = []

    def fdatasync(fd: int) -> None:
        told.append(fd)
        if len(told) == 1:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    file = RealDisk(sync=strategy).open(f"{tmp_path}/f", create=True)
    failures: list[DiskError] = []

    async def sync() -> None:
        with pytest.raises(DiskError) as raised:
            await file.sync()
        failures.append(raised.value)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sync)
        nursery.start_soon(sync)
    await sync()
    assert len(failures) == 3
    assert len(told) == 1
    file.close()


async def test_syncs_of_a_file_are_one_at_a_time_and_a_closed_file_waits_for_them(
    tmp_path: Path, hang: Hang
) -> None:
    file = RealDisk(sync=SyncStrategy.THREAD).open(f"{tmp_path}/f", create=True)
    hang.files.add(os.stat(tmp_path / "f").st_ino)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(file.sync)
        nursery.start_soon(file.sync)
        await trio.testing.wait_all_tasks_blocked()
        file.close()
        await trio.sleep(0.2)
        assert hang.begun == 1
        hang.end()
    assert hang.begun == 2
