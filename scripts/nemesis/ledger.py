"""Stock producers' acknowledgements and a group's records, put together: is every acknowledged record there,
once and in order, and did the group read all of them?

Each client writes events, a JSON array a line. Times are seconds of the machine's monotonic clock.

    ["a", producer, partition, number, offset or -1, at]   acknowledged
    ["u", producer, partition, number, at]                 the client gave up: it may be there or not
    ["g", member, [partition, ...], at]                    the member was assigned these, and no others
    ["r", member, partition, offset, producer, number, at] read
    ["c", member, partition, offset, whether it was acknowledged, at]   an offset committed
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple


class Sent(NamedTuple):
    """A record's value: who sent it, and its number among the producer's records of the partition."""

    producer: str
    number: int


@dataclass(slots=True)
class Partition:
    """What clients know of one partition."""

    log: dict[int, Sent] = field(default_factory=dict)
    """The records by offset, as acknowledged or read."""
    acknowledged: set[Sent] = field(default_factory=set)
    given_up: set[Sent] = field(default_factory=set)
    acknowledged_end: int = 0
    acknowledged_at: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """The moments of acknowledgements, by producer."""
    read: set[int] = field(default_factory=set)
    """The offsets from `read_end` on that the group has read."""
    read_end: int = 0
    """The group has read every offset below."""
    advanced_at: list[float] = field(default_factory=list)
    """The moments when the group read a record for the first time."""
    starts: list[tuple[float, str, int]] = field(default_factory=list)
    """(assigned at, member, the first offset that it then read)."""
    commits: list[tuple[float, int]] = field(default_factory=list)
    """(acknowledged at, offset)."""
    doubtful_commits: set[int] = field(default_factory=set)
    """Offsets whose commit was not acknowledged: it may come late."""


@dataclass(slots=True)
class Ledger:
    partitions: dict[int, Partition] = field(default_factory=lambda: defaultdict(Partition))
    problems: list[str] = field(default_factory=list)
    _next: dict[tuple[str, int], int] = field(default_factory=dict)
    """The offset that a member has to read next, after its first of an assignment."""
    _assigned: dict[str, tuple[float, frozenset[int]]] = field(default_factory=dict)

    def take(self, event: Sequence[object]) -> None:
        match event:
            case ["a", str(producer), int(partition), int(number), int(offset), float(at)]:
                of = self.partitions[partition]
                of.acknowledged.add(Sent(producer, number))
                of.acknowledged_at[producer].append(at)
                if offset >= 0:
                    of.acknowledged_end = max(of.acknowledged_end, offset + 1)
                    self._place(partition, offset, Sent(producer, number), "acknowledged")
            case ["u", str(producer), int(partition), int(number), float()]:
                self.partitions[partition].given_up.add(Sent(producer, number))
            case ["g", str(member), [*partitions], float(at)]:
                self._assigned[member] = (at, frozenset(int(str(each)) for each in partitions))
                for key in [key for key in self._next if key[0] == member]:
                    del self._next[key]
            case [
                "r", str(member), int(partition), int(offset), str(producer), int(number), float(at)
            ]:  # fmt: skip
                self._read(member, partition, offset, at)
                self._place(partition, offset, Sent(producer, number), f"read by {member}")
            case ["c", str(), int(partition), int(offset), bool(acknowledged), float(at)]:
                of = self.partitions[partition]
                if acknowledged:
                    of.commits.append((at, offset))
                else:
                    of.doubtful_commits.add(offset)
            case other:
                raise ValueError(f"no event: {other!r}")

    def _place(self, partition: int, offset: int, sent: Sent, how: str) -> None:
        before = self.partitions[partition].log.setdefault(offset, sent)
        if before != sent:
            self.problems.append(f"partition {partition}, offset {offset}: {before}, and {how}: {sent}")

    def _read(self, member: str, partition: int, offset: int, at: float) -> None:
        of = self.partitions[partition]
        assigned_at, assigned = self._assigned.get(member, (0.0, frozenset()))
        if partition not in assigned:
            self.problems.append(f"{member} reads partition {partition}, which it was not assigned")
        expected = self._next.get((member, partition))
        if expected is None:
            of.starts.append((assigned_at, member, offset))
        elif offset != expected:
            self.problems.append(f"{member} reads {offset} of partition {partition} after {expected - 1}")
        self._next[member, partition] = offset + 1
        if offset >= of.read_end and offset not in of.read:
            of.read.add(offset)
            of.advanced_at.append(at)
            while of.read_end in of.read:
                of.read.remove(of.read_end)
                of.read_end += 1

    def unread(self, ends: Mapping[int, int]) -> dict[int, int]:
        """Return the first offset below the given end that the group has not read, by partition."""
        return {
            partition: self.partitions[partition].read_end
            for partition, end in ends.items()
            if self.partitions[partition].read_end < end
        }

    def check(self, logs: Mapping[int, Sequence[Sent]]) -> list[str]:
        """Return all problems. `logs` is each partition's content from offset 0 on, at the end."""
        found = list(self.problems)
        for partition, log in logs.items():
            found += self._check_log(partition, log)
            found += self._check_starts(partition)
        return found

    def _check_log(self, partition: int, log: Sequence[Sent]) -> list[str]:
        of, found = self.partitions[partition], []
        for offset, sent in of.log.items():
            if offset >= len(log) or log[offset] != sent:
                there = log[offset] if offset < len(log) else "nothing"
                found.append(f"partition {partition}, offset {offset}: told {sent}, there is {there}")
        if lost := of.acknowledged.difference(log):
            found.append(f"partition {partition}: acknowledged and lost: {sorted(lost)[:10]} of {len(lost)}")
        if of.read_end < len(log):
            found.append(f"partition {partition}: the group skipped offset {of.read_end} of {len(log)}")
        last: dict[str, int] = {}
        for offset, sent in enumerate(log):
            before = last.get(sent.producer, 0)
            if sent.number <= before:
                found.append(f"partition {partition}, offset {offset}: {sent} after number {before}")
            for number in range(before + 1, sent.number):
                if Sent(sent.producer, number) not in of.given_up:
                    found.append(f"partition {partition}: number {number} of {sent.producer} is missing")
            last[sent.producer] = sent.number
        return found

    def _check_starts(self, partition: int) -> list[str]:
        """A member goes on at or behind the last commit that was acknowledged before it was assigned. It need
        not be the furthest: librdkafka keeps commits while no coordinator answers, and sends older ones last.
        """
        of, found = self.partitions[partition], []
        commits = sorted(of.commits, key=lambda commit: commit[0])
        for assigned_at, member, start in of.starts:
            before = [offset for at, offset in commits if at < assigned_at]
            committed = before[-1] if before else 0
            if start < committed and start not in of.doubtful_commits:
                found.append(
                    f"{member} starts at {start} of partition {partition}, though {committed} was committed"
                )
        return found


class Tail:
    """Reads what a client has appended to its file since."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._position = 0
        self._rest = b""

    def events(self) -> Iterable[Sequence[object]]:
        if not self._file.exists():
            return
        with self._file.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        self._position += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            yield json.loads(line)


def longest_gap(moments: Sequence[float], *, since: float, until: float) -> float:
    """Return the longest time without one of these moments that touches the time from `since` to `until`. It
    ends at `until` if none comes after it."""
    before = max((at for at in moments if at <= since), default=since)
    after = min((at for at in moments if at >= until), default=until)
    inside = sorted({before, after, *(at for at in moments if since < at < until)})
    return max((late - early for early, late in pairwise(inside)), default=0.0)
