"""Stock clients in a process of their own. Usage: stock_clients.py JSON (see `Arguments`)

A producer with acks=all and idempotence, and members of a group, all with their own defaults beside. They
write down what they were told (`ledger.py`). A line on the standard input ends the producer, after what it
has sent is settled, and is answered with a line; the members go on until the input ends.
"""

import asyncio
import dataclasses
import json
import sys
import threading
import time
from typing import TextIO

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka import TopicPartition as Assigned

COMMIT_SECONDS = 1.0
SETTLED_WITHIN_SECONDS = 180.0
NEVER_MS = 2**31 - 1
FILLING = b"." * 80


@dataclasses.dataclass(frozen=True, slots=True)
class Arguments:
    kind: str
    """librdkafka or aiokafka"""
    bootstrap: str
    topic: str
    partitions: int
    group: str
    members: int
    per_second: float
    """Records for each partition."""
    output: str


class Events:
    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._lock = threading.Lock()

    def add(self, *event: object) -> None:
        line = json.dumps([*event, time.monotonic()])
        with self._lock:
            print(line, file=self._file, flush=True)


def value_of(producer: str, number: int) -> bytes:
    return f"{producer} {number} ".encode() + FILLING


def sent_of(value: bytes) -> tuple[str, int]:
    producer, number, _ = value.split(b" ", 2)
    return producer.decode(), int(number)


class Librdkafka:
    def __init__(self, arguments: Arguments, events: Events) -> None:
        self._arguments = arguments
        self._events = events
        self._producing = threading.Event()
        self._reading = threading.Event()
        self._threads = [threading.Thread(target=self._produce)] + [
            threading.Thread(target=self._consume, args=(f"librdkafka-{number}",))
            for number in range(arguments.members)
        ]

    def run(self) -> None:
        self._producing.set()
        self._reading.set()
        for thread in self._threads:
            thread.start()
        sys.stdin.readline()
        self._producing.clear()
        self._threads[0].join()
        print("settled", flush=True)
        sys.stdin.read()
        self._reading.clear()
        for thread in self._threads:
            thread.join()

    def _produce(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._arguments.bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                # No record is given up: each is acknowledged at last.
                "message.timeout.ms": NEVER_MS,
                "log_level": 0,
            }
        )
        pause, number = 1 / self._arguments.per_second, 0
        while self._producing.is_set():
            number += 1
            for partition in range(self._arguments.partitions):
                producer.produce(
                    self._arguments.topic,
                    value_of("librdkafka", number),
                    partition=partition,
                    on_delivery=self._settled(number),
                )
            producer.poll(pause)
            until = time.monotonic() + pause
            while (left := until - time.monotonic()) > 0:
                producer.poll(left)
        producer.flush(SETTLED_WITHIN_SECONDS)

    def _settled(self, number: int):  # type: ignore[no-untyped-def]
        def settled(error: object, message: Message) -> None:
            if error is None:
                offset = message.offset()
                told = -1 if offset is None or offset < 0 else offset
                self._events.add("a", "librdkafka", message.partition(), number, told)
            else:
                self._events.add("u", "librdkafka", message.partition(), number)
                print(f"given up: {error}", file=sys.stderr, flush=True)

        return settled

    def _consume(self, member: str) -> None:
        def assigned(_: Consumer, partitions: list[Assigned]) -> None:
            self._events.add("g", member, [each.partition for each in partitions])

        def committed(error: object, partitions: list[Assigned]) -> None:
            for each in partitions:
                if each.offset >= 0:
                    well = error is None and each.error is None
                    self._events.add("c", member, each.partition, each.offset, well)

        consumer = Consumer(
            {
                "bootstrap.servers": self._arguments.bootstrap,
                "group.id": self._arguments.group,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": int(COMMIT_SECONDS * 1000),
                "on_commit": committed,
                "log_level": 0,
            }
        )
        consumer.subscribe([self._arguments.topic], on_assign=assigned)
        while self._reading.is_set():
            for message in consumer.consume(100, timeout=0.1):
                value = message.value()
                if message.error() is None and value is not None:
                    self._events.add("r", member, message.partition(), message.offset(), *sent_of(value))
                else:
                    print(f"{member}: {message.error()}", file=sys.stderr, flush=True)
        consumer.close()


class Aiokafka:
    def __init__(self, arguments: Arguments, events: Events) -> None:
        self._arguments = arguments
        self._events = events
        self._producing = True
        self._reading = True

    def run(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        members = [
            asyncio.create_task(self._consume(f"aiokafka-{number}"))
            for number in range(self._arguments.members)
        ]
        producing = asyncio.create_task(self._produce())
        await asyncio.to_thread(sys.stdin.readline)
        self._producing = False
        await producing
        print("settled", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        self._reading = False
        await asyncio.gather(*members)

    async def _produce(self) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=self._arguments.bootstrap, enable_idempotence=True)
        await producer.start()
        await asyncio.gather(
            *(self._send(producer, partition) for partition in range(self._arguments.partitions))
        )
        await asyncio.wait_for(producer.stop(), SETTLED_WITHIN_SECONDS)

    async def _send(self, producer: AIOKafkaProducer, partition: int) -> None:
        number = 0
        due = time.monotonic()
        while self._producing:
            number += 1
            try:
                future = await producer.send(
                    self._arguments.topic, value_of("aiokafka", number), partition=partition
                )
            except KafkaError as error:
                self._given_up(partition, number, error)
            else:
                future.add_done_callback(self._settled(partition, number))
            due = max(due + 1 / self._arguments.per_second, time.monotonic() - 1)
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    def _given_up(self, partition: int, number: int, error: object) -> None:
        self._events.add("u", "aiokafka", partition, number)
        print(f"given up: {error!r}", file=sys.stderr, flush=True)

    def _settled(self, partition: int, number: int):  # type: ignore[no-untyped-def]
        def settled(future: asyncio.Future) -> None:  # type: ignore[type-arg]
            if future.cancelled() or future.exception() is not None:
                self._given_up(partition, number, "cancelled" if future.cancelled() else future.exception())
            else:
                self._events.add("a", "aiokafka", partition, number, future.result().offset)

        return settled

    async def _consume(self, member: str) -> None:
        events = self._events

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_revoked(self, revoked: object) -> None: ...

            def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
                events.add("g", member, sorted(each.partition for each in assigned))

        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._arguments.bootstrap,
            group_id=self._arguments.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        consumer.subscribe([self._arguments.topic], listener=Listener())
        ends: dict[TopicPartition, int] = {}
        committing: asyncio.Task[None] | None = None
        commit_at = time.monotonic() + COMMIT_SECONDS
        while self._reading:
            try:
                found = await consumer.getmany(timeout_ms=100)
            except KafkaError as error:
                print(f"{member}: {error!r}", file=sys.stderr, flush=True)
                continue
            for partition, records in found.items():
                for each in records:
                    events.add("r", member, each.partition, each.offset, *sent_of(each.value))
                ends[partition] = records[-1].offset + 1
            if time.monotonic() >= commit_at and ends and (committing is None or committing.done()):
                held = {each: end for each, end in ends.items() if each in consumer.assignment()}
                ends.clear()
                commit_at = time.monotonic() + COMMIT_SECONDS
                committing = asyncio.create_task(self._commit(consumer, member, held))
        await consumer.stop()

    async def _commit(self, consumer: AIOKafkaConsumer, member: str, ends: dict[TopicPartition, int]) -> None:
        try:
            if ends:
                await consumer.commit(ends)
            well = True
        except KafkaError as error:
            print(f"{member}: {error!r}", file=sys.stderr, flush=True)
            well = False
        for each, end in ends.items():
            self._events.add("c", member, each.partition, end, well)


def main() -> None:
    arguments = Arguments(**json.loads(sys.argv[1]))
    with open(arguments.output, "w") as file:
        {"librdkafka": Librdkafka, "aiokafka": Aiokafka}[arguments.kind](arguments, Events(file)).run()


if __name__ == "__main__":
    main()
