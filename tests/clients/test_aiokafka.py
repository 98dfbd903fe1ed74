"""aiokafka through the death of a leader."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.clients.killable import ACK_TIMEOUT_MS, Killable, check, values

pytestmark = pytest.mark.clients


@pytest.mark.slow
def test_nothing_is_lost_or_doubled_through_a_leaders_death(killable: Killable) -> None:
    topic = "aiokafka"

    async def create() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=killable.bootstrap)
        await admin.start()
        await admin.create_topics([NewTopic(topic, 1, 3)])
        await admin.close()

    async def produce(trouble) -> list[bytes]:
        producer = AIOKafkaProducer(
            bootstrap_servers=killable.bootstrap, acks="all", enable_idempotence=True,
            request_timeout_ms=ACK_TIMEOUT_MS, retry_backoff_ms=50,
        )  # fmt: skip
        await producer.start()
        sent, futures = [], []
        for value in values(trouble):
            if value:
                futures.append(await producer.send(topic, value))
                sent.append(value)
            else:
                await asyncio.sleep(0.002)
        offsets = [(await asyncio.wait_for(future, 60)).offset for future in futures]
        await producer.stop()
        assert offsets == list(range(len(sent)))
        return sent

    async def consume(count: int) -> list[bytes]:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=killable.bootstrap, group_id="aiokafka-group",
            auto_offset_reset="earliest", retry_backoff_ms=100,
        )  # fmt: skip
        await consumer.start()
        received: list[bytes] = []
        try:
            while len(received) < count:
                record = await asyncio.wait_for(consumer.getone(), 30)
                received.append(record.value or b"")
        finally:
            await consumer.stop()
        return received

    asyncio.run(create())
    with killable.trouble(topic) as trouble:
        sent = asyncio.run(produce(trouble))
    check(asyncio.run(consume(len(sent))), sent, trouble)
