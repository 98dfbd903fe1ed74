"""Send records from a stream of lines."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import BinaryIO, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from quorate.cli.console.cli_errors import CommandError, ExitCode
from quorate.cli.records.client_settings import Settings
from quorate.cli.records.flow import Flow
from quorate.cli.records.record_text import Header, Outgoing, RecordTextError

REACH_S: Final = 10.0
_UNREACHED: Final = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT)


def lines_of(stream: BinaryIO, parse: Callable[[bytes], Outgoing]) -> Iterable[Outgoing]:
    """Yield the records of a stream's lines. Raises `RecordTextError` with the number of the line."""
    for number, line in enumerate(stream, start=1):
        try:
            yield parse(line.removesuffix(b"\n"))
        except RecordTextError as error:
            raise RecordTextError(f"line {number}: {error}") from None


def produce(
    records: Iterable[Outgoing],
    settings: Settings,
    topic: str,
    flow: Flow,
    *,
    acks: str,
    compression: str,
    partition: int | None,
    headers: Sequence[Header],
) -> None:
    """Send records, and return when all are acknowledged. `partition`, `headers`: of those that name none.
    Raises `CommandError`, also if `records` does: what came before is sent."""
    producer = Producer(
        {
            **settings,
            "acks": acks,
            "compression.type": compression,
            # So that a key's partition is that of Java's clients.
            "partitioner": "murmur2_random",
            "linger.ms": 5,
            "enable.idempotence": acks == "all",
            "allow.auto.create.topics": False,
        }
    )
    check_topic(producer, topic)
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            refused.append(error)
        else:
            flow.add(message.key(), message.value())

    try:
        for record in records:
            _send(producer, topic, _with(record, partition, headers), delivered)
            if refused:
                break
    finally:
        # What was taken from the input is sent, whatever ended it.
        while producer.flush(1.0) and not refused:
            pass
    if refused:
        raise CommandError(f"{topic}: a record is refused: {refused[0].str()}", _code_of(refused[0]))


def _with(record: Outgoing, partition: int | None, headers: Sequence[Header]) -> Outgoing:
    named = partition if record.partition is None else record.partition
    return replace(record, partition=named, headers=[*headers, *record.headers])


def _send(
    producer: Producer,
    topic: str,
    record: Outgoing,
    delivered: Callable[[KafkaError | None, Message], None],
) -> None:
    while True:
        try:
            producer.produce(
                topic,
                record.value,
                record.key,
                -1 if record.partition is None else record.partition,
                on_delivery=delivered,
                timestamp=record.timestamp_ms or 0,
                headers=list(record.headers),
            )
        except BufferError:
            producer.poll(0.1)
        except KafkaException as error:
            raise CommandError(f"{topic}: {error.args[0].str()}", _code_of(error.args[0])) from None
        else:
            producer.poll(0)
            return


def check_topic(client: Producer, topic: str) -> None:
    """Raise `CommandError` if nobody is reached, or there is no such topic."""
    try:
        found = client.list_topics(topic, timeout=REACH_S).topics[topic]
    except KafkaException as error:
        raise CommandError(
            f"no broker is reached: {error.args[0].str()}; check --bootstrap-server and --command-config",
            ExitCode.UNAVAILABLE,
        ) from None
    if found.error is None:
        return
    if found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        raise CommandError(f"there is no topic {topic}; make it by quorate topics create -t {topic}")
    raise CommandError(f"{topic}: {found.error.str()}")


def _code_of(error: KafkaError) -> ExitCode:
    return ExitCode.UNAVAILABLE if error.code() in _UNREACHED else ExitCode.FAILED
