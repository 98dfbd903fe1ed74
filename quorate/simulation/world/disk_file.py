"""An open file of a simulated disk. What becomes of its bytes when power is lost is for `disk_content`."""

from collections.abc import Callable, Sequence
from typing import Protocol

import trio

from quorate.runtime import Buffer, DiskError, DiskFullError
from quorate.simulation.world.disk_content import FileContent, SyncUnderWay
from quorate.simulation.world.disk_faults import DiskOperation


class Device(Protocol):
    """The calls of a file to its disk."""

    space_left: int | None
    syncs: int
    syncs_at_once: bool
    on_sync: Callable[[str], None] | None

    @property
    def is_stalled(self) -> bool: ...

    def check_alive(self, boots: int, path: str) -> None: ...

    def enter(self, operation: DiskOperation | None, path: str) -> str: ...

    def take_space(self, size: int) -> int: ...

    def next_sync(self) -> int: ...

    async def wait_for_sync(self, path: str) -> None: ...

    async def wait_for_reads(self) -> None: ...


class SimulatedFile:
    """`quorate.runtime.disk.File` in memory."""

    __slots__ = ("_boots", "_closed", "_content", "_disk", "_path", "_reserved")

    def __init__(self, disk: Device, path: str, content: FileContent, boots: int) -> None:
        self._disk = disk
        self._path = path
        self._content = content
        self._boots = boots
        self._closed = False
        self._reserved = False

    @property
    def path(self) -> str:
        return self._path

    @property
    def size(self) -> int:
        return len(self._content.cached) if self._reserved else self._content.size

    def _enter(self, operation: DiskOperation) -> None:
        if self._closed:
            raise DiskError("the file is closed", path=self._path)
        self._disk.check_alive(self._boots, self._path)
        self._disk.enter(operation, self._path)

    def append(self, buffers: Sequence[Buffer]) -> int:
        self._enter(DiskOperation.APPEND)
        content = self._content
        position = self.size
        self._fill_up_to(position)
        data = b"".join(buffers)
        room = max(0, content.size - position)
        fits = min(len(data), room)
        fits += self._disk.take_space(len(data) - fits)
        content.touched(position)
        content.cached += data[:fits]
        if fits < len(data):
            raise DiskFullError("no space left on the device", path=self._path)
        return position

    def reserve(self, size_bytes: int) -> None:
        self._enter(DiskOperation.RESERVE)
        content, disk = self._content, self._disk
        self._fill_up_to(self.size)
        self._reserved = True
        more = size_bytes - content.size
        if more > 0 and (disk.space_left is None or disk.space_left >= more):
            disk.take_space(more)
            content.reserve = size_bytes

    def _fill_up_to(self, size: int) -> None:
        content = self._content
        if size > len(content.cached):
            content.touched(len(content.cached))
            content.cached = content.cached.ljust(size, b"\0")

    def write_at(self, position: int, data: Buffer) -> None:
        self._enter(DiskOperation.WRITE_AT)
        content = self._content
        self._fill_up_to(position)
        content.touched(position)
        content.cached[position : position + len(data)] = data

    def read_at(self, position: int, size: int) -> bytes:
        self._enter(DiskOperation.READ)
        return self._read(position, size)

    async def read(self, position: int, size: int) -> bytes:
        self._enter(DiskOperation.READ)
        await self._disk.wait_for_reads()
        await trio.lowlevel.checkpoint()
        self._disk.check_alive(self._boots, self._path)
        return self._read(position, size)

    async def read_once(self, position: int, size: int) -> bytes:
        return await self.read(position, size)

    def _read(self, position: int, size: int) -> bytes:
        return self._content.read(position, min(size, max(0, self.size - position)))

    async def sync(self) -> None:
        if self._closed:
            raise DiskError("the file is closed", path=self._path)
        disk, content = self._disk, self._content
        disk.check_alive(self._boots, self._path)
        low = content.dirty_low
        data = bytes(memoryview(content.cached)[low:])
        reserve = content.reserve
        this = SyncUnderWay(disk.next_sync(), len(content.cached))
        content.under_way.append(this)
        try:
            await disk.wait_for_sync(self._path)
            disk.check_alive(self._boots, self._path)
        finally:
            if this in content.under_way:
                content.under_way.remove(this)
        if content.last_applied > this.number:
            return
        content.last_applied = this.number
        content.dirty_low = min(this.low_since, len(content.cached))
        disk.enter(DiskOperation.SYNC, self._path)
        disk.syncs += 1
        if len(content.durable) < low:
            content.durable = content.durable.ljust(low, b"\0")
        content.durable[low:] = data
        content.durable_reserve = reserve
        if disk.on_sync is not None:
            disk.on_sync(self._path)

    def sync_at_once(self) -> bool:
        disk, content = self._disk, self._content
        if not disk.syncs_at_once or disk.is_stalled:
            return False
        if self._closed:
            raise DiskError("the file is closed", path=self._path)
        disk.check_alive(self._boots, self._path)
        content.last_applied = disk.next_sync()
        low, content.dirty_low = content.dirty_low, len(content.cached)
        disk.enter(DiskOperation.SYNC, self._path)
        disk.syncs += 1
        if len(content.durable) < low:
            content.durable = content.durable.ljust(low, b"\0")
        content.durable[low:] = memoryview(content.cached)[low:]
        content.durable_reserve = content.reserve
        if disk.on_sync is not None:
            disk.on_sync(self._path)
        return True

    def truncate(self, size: int) -> None:
        self._enter(DiskOperation.TRUNCATE)
        content, disk = self._content, self._disk
        if content.reserve > len(content.cached) and disk.space_left is not None:
            disk.space_left += content.reserve - max(size, len(content.cached))
        content.touched(size)
        content.reserve = min(content.reserve, size)
        del content.cached[size:]

    def close(self) -> None:
        self._closed = True
