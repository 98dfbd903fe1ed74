"""aiokafka through the death of a leader."""

import asyncio
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

pytestmark = pytest.mark.clients


def test_nothing_is_lost_or_doubled_through_a_leaders_death(
    killable,
    values: list[bytes],
    check: Callable[..., None],
) -> None:
    topic = "aiokafka"

    async def run() -> tuple[list[int], list[bytes]]:
        admin = AIOKafkaAdminClient(bootstrap_servers=killable.bootstrap)
        await admin.start()
        await admin.create_topics([NewTopic(topic, 1, 3)])
        await admin.close()
        producer = AIOKafkaProducer(
            bootstrap_servers=killable.bootstrap, acks="all", enable_idempotence=True, max_batch_size=400,
            request_timeout_ms=5000, retry_backoff_ms=50,
        )  # fmt: skip
        await producer.start()
        futures = []
        for number, value in enumerate(values):
            if number == len(values) // 2:
                await asyncio.to_thread(killable.kill_leader, topic)
            futures.append(await producer.send(topic, value))
        offsets = [(await asyncio.wait_for(future, 60)).offset for future in futures]
        await producer.stop()
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=killable.bootstrap, group_id="aiokafka-group",
            auto_offset_reset="earliest", retry_backoff_ms=100,
        )  # fmt: skip
        await consumer.start()
        received: list[bytes] = []
        try:
            while len(received) < len(values):
                record = await asyncio.wait_for(consumer.getone(), 30)
                received.append(record.value or b"")
        finally:
            await consumer.stop()
        return offsets, received

    offsets, received = asyncio.run(run())
    assert offsets == list(range(len(values)))
    check(received, values, once=True)
