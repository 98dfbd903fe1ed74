"""A disk in memory that forgets what was not synced.

Each file has two contents: what the page cache holds and what the device holds; each folder has two lists
of names likewise. A process crash loses neither cache; a power loss keeps of the unsynced part whatever a
`random.Random` draws: nothing, all of it, a part torn at any byte, or sectors out of order. What a failed
sync covered is clean in the cache yet not on the device, as on Linux: only rewriting it helps.

Simplified: folders themselves are durable when made.
"""

import posixpath
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import trio

from quorate.runtime import (
    Buffer,
    DescriptorsExhaustedError,
    DiskError,
    DiskFullError,
    DiskLockedError,
    DiskSpace,
)
from quorate.simulation.world.disk_content import (
    Created,
    FileContent,
    FolderRenamed,
    NameChange,
    Removed,
    Renamed,
    SyncUnderWay,
    apply_change,
    renamed_change,
)
from quorate.simulation.world.disk_faults import DiskFaults
from quorate.simulation.world.disk_faults import DiskOperation as DiskOperation

_SIZE_BYTES = 1 << 40


@lru_cache(maxsize=1 << 15)
def _folder_of(path: str) -> str:
    return posixpath.dirname(path) or "."


@lru_cache(maxsize=1 << 15)
def _normal(path: str) -> str:
    return posixpath.normpath(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A folder that was taken off a disk."""

    names: dict[str, FileContent]
    durable_names: dict[str, FileContent]
    name_changes: dict[str, list[NameChange]]
    folders: set[str]


class SimulatedDisk:
    """`quorate.runtime.disk.Disk` in memory, with faults.

    `sync_delay` is how long a sync or folder sync takes, in seconds by file path; 0 is one checkpoint.
    `space_left` is the number of bytes that may still be written, None for no limit. `syncs_at_once`: it
    does `File.sync_at_once`, as a real disk whose syncs hold up the event loop; that takes no virtual time.
    """

    def __init__(
        self, *, sync_delay: Callable[[str], float] | float = 0.0, syncs_at_once: bool = False
    ) -> None:
        self.sync_delay = sync_delay
        self.syncs_at_once = syncs_at_once
        self.space_left: int | None = None
        self.descriptors: int | None = None
        """The value of `descriptors_left`; at 0, opening a file is refused."""
        self.syncs = 0
        """Syncs and folder syncs that finished."""
        self.power_losses = 0
        self.on_sync: Callable[[str], None] | None = None
        """Called with the path after each. For traces."""
        self._names: dict[str, FileContent] = {}
        self._durable_names: dict[str, FileContent] = {}
        self._name_changes: dict[str, list[NameChange]] = {}
        self._folders: set[str] = {".", "/"}
        self._locks: dict[str, _SimulatedLock] = {}
        self._faults = DiskFaults()
        self._boots = 0
        self._sync_number = 0
        self._cut = False
        self._released: trio.Event | None = None
        self._stall_syncs = self._stall_reads = False

    # Faults

    def fail(self, operation: DiskOperation, *, path_part: str = "", skip: int = 0, times: int = 1) -> None:
        """The next `times` such operations on paths that contain `path_part` raise `DiskError`, after
        `skip` that don't."""
        self._faults.add(operation, path_part=path_part, skip=skip, times=times)

    @property
    def failing(self) -> bool:
        """Something that `fail` asked for has yet to happen."""
        return bool(self._faults)

    @property
    def has_failed(self) -> bool:
        """Something that `fail` asked for has happened to the process that uses the disk."""
        return self._faults.happened

    def clear_faults(self) -> None:
        """Drop the faults of `fail` that have not happened yet."""
        self._faults.clear()

    def stall(self, *, syncs: bool = True, reads: bool = True) -> None:
        """Syncs, folder syncs and awaited reads, or some of these, wait until `release`."""
        if self._released is None:
            self._released = trio.Event()
        self._stall_syncs, self._stall_reads = syncs, reads

    @property
    def is_stalled(self) -> bool:
        """Return whether operations wait for `release`."""
        return self._released is not None

    def release(self) -> None:
        """End a `stall`: the operations that wait go on."""
        if self._released is not None:
            self._released.set()
            self._released = None

    def cut(self) -> None:
        """Raise `DiskError` in every operation from now on, until a crash or power loss, and in those that a
        stalled disk holds up: some can't be cancelled, and their process is to end now."""
        self._cut = True
        self.release()

    def crash_process(self) -> None:
        """Open files and locks die; the page cache survives. The disk is usable again at once."""
        self._boots += 1
        self._cut = self._faults.happened = False
        self._locks.clear()
        self.release()
        for content in self._names.values():
            content.under_way.clear()

    def lose_power(self, draw: random.Random) -> None:
        """Crash as `crash_process`, and lose, keep, tear or reorder the unsynced data as drawn."""
        self.crash_process()
        self.power_losses += 1
        while self._name_changes:
            # A folder before those in it: they are where its surviving renames put them.
            changes = self._name_changes.pop(min(self._name_changes))
            if draw.random() < 0.5:
                kept = changes[: draw.randint(0, len(changes))]
            else:
                kept = [change for change in changes if draw.random() < 0.5]
            for change in kept:
                apply_change(self._durable_names, change)
            for change in reversed(changes):
                if isinstance(change, FolderRenamed) and change not in kept:
                    self._rename_folders(change.undone())
        self._names = dict(self._durable_names)
        for path in sorted(self._names):
            self._names[path].lose_power(draw)
            # Its removal may have been lost.
            self._add_folder(_folder_of(path))

    def unmount(self, path: str) -> "Volume":
        """Take a folder away with everything in it, as it is. No process may run."""
        path = _normal(path)

        def inside(name: str) -> bool:
            return name == path or name.startswith(f"{path}/")

        volume = Volume(
            names={name: self._names.pop(name) for name in sorted(self._names) if inside(name)},
            durable_names={
                name: self._durable_names.pop(name) for name in sorted(self._durable_names) if inside(name)
            },
            name_changes={
                name: self._name_changes.pop(name) for name in sorted(self._name_changes) if inside(name)
            },
            folders={folder for folder in self._folders if inside(folder)},
        )
        self._folders -= volume.folders
        return volume

    def mount(self, path: str, volume: "Volume") -> None:
        """Put a folder that `unmount` took away in the place of the present one. No process may run."""
        self.unmount(path)
        self._names.update(volume.names)
        self._durable_names.update(volume.durable_names)
        self._name_changes.update(volume.name_changes)
        self._folders |= volume.folders

    def mount_twice(self, path: str, other: str) -> None:
        """Show the files that are in a folder in `other` as well, until that is unmounted. No process may
        run."""
        path, other = _normal(path), _normal(other)
        self._folders.add(other)
        for name in [name for name in self._names if _folder_of(name) == path]:
            there = f"{other}/{posixpath.basename(name)}"
            self._names[there] = self._durable_names[there] = self._names[name]

    def flip(self, path: str, position: int, *, bit: int = 0) -> None:
        """Damage at rest: flip one bit in the cache and on the device."""
        content = self._names[_normal(path)]
        content.cached[position] ^= 1 << bit
        if position < len(content.durable):
            content.durable[position] ^= 1 << bit

    def files(self) -> list[str]:
        """Return the paths of all files, sorted; for tests."""
        return sorted(self._names)

    def content(self, path: str) -> bytes:
        """Return the readers' view, except for the zeros of a reserve; for tests."""
        return bytes(self._names[_normal(path)].cached)

    def durable_content(self, path: str) -> bytes | None:
        """Return the durable content, except for the zeros of a reserve; for tests. None if the name is not
        durable."""
        content = self._durable_names.get(_normal(path))
        return None if content is None else bytes(content.durable)

    def durable_names(self, folder: str) -> list[str]:
        """Paths of the files in `folder` that the device is sure to know, sorted; for tests."""
        folder = _normal(folder)
        return sorted(path for path in self._durable_names if _folder_of(path) == folder)

    # Disk

    def open(self, path: str, *, create: bool = False) -> "SimulatedFile":
        path = self.enter(DiskOperation.OPEN, path)
        if self.descriptors is not None and self.descriptors <= 0:
            raise DescriptorsExhaustedError("no file descriptor is left; raise the limit", path=path)
        content = self._names.get(path)
        if content is None:
            if not create:
                raise FileNotFoundError(path)
            if _folder_of(path) not in self._folders:
                raise DiskError("the folder does not exist", path=path)
            content = FileContent()
            self._change(Created(path, content), path)
        return SimulatedFile(self, path, content, self._boots)

    def open_read_only(self, path: str) -> "SimulatedFile":
        return self.open(path)

    def exists(self, path: str) -> bool:
        path = self.enter(None, path)
        return path in self._names or path in self._folders

    def mode(self, path: str) -> int:
        path = self.enter(None, path)
        if path not in self._names:
            raise FileNotFoundError(path)
        return 0o600

    def list(self, path: str) -> list[str]:
        path = self.enter(None, path)
        return sorted(
            posixpath.basename(other)
            for other in (*self._names, *self._folders)
            if _folder_of(other) == path and other != path
        )

    def make_folder(self, path: str) -> None:
        self._add_folder(self.enter(None, path))

    def _add_folder(self, path: str) -> None:
        while path not in self._folders:
            self._folders.add(path)
            path = _folder_of(path)

    def rename(self, old: str, new: str) -> None:
        old = self.enter(DiskOperation.RENAME, old)
        new = _normal(new)
        if old in self._folders:
            if self.list(new):
                raise DiskError("directory not empty", path=new)
            change = FolderRenamed(old, new)
            self._change(change, new)
            self._rename_folders(change)
            return
        if old not in self._names:
            raise FileNotFoundError(old)
        self._change(Renamed(old, new), new)

    def _rename_folders(self, change: FolderRenamed) -> None:
        """Move the pending changes of a renamed folder along with it: its files stay the same."""
        self._folders = {change.path_after(folder) for folder in self._folders}
        pending = {folder: self._name_changes[folder] for folder in sorted(self._name_changes)}
        for folder, changes in pending.items():
            after = change.path_after(folder)
            if after != folder:
                del self._name_changes[folder]
                self._name_changes[after] = [renamed_change(each, change) for each in changes]

    def remove(self, path: str) -> None:
        path = self.enter(DiskOperation.REMOVE, path)
        if path not in self._names:
            raise FileNotFoundError(path)
        self._change(Removed(path), path)

    def remove_folder(self, path: str) -> None:
        path = self.enter(DiskOperation.REMOVE, path)
        inside = path + "/"
        for folder in [name for name in self._name_changes if name == path or name.startswith(inside)]:
            del self._name_changes[folder]
        for name in sorted({*self._names, *self._durable_names}):
            if name.startswith(inside):
                self._names.pop(name, None)
                # Durable with the parent's sync, as the folder's own removal is.
                durable = self._durable_names.get(name)
                if durable is not None:
                    self._name_changes.setdefault(_folder_of(path), []).append(Removed(name, durable))
        self._folders = {
            folder for folder in self._folders if folder != path and not folder.startswith(path + "/")
        }

    async def sync_folder(self, path: str) -> None:
        path = self.enter(None, path)
        boots = self._boots
        taken = list(self._name_changes.get(path, ()))
        await self.wait_for_sync(path)
        self.check_alive(boots, path)
        self.enter(DiskOperation.SYNC_FOLDER, path)
        self.syncs += 1
        pending = self._name_changes.get(path, [])
        for change in taken:
            if change in pending:
                pending.remove(change)
                apply_change(self._durable_names, change)
        if self.on_sync is not None:
            self.on_sync(path)

    def settle(self, folder: str) -> None:
        """Make the names in a folder durable at once, as an operator's sync does when no process runs."""
        for change in self._name_changes.pop(self.enter(None, folder), ()):
            apply_change(self._durable_names, change)

    def in_background(self) -> "SimulatedDisk":
        return self

    def space(self, path: str) -> DiskSpace:
        self.enter(None, path)
        usable = _SIZE_BYTES if self.space_left is None else self.space_left
        return DiskSpace(total=max(_SIZE_BYTES, usable), usable=usable)

    def descriptors_left(self) -> int | None:
        return self.descriptors

    def lock(self, path: str) -> "_SimulatedLock":
        path = self.enter(None, path)
        if path in self._locks:
            raise DiskLockedError("another process holds the lock on this folder", path=path)
        held = self._locks[path] = _SimulatedLock(self._locks, path)
        return held

    # For files

    def enter(self, operation: DiskOperation | None, path: str) -> str:
        """Begin an operation: return the path in its normal form. Raises the `DiskError` of a fault."""
        if self._cut:
            raise DiskError("the disk is gone", path=path)
        if operation is not None:
            self._faults.check(operation, path)
        return _normal(path)

    def check_alive(self, boots: int, path: str) -> None:
        """Raise `DiskError` if the process that began in boot `boots` has lost the disk."""
        if self._cut or boots != self._boots:
            raise DiskError("the disk is gone", path=path)

    def take_space(self, size: int) -> int:
        """Return how many of `size` bytes fit."""
        if self.space_left is None:
            return size
        fits = min(size, self.space_left)
        self.space_left -= fits
        return fits

    def next_sync(self) -> int:
        """Numbers syncs of files in the order in which they begin."""
        self._sync_number += 1
        return self._sync_number

    async def wait_for_reads(self) -> None:
        """Wait while a `stall` holds up reads."""
        if self._released is not None and self._stall_reads:
            await self._released.wait()

    async def wait_for_sync(self, path: str) -> None:
        """Wait for as long as a sync of `path` takes, and while a `stall` holds it up."""
        delay = self.sync_delay(path) if callable(self.sync_delay) else self.sync_delay
        if self._released is not None and self._stall_syncs:
            await self._released.wait()
        if delay > 0:
            await trio.sleep(delay)
        else:
            await trio.lowlevel.checkpoint()

    def _change(self, change: NameChange, path: str) -> None:
        apply_change(self._names, change)
        self._name_changes.setdefault(_folder_of(path), []).append(change)


class SimulatedFile:
    """`quorate.runtime.disk.File` in memory. `disk_content` has its bytes, and their fate at a power loss."""

    __slots__ = ("_boots", "_closed", "_content", "_disk", "_path", "_reserved")

    def __init__(self, disk: "SimulatedDisk", path: str, content: FileContent, boots: int) -> None:
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

    def _check_open(self) -> None:
        if self._closed:
            raise DiskError("the file is closed", path=self._path)
        self._disk.check_alive(self._boots, self._path)

    def _enter(self, operation: DiskOperation) -> None:
        self._check_open()
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
        self._check_open()
        disk, content = self._disk, self._content
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
        self._end_sync(low, data, reserve)

    def sync_at_once(self) -> bool:
        disk, content = self._disk, self._content
        if not disk.syncs_at_once or disk.is_stalled:
            return False
        self._check_open()
        content.last_applied = disk.next_sync()
        low, content.dirty_low = content.dirty_low, len(content.cached)
        self._end_sync(low, bytes(memoryview(content.cached)[low:]), content.reserve)
        return True

    def _end_sync(self, low: int, data: bytes, reserve: int) -> None:
        """From position `low` on the device has `data`. Raises the `DiskError` of a fault."""
        disk, content = self._disk, self._content
        disk.enter(DiskOperation.SYNC, self._path)
        disk.syncs += 1
        if len(content.durable) < low:
            content.durable = content.durable.ljust(low, b"\0")
        content.durable[low:] = data
        content.durable_reserve = reserve
        if disk.on_sync is not None:
            disk.on_sync(self._path)

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


class _SimulatedLock:
    def __init__(self, locks: "dict[str, _SimulatedLock]", path: str) -> None:
        self._locks = locks
        self._path = path

    def release(self) -> None:
        if self._locks.get(self._path) is self:
            del self._locks[self._path]
