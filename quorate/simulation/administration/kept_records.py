"""The records of partitions that shrink, grow again and have records deleted: what must be there at the end,
and what must not."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class _Acknowledged:
    offset: int
    value: bytes


class KeptRecords:
    """The acknowledged records of one partition by number, through all its lives. One client writes them, and
    asks for everything else that is done to the partition."""

    def __init__(self) -> None:
        self._kept: list[_Acknowledged] = []
        self._removed: set[bytes] = set()
        self._asked_to_delete_below = 0
        self.deleted_below = 0
        """The highest low watermark that was answered: nothing below it may be read."""

    def acknowledged(self, offset: int, value: bytes) -> None:
        self._kept.append(_Acknowledged(offset, value))

    def deleting(self, below: int) -> None:
        """A request to delete records begins, whatever its answer."""
        self._asked_to_delete_below = max(self._asked_to_delete_below, below)

    def deleted(self, low_watermark: int) -> None:
        self.deleted_below = max(self.deleted_below, low_watermark)

    def removed(self) -> None:
        """The partition was removed, with all that had been acknowledged by the time of the request."""
        self._removed |= {each.value for each in self._kept}
        self._kept.clear()
        self._asked_to_delete_below = self.deleted_below = 0

    def wrong(self, held: Sequence[tuple[int, bytes]], *, log_start_offset: int) -> Iterator[str]:
        """Say what is wrong with a replica that holds these (offset, value) pairs."""
        values = dict(held)
        if log_start_offset < self.deleted_below:
            yield (
                f"begins at offset {log_start_offset}, and what is below {self.deleted_below} was answered "
                "as deleted"
            )
        for value in self._removed.intersection(values.values()):
            yield f"has {value!r}, which went with the earlier partition of its number"
        for each in self._kept:
            if each.offset >= self._asked_to_delete_below and values.get(each.offset) != each.value:
                yield f"lacks {each.value!r}, which was acknowledged at offset {each.offset}"
