"""Errors that a simulated disk raises on request."""

import enum
from dataclasses import dataclass

from quorate.runtime import DiskError


class DiskOperation(enum.Enum):
    """The operations that a fault can be put into."""

    OPEN = "open"
    APPEND = "append"
    RESERVE = "reserve"
    WRITE_AT = "write_at"
    READ = "read"
    SYNC = "sync"
    TRUNCATE = "truncate"
    RENAME = "rename"
    REMOVE = "remove"
    SYNC_FOLDER = "sync_folder"


@dataclass(slots=True, kw_only=True)
class _Fault:
    operation: DiskOperation
    path_part: str
    skip: int
    times: int


class DiskFaults:
    """The requested faults that have not happened yet."""

    __slots__ = ("_faults", "happened")

    def __init__(self) -> None:
        self._faults: list[_Fault] = []
        self.happened = False
        """One of them was raised, since a process last began on this disk."""

    def __bool__(self) -> bool:
        return bool(self._faults)

    def add(self, operation: DiskOperation, *, path_part: str, skip: int, times: int) -> None:
        self._faults.append(_Fault(operation=operation, path_part=path_part, skip=skip, times=times))

    def clear(self) -> None:
        self._faults.clear()

    def check(self, operation: DiskOperation, path: str) -> None:
        """Raise `DiskError` if this operation is one of those."""
        for fault in self._faults:
            if fault.operation is operation and fault.path_part in path:
                if fault.skip:
                    fault.skip -= 1
                    continue
                fault.times -= 1
                if not fault.times:
                    self._faults.remove(fault)
                self.happened = True
                raise DiskError(f"injected {operation.value} error", path=path)
