"""The plan of `quorate groups reset-offsets`: each partition's new offset, and where it comes from.

The rules are those of kafka-consumer-groups: an offset outside of the log becomes its nearest end, a time
after the last record becomes the log end.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from quorate.broker.admin.admin_client import AdminClient, TopicPartition
from quorate.broker.admin.groups import committed_offsets
from quorate.broker.admin.records import EARLIEST, LATEST, offsets_at, partitions_of
from quorate.cli.console.cli_errors import CommandError, UsageError

_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)


class ResetError(CommandError):
    """The reset is impossible. The message names the value and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The partitions to reset: whole topics and single partitions; nothing: all that the group committed."""

    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetTarget:
    """The new place of the offsets: exactly one of these. Times are in ms since the epoch."""

    earliest: bool = False
    latest: bool = False
    offset: int | None = None
    shift_by: int | None = None
    timestamp_ms: int | None = None
    file: Mapping[TopicPartition, int] | None = None


# The arguments of the command


def parse_topics(texts: Sequence[str]) -> Scope:
    """Parse `topic` and `topic:0,1`. Raises `UsageError`."""
    topics: list[str] = []
    partitions: list[TopicPartition] = []
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if not topic:
            raise UsageError(f"--topic: {text!r} names no topic; write topic or topic:0,1")
        if not colon:
            topics.append(topic)
            continue
        try:
            partitions += [TopicPartition(topic, _whole(each)) for each in numbers.split(",")]
        except ValueError:
            raise UsageError(f"--topic: {text!r} is not of the form topic:0,1") from None
    return Scope(topics=tuple(dict.fromkeys(topics)), partitions=tuple(dict.fromkeys(partitions)))


def parse_duration_ms(text: str) -> int:
    """Parse an ISO duration of days, hours, minutes and seconds. Raises `UsageError`."""
    found = _DURATION.fullmatch(text)
    parts = {} if found is None else found.groupdict()
    given = {name: float(value) for name, value in parts.items() if value}
    if not given or text.endswith("T"):
        raise UsageError(f"--by-duration: {text!r} is not of the form P1DT2H30M10S")
    try:
        return round(timedelta(**given) / timedelta(milliseconds=1))
    except OverflowError:
        raise UsageError(f"--by-duration: {text!r} is too long") from None


def parse_offsets_file(text: str) -> dict[TopicPartition, int]:
    """Parse lines of topic,partition,offset. Raises `UsageError` with the number of the wrong one."""
    offsets: dict[TopicPartition, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            topic, partition, offset = (each.strip().strip('"') for each in line.split(","))
            key, value = TopicPartition(topic, _whole(partition)), _whole(offset)
        except ValueError:
            raise UsageError(f"--from-file: line {number}, {line!r}, is not topic,partition,offset") from None
        if not topic or key in offsets:
            raise UsageError(f"--from-file: line {number} names {topic!r} partition {partition} twice or not")
        offsets[key] = value
    if not offsets:
        raise UsageError("--from-file: the file names no offset")
    return offsets


def _whole(text: str) -> int:
    """Parse a number that is not negative. Raises `ValueError`."""
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


# The plan


async def plan_reset(
    admin: AdminClient, group: str, scope: Scope, target: ResetTarget
) -> dict[TopicPartition, int]:
    """Return the new offset of each partition of the scope. Raises `ResetError` if one has none: nothing is
    to be reset then."""
    committed = await committed_offsets(admin, group)
    wanted = await _wanted(admin, scope, target, committed)
    starts = await offsets_at(admin, wanted, EARLIEST)
    ends = await offsets_at(admin, wanted, LATEST)
    lost = [each for each in wanted if each not in starts or each not in ends]
    if lost:
        raise ResetError(f"partition {lost[0]} has no leader now, or does not exist; nothing is reset")
    timestamp = target.timestamp_ms
    at_time = {} if timestamp is None else await offsets_at(admin, wanted, timestamp)
    return new_offsets(target, wanted, committed=committed, starts=starts, ends=ends, at_time=at_time)


async def _wanted(
    admin: AdminClient, scope: Scope, target: ResetTarget, committed: Mapping[TopicPartition, int]
) -> list[TopicPartition]:
    if target.file is not None:
        return sorted(target.file)
    if not scope.topics and not scope.partitions:
        if not committed:
            raise ResetError("the group has no committed offsets; name topics with --topic")
        return sorted(committed)
    return sorted({*await whole_topics(admin, scope), *scope.partitions})


async def whole_topics(admin: AdminClient, scope: Scope) -> list[TopicPartition]:
    """Return the partitions of the topics that are named as a whole. Raises `ResetError` if one is not
    there."""
    held = await partitions_of(admin, scope.topics)
    for topic in scope.topics:
        if topic not in held:
            raise ResetError(f"--topic: there is no topic {topic}")
    return [each for parts in held.values() for each in parts]


def new_offsets(
    target: ResetTarget,
    wanted: Iterable[TopicPartition],
    *,
    committed: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    at_time: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return each partition's new offset, within its log. Raises `ResetError` for a shift from nowhere."""
    found: dict[TopicPartition, int] = {}
    for each in wanted:
        if target.earliest:
            offset = starts[each]
        elif target.latest:
            offset = ends[each]
        elif target.offset is not None:
            offset = target.offset
        elif target.shift_by is not None:
            if each not in committed:
                raise ResetError(f"--shift-by: the group has no committed offset of {each} to shift")
            offset = committed[each] + target.shift_by
        elif target.timestamp_ms is not None:
            offset = at_time.get(each, ends[each])
        elif target.file is not None:
            offset = target.file[each]
        else:
            raise ResetError("no target")
        found[each] = min(max(offset, starts[each]), ends[each])
    return found
