"""Memory that was freed goes back, also from below an object that lives on."""

import ctypes
import os
import subprocess
import sys

import pytest
import trio
import trio.testing

from quorate.runtime.real import freed_memory
from quorate.runtime.real.freed_memory import _resident_bytes, give_back_freed_memory

pytestmark = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_trim") or not os.path.exists("/proc/self/statm"),
    reason="the C library has no malloc_trim",
)
MIB = 1 << 20


def fragmented(count: int) -> tuple[list[bytearray], list[bytes]]:
    """Buffers of the heap, each below an object that stays."""
    warm = bytearray(20 * MIB)
    del warm  # From now on malloc makes no mapping for a block of a megabyte.
    buffers, kept = [], []
    for _ in range(count):
        buffers.append(bytearray(MIB))
        kept.append(bytes(2000))
    return buffers, kept


def test_the_memory_of_a_crowd_goes_back() -> None:
    """In a process of its own: where other tests have left free memory, no more is needed."""
    subprocess.run([sys.executable, __file__], check=True, timeout=60)


async def crowd() -> None:
    freed_memory._LOOK_S = 0.01  # type: ignore[misc]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(give_back_freed_memory)
        await trio.sleep(0.02)
        before = _resident_bytes()
        buffers, kept = fragmented(150)
        await trio.sleep(0.1)
        assert _resident_bytes() - before > 140 * MIB, "in use"
        buffers.clear()
        for _ in range(500):
            if _resident_bytes() - before < 50 * MIB:
                break
            await trio.sleep(0.01)
        else:
            raise AssertionError(f"{(_resident_bytes() - before) // MIB} MiB stay")
        assert kept
        nursery.cancel_scope.cancel()


async def test_free_memory_is_not_searched_if_there_is_no_more_than_before(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    """And less and less often where it is all in use."""
    searched: list[float] = []
    resident = 100 * MIB

    def trim(pad: int) -> int:
        searched.append(trio.current_time())
        return 0

    monkeypatch.setattr(freed_memory, "_trim", lambda: trim)
    monkeypatch.setattr(freed_memory, "_resident_bytes", lambda: resident)

    async def here(function: object, *arguments: object) -> None:
        function(*arguments)  # type: ignore[operator]

    monkeypatch.setattr(freed_memory.trio.to_thread, "run_sync", here)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(give_back_freed_memory)
        await trio.sleep(1000)
        assert not searched
        resident += 100 * MIB
        await trio.sleep(2000)
        assert 8 < len(searched) < 20
        searched.clear()
        resident += 100 * MIB
        await trio.sleep(5)
        assert len(searched) >= 1, "there is more: it may be free soon"
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(crowd)
