"""Read records of a topic in the order of their partitions."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Final, cast

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from quorate.cli.console.cli_errors import CommandError, ExitCode
from quorate.cli.records.client_settings import Settings
from quorate.cli.records.producing import REACH_S
from quorate.cli.records.record_text import Header, Incoming

_AT_ONCE: Final = 500
_POLL_S: Final = 0.2
Place = Callable[[Consumer, TopicPartition], int]
"""Returns the offset from which a partition is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What is read."""

    topic: str
    partitions: Sequence[int]
    """Empty: all."""
    start: Place
    until_end: bool
    """Stop at the ends that the partitions have at the start."""
    most: int | None
    """Records; None: no limit."""


def at_beginning(consumer: Consumer, part: TopicPartition) -> int:
    return _ends(consumer, part)[0]


def at_end(consumer: Consumer, part: TopicPartition) -> int:
    return _ends(consumer, part)[1]


def at_offset(offset: int) -> Place:
    """A place that is bounded by what there is."""

    def place(consumer: Consumer, part: TopicPartition) -> int:
        first, end = _ends(consumer, part)
        return min(max(offset, first), end)

    return place


def before_end(count: int) -> Place:
    """The last so many offsets of each partition, which may be fewer records."""

    def place(consumer: Consumer, part: TopicPartition) -> int:
        first, end = _ends(consumer, part)
        return max(first, end - count)

    return place


def at_time(timestamp_ms: int) -> Place:
    """The first record with this time or a later one."""

    def place(consumer: Consumer, part: TopicPartition) -> int:
        asked = TopicPartition(part.topic, part.partition, timestamp_ms)
        (found,) = consumer.offsets_for_times([asked], timeout=REACH_S)
        return found.offset if found.offset >= 0 else _ends(consumer, part)[1]

    return place


def _ends(consumer: Consumer, part: TopicPartition) -> tuple[int, int]:
    """The first offset and the high watermark."""
    found = consumer.get_watermark_offsets(part, timeout=REACH_S)
    if found is None:
        raise CommandError(f"{part.topic}-{part.partition} did not answer", ExitCode.UNAVAILABLE)
    return found


def read(settings: Settings, reading: Reading) -> Generator[Incoming, None, None]:
    """Yield records as they come, until the end that `reading` names. Raises `CommandError`."""
    consumer = Consumer(
        {**settings, "group.id": "quorate-cli", "enable.auto.commit": False, "auto.offset.reset": "error",
         "enable.partition.eof": reading.until_end}
    )  # fmt: skip
    try:
        parts = _partitions(consumer, reading)
        ends = {each.partition: _ends(consumer, each)[1] for each in parts} if reading.until_end else None
        starts = [reading.start(consumer, each) for each in parts]
        consumer.assign(
            [TopicPartition(each.topic, each.partition, at) for each, at in zip(parts, starts, strict=True)]
        )
        yield from _bounded(consumer, reading, ends)
    except KafkaException as error:
        raise _failed(reading.topic, error.args[0]) from None
    finally:
        consumer.close()


def read_as_member(settings: Settings, reading: Reading, group: str) -> Generator[Incoming, None, None]:
    """Yield records as a member of a group, which commits what was yielded before the next. A group without
    offsets begins at the first record. Raises `CommandError`."""
    consumer = Consumer(
        {**settings, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest",
         "enable.partition.eof": reading.until_end}
    )  # fmt: skip
    try:
        ends = None
        if reading.until_end:
            ends = {each.partition: _ends(consumer, each)[1] for each in _partitions(consumer, reading)}
        consumer.subscribe([reading.topic])
        yield from _bounded(consumer, reading, ends, commits=True)
    except KafkaException as error:
        raise _failed(reading.topic, error.args[0]) from None
    finally:
        consumer.close()


def _bounded(
    consumer: Consumer, reading: Reading, ends: dict[int, int] | None, *, commits: bool = False
) -> Generator[Incoming, None, None]:
    left = reading.most
    done: set[int] = set()
    while left != 0 and not (ends is not None and _all_in(consumer.assignment(), done)):
        messages = consumer.consume(_AT_ONCE if left is None else min(left, _AT_ONCE), timeout=_POLL_S)
        taken: dict[int, int] = {}
        for message in messages:
            error, partition = message.error(), message.partition() or 0
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                # What compaction removed and the marks of transactions are behind it, too.
                done.add(partition)
                continue
            if error is not None:
                raise _failed(reading.topic, error)
            record = incoming(message)
            if ends is not None and record.offset + 1 >= ends[partition]:
                done.add(partition)
                if record.offset >= ends[partition]:
                    continue
            yield record
            taken[partition] = record.offset + 1
            if left is not None:
                left -= 1
        if commits and taken:
            consumer.commit(
                offsets=[TopicPartition(reading.topic, part, offset) for part, offset in taken.items()],
                asynchronous=False,
            )


def _all_in(assigned: Sequence[TopicPartition], done: set[int]) -> bool:
    return len(assigned) > 0 and all(each.partition in done for each in assigned)


def _partitions(consumer: Consumer, reading: Reading) -> list[TopicPartition]:
    try:
        found = consumer.list_topics(reading.topic, timeout=REACH_S).topics[reading.topic]
    except KafkaException as error:
        raise CommandError(
            f"no broker is reached: {error.args[0].str()}; check --bootstrap-server and --command-config",
            ExitCode.UNAVAILABLE,
        ) from None
    if found.error is not None:
        if found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise CommandError(f"there is no topic {reading.topic}; quorate topics list shows those that are")
        raise CommandError(f"{reading.topic}: {found.error.str()}")
    missing = set(reading.partitions) - found.partitions.keys()
    if missing:
        raise CommandError(
            f"{reading.topic} has no partition {min(missing)}; it has 0 to {len(found.partitions) - 1}",
            ExitCode.USAGE,
        )
    return [TopicPartition(reading.topic, each) for each in sorted(reading.partitions or found.partitions)]


def incoming(message: Message) -> Incoming:
    kind, timestamp_ms = message.timestamp()
    return Incoming(
        topic=message.topic() or "",
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        timestamp_ms=None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        key=message.key(),
        value=message.value(),
        headers=cast("list[Header]", message.headers() or []),
    )


def _failed(topic: str, error: KafkaError) -> CommandError:
    return CommandError(f"{topic}: {error.str()}")
