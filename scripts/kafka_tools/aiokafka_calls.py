"""aiokafka's AIOKafkaAdminClient."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from python_clients import Calls, Given, must
from rows import Row

TOPIC = "aiokafka"
GROUP = "aiokafka-group"
PLACE = TopicPartition(TOPIC, 0)


def calls(given: Given) -> list[Row]:
    made = Calls("aiokafka")
    loop = asyncio.new_event_loop()

    def run(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        return loop.run_until_complete(asyncio.wait_for(work(), 20))

    async def started() -> AIOKafkaAdminClient:
        admin = AIOKafkaAdminClient(bootstrap_servers=given["bootstrap"])
        await admin.start()
        return admin

    admin = run(started)
    try:
        everything(made, run, admin, given)
    finally:
        run(admin.close)
        loop.close()
    return made.rows


async def fill(bootstrap: str) -> None:
    """Write ten records, and have a group read one."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all")
    await producer.start()
    for number in range(10):
        await producer.send_and_wait(TOPIC, b"%d" % number, partition=0)
    await producer.stop()
    consumer = AIOKafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    await consumer.getone()
    await consumer.commit()
    await consumer.stop()


def everything(made: Calls, run: Callable[..., Any], admin: AIOKafkaAdminClient, given: Given) -> None:
    with made.of("topics"):
        new = NewTopic(TOPIC, 1, 3, topic_configs={"retention.ms": "600000"})
        made.passes("create_topics", "no error", lambda: _no_error(run(lambda: admin.create_topics([new]))))
        run(lambda: fill(given["bootstrap"]))
        made.shows("list_topics", "the topic", repr(TOPIC), lambda: run(admin.list_topics))
        made.passes(
            "create_partitions",
            "no error",
            lambda: _no_error(run(lambda: admin.create_partitions({TOPIC: NewPartitions(2)}))),
        )
        made.soon(
            "describe_topics",
            "two partitions",
            lambda: must(len(run(lambda: admin.describe_topics([TOPIC]))[0]["partitions"]) == 2, "not two"),
        )

    def gone() -> None:
        run(lambda: admin.create_topics([NewTopic("aiokafka-gone", 1, 1)]))
        _no_error(run(lambda: admin.delete_topics(["aiokafka-gone"])))

    with made.of("topics"):
        made.passes("delete_topics", "no error", gone)
    with made.of("configs"):
        topic = ConfigResource(ConfigResourceType.TOPIC, TOPIC)

        value = "'retention.ms', config_value='{}'"

        def described() -> Any:
            return run(lambda: admin.describe_configs([topic]))

        made.shows("describe_configs", "the topic's retention.ms", value.format(600000), described)
        changed = ConfigResource(ConfigResourceType.TOPIC, TOPIC, configs={"retention.ms": "700000"})
        made.passes(
            "alter_configs", "no error", lambda: _no_error(run(lambda: admin.alter_configs([changed])))
        )
        made.shows("describe_configs afterwards", "the new value", value.format(700000), described)
    with made.of("groups"):
        made.passes(
            "find_coordinator",
            "a broker",
            lambda: must(run(lambda: admin.find_coordinator(GROUP)) in (1, 2, 3), "none"),
        )
        made.shows("list_consumer_groups", "the group", GROUP, lambda: run(admin.list_consumer_groups))
        made.shows(
            "describe_consumer_groups",
            "it is empty",
            "Empty",
            lambda: run(lambda: admin.describe_consumer_groups([GROUP])),
        )
        made.passes(
            "list_consumer_group_offsets",
            "what was committed",
            lambda: must(run(lambda: admin.list_consumer_group_offsets(GROUP))[PLACE].offset == 1, "another"),
        )
    with made.of("records"):
        made.passes(
            "delete_records",
            "low watermark 4",
            lambda: must(
                run(lambda: admin.delete_records({PLACE: RecordsToDelete(4)}))[PLACE] == 4, "another"
            ),
        )
    with made.of("cluster"):
        made.passes(
            "describe_cluster",
            "the id and three brokers",
            lambda: must(len(run(admin.describe_cluster)["brokers"]) == 3, run(admin.describe_cluster)),
        )


def _no_error(found: Any) -> None:
    for answer in found if isinstance(found, list) else [found]:
        shown = answer.to_object() if hasattr(answer, "to_object") else {"answer": str(answer)}
        for codes in _codes(shown):
            must(codes == 0, shown)


def _codes(found: Any) -> list[int]:
    """Return every error code, at any depth."""
    if isinstance(found, dict):
        own = [value for key, value in found.items() if key == "error_code"]
        return own + [code for value in found.values() for code in _codes(value)]
    if isinstance(found, list | tuple):
        return [code for each in found for code in _codes(each)]
    return []
