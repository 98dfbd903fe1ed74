"""Rates of brokers and topics between two samples, and a line for each thing that happened."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from quorate.cli.top.sampling import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What producers sent to a broker's partitions or a topic's. None: nobody said."""

    name: str
    records_per_s: float | None
    bytes_per_s: float | None
    """As stored by leaders. Deletion by retention takes away."""
    partitions: int
    """Of a broker: those that it leads."""
    not_in_sync: int
    """Partitions that lack a replica in their ISR. Of a broker: those that lack its replica."""
    without_leader: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One moment, as `quorate top` shows it. Topics and groups with the largest first."""

    leader: int | None
    epoch: int | None
    voters_behind: int | None
    """Records that the last voter lacks."""
    brokers: tuple[Traffic, ...]
    fenced: tuple[int, ...]
    topics: tuple[Traffic, ...]
    groups: tuple[tuple[str, int], ...]
    """Each with the records that it has not committed yet."""
    moving: int
    happened: tuple[str, ...]
    """Between the samples, in no order."""


@dataclass(slots=True)
class _Sum:
    records: float = 0.0
    size: float = 0.0
    counted: int = 0
    sized: int = 0
    partitions: int = 0
    not_in_sync: int = 0
    without_leader: int = 0

    def traffic(self, name: str, seconds: float) -> Traffic:
        return Traffic(
            name=name,
            records_per_s=self.records / seconds if self.counted else None,
            bytes_per_s=self.size / seconds if self.sized else None,
            partitions=self.partitions,
            not_in_sync=self.not_in_sync,
            without_leader=self.without_leader,
        )


def board_of(before: Sample, now: Sample) -> Board:
    """Compare two samples. Rates are of the time between them."""
    seconds = max(now.at_s - before.at_s, 1e-3)
    brokers: dict[int, _Sum] = {each: _Sum() for each in now.racks}
    topics: dict[str, _Sum] = defaultdict(_Sum)
    for key, part in now.partitions.items():
        topic = topics[key.topic]
        topic.partitions += 1
        topic.not_in_sync += len(part.isr) < len(part.replicas)
        topic.without_leader += part.leader is None
        for each in part.replicas:
            if each in brokers and each not in part.isr:
                brokers[each].not_in_sync += 1
        sums = [topic]
        if part.leader is not None and part.leader in brokers:
            leading = brokers[part.leader]
            leading.partitions += 1
            sums.append(leading)
        earlier = before.partitions.get(key)
        for total in sums:
            if earlier is not None and earlier.end is not None and part.end is not None:
                # A topic that was deleted and created again begins at 0.
                total.records += max(part.end - earlier.end, 0)
                total.counted += 1
            if earlier is not None and earlier.size is not None and part.size is not None:
                total.size += max(part.size - earlier.size, 0) if part.leader == earlier.leader else 0
                total.sized += 1
    quorum = now.quorum
    ends = [each.log_end_offset or 0 for each in quorum.voters] if quorum else []
    return Board(
        leader=None if quorum is None else int(quorum.leader),
        epoch=None if quorum is None else int(quorum.epoch),
        voters_behind=max(ends) - min(ends) if ends else None,
        brokers=tuple(brokers[each].traffic(str(each), seconds) for each in sorted(brokers)),
        fenced=tuple(sorted(now.fenced)),
        topics=tuple(sorted((each.traffic(name, seconds) for name, each in topics.items()), key=_rank)),
        groups=tuple(sorted(now.lags.items(), key=lambda each: (-each[1], each[0]))),
        moving=len(now.moving),
        happened=tuple(_happened(before, now)),
    )


def _rank(topic: Traffic) -> tuple[float, float, float, str]:
    return -topic.without_leader, -(topic.bytes_per_s or 0), -(topic.records_per_s or 0), topic.name


def _happened(before: Sample, now: Sample) -> Iterator[str]:
    if before.quorum and now.quorum and before.quorum.leader != now.quorum.leader:
        yield f"node {now.quorum.leader} leads the quorum in place of {before.quorum.leader}"
    for each in sorted(now.fenced & before.racks.keys()):
        yield f"broker {each} is fenced"
    for each in sorted(now.racks.keys() - before.racks.keys()):
        yield f"broker {each} is live"
    for topic in sorted({key.topic for key in now.partitions} - {key.topic for key in before.partitions}):
        yield f"topic {topic} was created"
    for topic in sorted({key.topic for key in before.partitions} - {key.topic for key in now.partitions}):
        yield f"topic {topic} was deleted"
    for key, part in sorted(now.partitions.items()):
        earlier = before.partitions.get(key)
        if earlier is None:
            continue
        if earlier.leader != part.leader:
            yield f"{key} is led by {'nobody' if part.leader is None else f'broker {part.leader}'}"
        left, joined = sorted({*earlier.isr} - {*part.isr}), sorted({*part.isr} - {*earlier.isr})
        yield from (f"broker {each} left the ISR of {key}" for each in left)
        yield from (f"broker {each} joined the ISR of {key}" for each in joined)
    for key in sorted(now.moving - before.moving):
        yield f"{key} began to move"
    for key in sorted(before.moving - now.moving):
        yield f"{key} has moved"
