"""The batches at the end of a log, in memory, so that Fetches right behind it don't touch a file."""

from bisect import bisect_right


class Tail:
    """Contiguous batches that end where the log does, at most `max_bytes` of them."""

    __slots__ = ("_batches", "_bytes", "_ends", "_first", "_max_bytes", "_start")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._ends: list[int] = []
        self._batches: list[bytes] = []
        # Entries before `_first` are gone; they are dropped from the lists once they are the larger half.
        self._first = 0
        self._bytes = 0
        self._start = 0

    def add(self, base_offset: int, end_offset: int, batch: bytes) -> None:
        """Add a batch that starts where the last one ended."""
        if self._first == len(self._ends):
            self.clear()
            self._start = base_offset
        self._ends.append(end_offset)
        self._batches.append(batch)
        self._bytes += len(batch)
        while self._bytes > self._max_bytes:
            first = self._first
            self._bytes -= len(self._batches[first])
            self._batches[first] = b""
            self._start = self._ends[first]
            self._first = first + 1
        if self._first > 256 and self._first * 2 > len(self._ends):
            del self._ends[: self._first]
            del self._batches[: self._first]
            self._first = 0

    def forget_below(self, end_offset: int) -> None:
        """Drop the batches that end at or below `end_offset`, which the files have replaced."""
        first = self._first
        while first < len(self._ends) and self._ends[first] <= end_offset:
            self._bytes -= len(self._batches[first])
            self._batches[first] = b""
            self._start = self._ends[first]
            first += 1
        self._first = first

    def clear(self) -> None:
        self._ends.clear()
        self._batches.clear()
        self._first = self._bytes = self._start = 0

    def read(self, offset: int, max_bytes: int, end_offset: int, min_one_batch: bool) -> bytes | None:
        """Return whole batches from the one that holds `offset` on. None: it is not in memory."""
        if offset < self._start or self._first == len(self._ends):
            return None
        ends = self._ends
        index = bisect_right(ends, offset, lo=self._first)
        if index == len(ends):
            return None
        end = index
        size = 0
        while end < len(ends) and ends[end] <= end_offset:
            size += len(self._batches[end])
            if size > max_bytes and not (min_one_batch and end == index):
                break
            end += 1
        if end == index + 1:
            return self._batches[index]
        return b"".join(self._batches[index:end])
