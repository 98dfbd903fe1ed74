"""The content of a simulated disk: each file's bytes and the folders' names, in the page cache and on the
device.

A power loss keeps of what was not synced whatever a `random.Random` draws: nothing, all of it, a part torn at
any byte, or sectors out of order.
"""

import random
from dataclasses import dataclass, field

_SECTOR_BYTES = (512, 4096)


@dataclass(slots=True, eq=False)
class SyncUnderWay:
    number: int
    low_since: int
    """Lowest position written since this sync was called."""


@dataclass(slots=True, eq=False)
class FileContent:
    """The content of an inode."""

    cached: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    reserve: int = 0
    """The file's size, if that is beyond the written bytes: zeros follow, which are not kept in memory."""
    durable_reserve: int = 0
    dirty_low: int = 0
    """Positions from here on are written by the next sync."""
    under_way: list[SyncUnderWay] = field(default_factory=list)
    last_applied: int = 0

    @property
    def size(self) -> int:
        return max(len(self.cached), self.reserve)

    def read(self, position: int, size: int) -> bytes:
        end = min(position + size, self.size)
        data = bytes(memoryview(self.cached)[position:end])
        return data.ljust(end - position, b"\0") if position < end else b""

    def touched(self, position: int) -> None:
        self.dirty_low = min(self.dirty_low, position)
        for sync in self.under_way:
            sync.low_since = min(sync.low_since, position)

    def lose_power(self, draw: random.Random) -> None:
        self.durable = self._survivor(draw)
        if self.reserve != self.durable_reserve:
            # Sizes are the journal's business, and independent of the bytes.
            self.durable_reserve = draw.choice((self.reserve, self.durable_reserve))
        self.reserve = self.durable_reserve
        self.cached = bytearray(self.durable)
        self.dirty_low = len(self.durable)
        self.under_way.clear()

    def _survivor(self, draw: random.Random) -> bytearray:
        if self.cached == self.durable:
            return self.durable
        match draw.choice(("lost", "kept", "torn", "sectors")):
            case "lost":
                return self.durable
            case "kept":
                return self.cached
            case "torn":
                cut = draw.randint(_common_prefix(self.cached, self.durable), len(self.cached))
                return self.cached[:cut] + self.durable[cut:]
            case _:
                return self._sectors(draw)

    def _sectors(self, draw: random.Random) -> bytearray:
        sector = draw.choice(_SECTOR_BYTES)
        short, long = sorted((len(self.cached), len(self.durable)))
        size = draw.choice((short, long, draw.randint(short, long)))
        cached = self.cached.ljust(size, b"\0")
        survivor = self.durable.ljust(size, b"\0")[:size]
        first = _common_prefix(self.cached, self.durable) // sector * sector
        for position in range(first, size, sector):
            if draw.random() < 0.5:
                end = min(position + sector, size)
                survivor[position:end] = cached[position:end]
        return survivor


def _common_prefix(one: bytearray, other: bytearray) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


@dataclass(frozen=True, slots=True, eq=False)
class Created:
    path: str
    content: FileContent


@dataclass(frozen=True, slots=True, eq=False)
class Renamed:
    old: str
    new: str


@dataclass(frozen=True, slots=True, eq=False)
class Removed:
    path: str
    content: FileContent | None = None
    """The file that goes with its folder: a file of a new folder in that place stays. None: any file."""


@dataclass(frozen=True, slots=True, eq=False)
class FolderRenamed:
    """A folder has another path, and with it everything in it."""

    old: str
    new: str

    def path_after(self, path: str) -> str:
        """Return the path of a file or folder after the change."""
        return self.new + path[len(self.old) :] if (path + "/").startswith(self.old + "/") else path

    def undone(self) -> "FolderRenamed":
        return FolderRenamed(self.new, self.old)


NameChange = Created | Renamed | Removed | FolderRenamed
"""Each is itself alone: the same rename made again is another change, with a sync of its own to wait for."""


def apply_change(names: dict[str, FileContent], change: NameChange) -> None:
    """A change whose precondition did not survive is skipped, as a journal would."""
    match change:
        case Created(path, content):
            names[path] = content
        case Renamed(old, new):
            if old in names:
                names[new] = names.pop(old)
        case Removed(path, removed):
            if removed is None or names.get(path) is removed:
                names.pop(path, None)
        case FolderRenamed():
            for path in [path for path in names if change.path_after(path) != path]:
                names[change.path_after(path)] = names.pop(path)


def renamed_change(change: NameChange, folder: FolderRenamed) -> NameChange:
    """Return the same change of a file whose folder has another name by now."""
    match change:
        case Created(path, content):
            return Created(folder.path_after(path), content)
        case Renamed(old, new):
            return Renamed(folder.path_after(old), folder.path_after(new))
        case Removed(path, removed):
            return Removed(folder.path_after(path), removed)
        case FolderRenamed(old, new):
            return FolderRenamed(folder.path_after(old), folder.path_after(new))
