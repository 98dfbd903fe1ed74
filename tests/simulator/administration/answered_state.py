"""The state that one client's answers describe: the records of its partitions, the offset of its group."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from quorate.simulation.violations import SafetyViolation
from tests.simulator.administration.admin_history import Answer


@dataclass(slots=True)
class _Acknowledged:
    offset: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Held:
    """The records of a replica from its log start on."""

    log_start_offset: int
    records: tuple[tuple[int, bytes], ...]
    """Offsets and values."""

    def starting_at(self, offset: int) -> "Held":
        return Held(offset, tuple(each for each in self.records if each[0] >= offset))


class KeptRecords:
    """The acknowledged records of one partition by number, through all its lives. One client writes them, and
    asks for everything else that is done to the partition."""

    def __init__(self) -> None:
        self._kept: list[_Acknowledged] = []
        self._removed: set[bytes] = set()
        self._asked_to_delete_below = 0
        self.deleted_below = 0
        """The highest low watermark that was answered: nothing below it may be read."""
        self.starts_may_differ = False
        """A deletion was not answered: a leader that did it, and was deposed before the others heard, begins
        later than they do."""

    def acknowledged(self, offset: int, value: bytes) -> None:
        self._kept.append(_Acknowledged(offset, value))

    def deleting(self, below: int) -> None:
        """Note that a request to delete records begins."""
        self._asked_to_delete_below = max(self._asked_to_delete_below, below)

    def not_deleted(self) -> None:
        """The request had no answer, or another than that it was done."""
        self.starts_may_differ = True

    def deleted(self, low_watermark: int) -> None:
        self.deleted_below = max(self.deleted_below, low_watermark)

    def removed(self) -> None:
        """The partition was removed, with all that had been acknowledged by the time of the request."""
        self._removed |= {each.value for each in self._kept}
        self._kept.clear()
        self._asked_to_delete_below = self.deleted_below = 0
        self.starts_may_differ = False

    def differ(self, one: "Held", other: "Held") -> bool:
        """Return whether two replicas differ in records that both must hold."""
        if not self.starts_may_differ:
            return one != other
        start = max(one.log_start_offset, other.log_start_offset)
        return one.starting_at(start) != other.starting_at(start)

    def wrong(self, held: "Held") -> Iterator[str]:
        """Yield the faults of a replica that holds these records."""
        values = dict(held.records)
        if held.log_start_offset < self.deleted_below:
            yield (
                f"begins at offset {held.log_start_offset}, and what is below {self.deleted_below} was "
                "answered as deleted"
            )
        for value in self._removed.intersection(values.values()):
            yield f"has {value!r}, which went with the earlier partition of its number"
        for each in self._kept:
            if each.offset >= self._asked_to_delete_below and values.get(each.offset) != each.value:
                yield f"lacks {each.value!r}, which was acknowledged at offset {each.offset}"


NONE: Final = -1


@dataclass(slots=True)
class GroupOffset:
    """The committed offset of a group for one partition. The last request for it may be one
    whose outcome is unknown."""

    group: str
    offset: int = NONE
    may_be: int | None = None
    """The offset that the last request asked for, if its outcome is unknown."""

    @property
    def known(self) -> bool:
        return self.may_be is None

    def answered(self, asked: int, answer: Answer) -> None:
        """Take the answer to a request after which the offset is `asked`; `NONE` for none."""
        if answer is Answer.DONE:
            self.offset = asked
        elif answer is Answer.UNKNOWN:
            self.may_be = asked

    def not_there(self) -> None:
        """Take the answer that the group does not exist. Raises `SafetyViolation`."""
        if self.offset != NONE:
            raise SafetyViolation(f"GroupsAreAsAnswered: {self.group} is unknown, and has {self.offset}")

    def check(self, held: int) -> None:
        """`held`: the offset that the group has. Raises `SafetyViolation`."""
        if held not in (self.offset, self.may_be):
            more = "" if self.may_be is None else f" or {self.may_be}"
            raise SafetyViolation(
                f"GroupsAreAsAnswered: {self.group} is at {held}, and was answered as at {self.offset}{more}"
            )
