"""The sum of the records that went through a command, told on standard error."""

import sys
import time
from dataclasses import dataclass, field
from typing import Final

_EVERY_S: Final = 1.0


@dataclass(slots=True)
class Flow:
    """Counts records, and the bytes of their keys and values. `shows`: writes a line anew each second."""

    verb: str
    shows: bool
    records: int = 0
    size: int = 0
    _began: float = field(default_factory=time.monotonic)
    _told: float = field(default_factory=time.monotonic)

    def add(self, key: bytes | None, value: bytes | None) -> None:
        self.records += 1
        self.size += len(key or b"") + len(value or b"")
        if self.shows and (now := time.monotonic()) - self._told >= _EVERY_S:
            self._told = now
            print(f"\r{self.text()}\x1b[K", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Tell the sum."""
        start = "\r\x1b[K" if self.shows else ""
        print(f"{start}{self.text()}", file=sys.stderr, flush=True)

    def as_dict(self) -> dict[str, object]:
        return {"records": self.records, "bytes": self.size, "seconds": round(self._seconds(), 3)}

    def text(self) -> str:
        seconds = self._seconds()
        rate = f"{self.records / seconds:,.0f}/s, {self.size / seconds / 1e6:,.2f} MB/s" if seconds else "-"
        named = "record" if self.records == 1 else "records"
        return f"{self.verb} {self.records:,} {named}, {self.size:,} bytes in {seconds:.1f} s ({rate})"

    def _seconds(self) -> float:
        return time.monotonic() - self._began
