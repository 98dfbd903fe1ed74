"""The history of appends, and the check that one log explains it."""

import enum
import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from quorate.simulation.histories import models
from quorate.simulation.histories.linearizability import Operation, check_history
from quorate.simulation.histories.models import AppendBatch, KnownLog
from quorate.simulation.violations import SafetyViolation
from quorate.types import Epoch, Offset


class AppendOutcome(enum.Enum):
    """The client's knowledge of its append."""

    ACKNOWLEDGED = "acknowledged"
    FAILED = "failed"
    """The append was refused: nothing happened."""
    UNKNOWN = "unknown"
    """The append was not answered, or the answer is that the outcome is unknown."""


@dataclass(slots=True)
class AppendCall:
    """An append call. `records` are unique in a history. Times in seconds; an unknown outcome has no end."""

    client: str
    records: Sequence[bytes]
    invoked_at: float
    ended_at: float = math.inf
    outcome: AppendOutcome = AppendOutcome.UNKNOWN
    base_offset: Offset = Offset(-1)
    epoch: Epoch = Epoch(-1)

    def __str__(self) -> str:
        what = f"append of {[bytes(record[:24]) for record in self.records]} by {self.client}"
        when = f"{self.invoked_at:.6f} to {self.ended_at:.6f} s"
        where = f", at {self.base_offset} in epoch {self.epoch}" if self.base_offset >= 0 else ""
        return f"{what} ({when}: {self.outcome.value}{where})"


@dataclass(frozen=True, slots=True)
class ClientRead:
    """An answered call that saw everything below `end_offset`, and nothing else."""

    client: str
    invoked_at: float
    ended_at: float
    end_offset: Offset


@dataclass(frozen=True, slots=True)
class BoundedRead:
    """An answered call that saw everything below `end_offset`, and may lack what was answered in the last
    `staleness_s` before it."""

    client: str
    invoked_at: float
    end_offset: Offset
    staleness_s: float


class History:
    """All appends and answered reads of a run, in the order of their invocation and answer."""

    def __init__(self, *, whole: bool = True) -> None:
        """`whole`: an append of unknown outcome is in the log whole or not at all. Otherwise its end may be
        missing."""
        self._whole = whole
        self.appends: list[AppendCall] = []
        self.reads: list[ClientRead] = []
        self.bounded_reads: list[BoundedRead] = []

    def invoke(self, client: str, records: Sequence[bytes], now: float) -> AppendCall:
        append = AppendCall(client, records, now)
        self.appends.append(append)
        return append

    @staticmethod
    def acknowledge(append: AppendCall, base_offset: Offset, epoch: Epoch, now: float) -> None:
        append.outcome, append.ended_at = AppendOutcome.ACKNOWLEDGED, now
        append.base_offset, append.epoch = base_offset, epoch

    @staticmethod
    def fail(append: AppendCall, now: float) -> None:
        append.outcome, append.ended_at = AppendOutcome.FAILED, now

    def count(self, outcome: AppendOutcome) -> int:
        return sum(append.outcome is outcome for append in self.appends)

    @property
    def acknowledged_records(self) -> int:
        acknowledged = (each for each in self.appends if each.outcome is AppendOutcome.ACKNOWLEDGED)
        return sum(len(append.records) for append in acknowledged)

    def check(self, log: Iterable[tuple[int, bytes]]) -> None:
        """Raise `SafetyViolation` unless `log`, the committed (offset, record) pairs in order, explains
        every answer: acknowledged appends are there whole, once, and where they were said to be; failed
        ones are not; unknown ones are there once or not at all; nothing else is there; and an append that
        was acknowledged before another was invoked comes before it."""
        found: dict[bytes, int] = {}
        for offset, record in log:
            if record in found:
                raise SafetyViolation(
                    f"appended twice: {record[:24]!r} is at offsets {found[record]} and {offset}"
                )
            found[record] = offset
        known = 0
        for append in self.appends:
            offsets = [found[record] for record in append.records if record in found]
            known += len(offsets)
            self._check_whole(append, offsets)
        if known != len(found):
            asked = {record for append in self.appends for record in append.records}
            strange = [offset for record, offset in found.items() if record not in asked]
            raise SafetyViolation(f"nobody appended what is at offsets {strange[:5]}")
        self._check_order(found)
        self._check_bounded()
        self._check_linearizable(found)

    def _check_whole(self, append: AppendCall, offsets: list[int]) -> None:
        is_whole = self._whole or append.outcome is AppendOutcome.ACKNOWLEDGED
        count = len(append.records) if is_whole else len(offsets)
        if offsets and offsets != list(range(offsets[0], offsets[0] + count)):
            raise SafetyViolation(f"torn apart: {append} is at offsets {offsets}")
        if append.outcome is AppendOutcome.ACKNOWLEDGED:
            if not offsets:
                raise SafetyViolation(f"acknowledged but lost: {append}")
            if offsets[0] != append.base_offset:
                raise SafetyViolation(f"acknowledged elsewhere: {append} is at offset {offsets[0]}")
        elif append.outcome is AppendOutcome.FAILED and offsets:
            raise SafetyViolation(f"refused but appended: {append} is at offset {offsets[0]}")

    def _check_linearizable(self, found: Mapping[bytes, int]) -> None:
        """The reads too. Whether an append of unknown outcome took effect, and where, the log says."""
        operations: list[Operation[AppendBatch | models.Read, int]] = []
        starts = []
        for append in self.appends:
            offset = found.get(append.records[0])
            if offset is not None:
                starts.append(offset)
                operations.append(
                    Operation(
                        client=append.client,
                        request=AppendBatch(),
                        answer=offset,
                        invoked_at=append.invoked_at,
                        returned_at=append.ended_at
                        if append.outcome is AppendOutcome.ACKNOWLEDGED
                        else math.inf,
                    )
                )
        for read in self.reads:
            operations.append(
                Operation(
                    client=read.client,
                    request=models.Read(),
                    answer=read.end_offset,
                    invoked_at=read.invoked_at,
                    returned_at=read.ended_at,
                )
            )
        check_history(KnownLog(tuple(sorted(starts))), operations).require()

    def _acknowledged(self) -> list[AppendCall]:
        """Return the acknowledged appends in the order of their answers."""
        return sorted(
            (append for append in self.appends if append.outcome is AppendOutcome.ACKNOWLEDGED),
            key=lambda append: append.ended_at,
        )

    def _check_bounded(self) -> None:
        """Check that each bounded read saw what was acknowledged longer before it than it may be stale."""
        acknowledged = self._acknowledged()
        highest = [*accumulate((append.base_offset + len(append.records) for append in acknowledged), max)]
        for read in self.bounded_reads:
            since = read.invoked_at - read.staleness_s
            count = bisect_left(acknowledged, since, key=lambda append: append.ended_at)
            if count and highest[count - 1] > read.end_offset:
                raise SafetyViolation(
                    f"too stale: {read} saw nothing above {read.end_offset}, when all below "
                    f"{highest[count - 1]} had been acknowledged by {since:.6f} s"
                )

    def _check_order(self, found: dict[bytes, int]) -> None:
        """Check that each append lies above all appends that were acknowledged before it was invoked."""
        ended = self._acknowledged()
        position, newest = 0, None
        for append in self.appends:
            while position < len(ended) and ended[position].ended_at < append.invoked_at:
                if newest is None or ended[position].base_offset > newest.base_offset:
                    newest = ended[position]
                position += 1
            offset = found.get(append.records[0])
            if newest is not None and offset is not None and offset <= newest.base_offset:
                raise SafetyViolation(
                    f"out of order: {append} is at offset {offset}, below an earlier one: {newest}"
                )
