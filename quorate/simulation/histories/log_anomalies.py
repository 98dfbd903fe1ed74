"""The anomalies of a log in the answers to its producers and consumers, by Jepsen's names.

For anybody's histories of a log cut into partitions, such as Kafka's topics: write down each send, each poll,
and each time a consumer's position was set; then call `find_anomalies`. Values must be unique. The time it
takes is near linear: a million operations in some seconds.

The names and their meaning are those of `jepsen.tests.kafka`.
"""

import enum
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from quorate.simulation.violations import SafetyViolation


class Anomaly(enum.Enum):
    """Kinds, by Jepsen's names."""

    LOST_WRITE = "lost-write"
    """A value was acknowledged, or read by somebody, and readers who got further never saw it."""
    ABORTED_READ = "aborted-read"
    """A value was read whose send had failed (Adya's G1a)."""
    DUPLICATE = "duplicate"
    """A value is at two offsets."""
    INCONSISTENT_OFFSETS = "inconsistent-offsets"
    """Two values are at one offset."""
    INT_NONMONOTONIC_POLL = "int-nonmonotonic-poll"
    """Within one poll, offsets don't grow."""
    INT_POLL_SKIP = "int-poll-skip"
    """Within one poll, a value is passed over that is known to be there."""
    NONMONOTONIC_POLL = "nonmonotonic-poll"
    """A consumer's poll begins at or below where its last one ended, though nobody moved it."""
    POLL_SKIP = "poll-skip"
    """A consumer's next poll passes over a value, though nobody moved it."""
    INT_NONMONOTONIC_SEND = "int-nonmonotonic-send"
    """Within one send, offsets don't grow."""
    NONMONOTONIC_SEND = "nonmonotonic-send"
    """A producer's later send is at a lower offset than its earlier one."""
    UNSEEN = "unseen"
    """An acknowledged value above all that was read: wrong only if somebody has read to the end."""


class SendOutcome(enum.Enum):
    ACKNOWLEDGED = "acknowledged"
    FAILED = "failed"
    """The send was refused: nothing happened."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Sent:
    """A producer's call. `offsets`: the answered offsets of the values, in their order; empty if there were
    none."""

    client: str
    partition: Hashable
    values: Sequence[Hashable]
    offsets: Sequence[int] = ()
    outcome: SendOutcome = SendOutcome.ACKNOWLEDGED


@dataclass(frozen=True, slots=True)
class Polled:
    """An answer to a consumer from one partition: (offset, value) pairs, in the order that it saw."""

    client: str
    partition: Hashable
    records: Sequence[tuple[int, Hashable]]


@dataclass(frozen=True, slots=True)
class Moved:
    """A consumer's position was set, by a seek, an assignment or a rebalance. `partition` None: in all."""

    client: str
    partition: Hashable = None


LogOperation = Sent | Polled | Moved


@dataclass(frozen=True, slots=True)
class Finding:
    """An anomaly in a history."""

    kind: Anomaly
    partition: Hashable
    what: str

    def __str__(self) -> str:
        return f"{self.kind.value} in {self.partition}: {self.what}"


@dataclass(frozen=True, slots=True)
class LogReport:
    """`counts` are of all that was found; of each kind the first few are in `findings`."""

    findings: tuple[Finding, ...]
    counts: Mapping[Anomaly, int]

    def of(self, kind: Anomaly) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.kind is kind)

    def __str__(self) -> str:
        if not self.counts:
            return "no anomalies"
        lines = [", ".join(f"{kind.value}: {count}" for kind, count in self.counts.items())]
        return "\n".join([*lines, *(f"  {finding}" for finding in self.findings)])

    def require(self, *, allowed: Iterable[Anomaly] = ()) -> None:
        """Raise `SafetyViolation` if anything was found that is not `allowed`."""
        wrong = set(self.counts) - set(allowed)
        if wrong:
            raise SafetyViolation(str(self))


def find_anomalies(
    operations: Iterable[LogOperation], *, read_to_end: bool = False, findings_max: int = 10
) -> LogReport:
    """All anomalies of a history. `operations` are, for each client, in the order in which they ended.

    `read_to_end`: after the last send some consumer read all of every partition, so what it has not seen is
    lost even above everything that was read. A log that drops values by itself (retention, compaction) shows
    that as lost-write and skips: leave those partitions out. `findings_max`: how many of a kind are listed.
    """
    history = list(operations)
    found = _Findings(findings_max)
    partitions: dict[Hashable, _Partition] = {}
    for operation in history:
        if not isinstance(operation, Moved):
            partition = partitions.get(operation.partition)
            if partition is None:
                partition = partitions[operation.partition] = _Partition(operation.partition)
            if isinstance(operation, Sent):
                partition.sent(operation, found)
            else:
                partition.polled(operation, found)
    for partition in partitions.values():
        partition.conclude(found, read_to_end=read_to_end)
    _check_order(history, partitions, found)
    return LogReport(tuple(found.findings), found.counts)


@dataclass(slots=True)
class _Findings:
    each_max: int
    findings: list[Finding] = field(default_factory=list)
    counts: dict[Anomaly, int] = field(default_factory=dict)

    def add(self, kind: Anomaly, partition: Hashable, what: str) -> None:
        count = self.counts[kind] = self.counts.get(kind, 0) + 1
        if count <= self.each_max:
            self.findings.append(Finding(kind, partition, what))


class _Partition:
    """The offsets of each value of one partition, as far as the answers say."""

    __slots__ = ("_acknowledged", "_at", "_failed", "_name", "_offset_of", "_read", "_read_end", "offsets")

    def __init__(self, name: Hashable) -> None:
        self._name = name
        self._at: dict[int, Hashable] = {}
        self._offset_of: dict[Hashable, int] = {}
        self._acknowledged: dict[Hashable, str] = {}
        """The sender of each value."""
        self._failed: dict[Hashable, str] = {}
        self._read: dict[Hashable, str] = {}
        """The first reader of each value."""
        self._read_end = -1
        """The highest offset that anybody read."""
        self.offsets: list[int] = []
        """The offsets known to hold a value, in order; complete after `conclude`."""

    def sent(self, sent: Sent, found: _Findings) -> None:
        if sent.outcome is SendOutcome.FAILED:
            for value in sent.values:
                self._failed[value] = sent.client
        elif sent.outcome is SendOutcome.ACKNOWLEDGED:
            for value in sent.values:
                self._acknowledged[value] = sent.client
            for offset, value in zip(sent.offsets, sent.values, strict=False):
                self._place(offset, value, sent.client, found)

    def polled(self, polled: Polled, found: _Findings) -> None:
        for offset, value in polled.records:
            self._place(offset, value, polled.client, found)
            if value not in self._read:
                self._read[value] = polled.client
            if offset > self._read_end:
                self._read_end = offset

    def _place(self, offset: int, value: Hashable, client: str, found: _Findings) -> None:
        there = self._at.setdefault(offset, value)
        if there != value:
            found.add(
                Anomaly.INCONSISTENT_OFFSETS,
                self._name,
                f"offset {offset} holds {there!r}, but {value!r} to {client}",
            )
        before = self._offset_of.setdefault(value, offset)
        if before != offset:
            found.add(Anomaly.DUPLICATE, self._name, f"{value!r} is at {before}, and to {client} at {offset}")

    def conclude(self, found: _Findings, *, read_to_end: bool) -> None:
        self.offsets = sorted(self._at)
        for value, client in self._failed.items():
            if value in self._read:
                found.add(
                    Anomaly.ABORTED_READ,
                    self._name,
                    f"{value!r}, whose send by {client} failed, was read by {self._read[value]}",
                )
        for value, client in self._acknowledged.items():
            if value in self._read:
                continue
            offset = self._offset_of.get(value)
            where = "" if offset is None else f" at {offset}"
            if read_to_end or (offset is not None and offset < self._read_end):
                found.add(
                    Anomaly.LOST_WRITE,
                    self._name,
                    f"{value!r}, acknowledged to {client}{where}, was never read; others were, up to "
                    f"{self._read_end}",
                )
            else:
                found.add(
                    Anomaly.UNSEEN, self._name, f"{value!r}, acknowledged to {client}{where}, was not read"
                )

    def skipped(self, low: int, high: int) -> int | None:
        """The first offset between these two, both exclusive, that holds a value."""
        position = bisect_left(self.offsets, low + 1)
        if position < len(self.offsets) and self.offsets[position] < high:
            return self.offsets[position]
        return None


def _check_order(
    history: Iterable[LogOperation], partitions: Mapping[Hashable, _Partition], found: _Findings
) -> None:
    """Check each client's answers in their order."""
    positions: dict[str, dict[Hashable, int]] = {}
    sent_to: dict[tuple[str, Hashable], int] = {}
    for operation in history:
        match operation:
            case Moved():
                held = positions.get(operation.client, {})
                if operation.partition is None:
                    held.clear()
                else:
                    held.pop(operation.partition, None)
            case Polled() if operation.records:
                held = positions.setdefault(operation.client, {})
                last = _check_poll(operation, held.get(operation.partition), partitions, found)
                held[operation.partition] = last
            case Sent(outcome=SendOutcome.ACKNOWLEDGED) if operation.offsets:
                key = operation.client, operation.partition
                sent_to[key] = _check_send(operation, sent_to.get(key), found)
            case _:
                pass


def _check_poll(
    polled: Polled, before: int | None, partitions: Mapping[Hashable, _Partition], found: _Findings
) -> int:
    """The last offset that it saw."""
    partition = partitions[polled.partition]
    first = True
    last = before
    for offset, value in polled.records:
        if last is not None:
            if offset <= last:
                kind = Anomaly.NONMONOTONIC_POLL if first else Anomaly.INT_NONMONOTONIC_POLL
                found.add(
                    kind, polled.partition, f"{polled.client} got {value!r} at {offset} after one at {last}"
                )
            elif offset > last + 1 and (missed := partition.skipped(last, offset)) is not None:
                kind = Anomaly.POLL_SKIP if first else Anomaly.INT_POLL_SKIP
                found.add(
                    kind, polled.partition, f"{polled.client} went from {last} to {offset}, past {missed}"
                )
        last, first = offset, False
    assert last is not None
    return last


def _check_send(sent: Sent, before: int | None, found: _Findings) -> int:
    """The highest offset of this producer."""
    first = True
    highest = before
    for offset, value in zip(sent.offsets, sent.values, strict=False):
        if highest is not None and offset <= highest:
            kind = Anomaly.NONMONOTONIC_SEND if first else Anomaly.INT_NONMONOTONIC_SEND
            found.add(
                kind, sent.partition, f"{sent.client} sent {value!r} to {offset}, after one to {highest}"
            )
        highest = offset if highest is None else max(highest, offset)
        first = False
    assert highest is not None
    return highest
