"""Settings that change while brokers run take effect on their partitions, in Kafka's order of precedence."""

from typing import Any

import pytest
import trio

from quorate.broker.metadata.metadata_records import Config, ConfigType
from quorate.broker.settings.all_keys import BROKER_KEYS, DYNAMIC_KEYS
from quorate.broker.settings.config_key import Effect
from quorate.broker.settings.replication_config import ReplicationConfig
from quorate.error_code import ErrorCode

DEFAULTS = sorted(
    name for name in DYNAMIC_KEYS.keys() & BROKER_KEYS.keys() if DYNAMIC_KEYS[name].effect is Effect.EFFECTIVE
)
VALUES = {
    "compression.gzip.level": ("2", "3", "4"),
    "compression.lz4.level": ("12", "13", "14"),
    "compression.type": ("lz4", "zstd", "snappy"),
    "compression.zstd.level": ("5", "6", "7"),
    "log.cleaner.min.cleanable.ratio": ("0.1", "0.2", "0.3"),
    "log.cleanup.policy": ("compact", "delete", "delete,compact"),
    "log.message.timestamp.type": ("LogAppendTime", "CreateTime", "LogAppendTime"),
    "unclean.leader.election.enable": ("true", "false", "true"),
}
"""The values for all brokers, for the broker and for the topic. By default they are `NUMBERS`."""
NUMBERS = ("2000001", "2000002", "2000003")


def commit(cluster: Any, of: ConfigType, name: str, key: str, value: str | None) -> None:
    cluster.controller.commit(Config(resource_type=of, resource_name=name, name=key, value=value))


def values_in_force(broker: Any) -> dict[str, object]:
    """Return the values that the partition goes by, by the broker's key."""
    partition = broker.partition()
    rules, held = partition.rules, partition.log._config
    topic = broker.manager._parts.storage.upkeep._metadata.config("t")
    return {
        "compression.gzip.level": rules.level,
        "compression.lz4.level": rules.level,
        "compression.type": None if rules.codec is None else rules.codec.name.lower(),
        "compression.zstd.level": rules.level,
        "log.cleanup.policy": (rules.keys_needed, topic.cleanup_delete),
        "log.cleaner.delete.retention.ms": topic.delete_retention_ms,
        "log.cleaner.max.compaction.lag.ms": topic.max_compaction_lag_ms,
        "log.cleaner.min.cleanable.ratio": str(topic.min_cleanable_dirty_ratio),
        "log.cleaner.min.compaction.lag.ms": topic.min_compaction_lag_ms,
        "log.index.interval.bytes": held.index_interval_bytes,
        "log.index.size.max.bytes": held.segment_index_bytes,
        "log.message.timestamp.after.max.ms": rules.after_max_ms,
        "log.message.timestamp.before.max.ms": rules.before_max_ms,
        "log.message.timestamp.type": rules.log_append_time,
        "log.retention.bytes": topic.retention_bytes,
        "log.retention.ms": topic.retention_ms,
        "log.roll.ms": held.segment_ms,
        "log.segment.bytes": held.segment_bytes,
        "message.max.bytes": rules.max_message_bytes,
        "min.insync.replicas": partition.min_isr,
    }


FORMS: dict[str, object] = {
    "compact": (True, False), "delete": (False, True), "delete,compact": (True, True),
    "LogAppendTime": True, "CreateTime": False,
}  # fmt: skip


def form(value: str) -> object:
    return FORMS.get(value, int(value) if value.isdigit() else value)


@pytest.mark.bug("KAFKA-13417")
@pytest.mark.parametrize("key", [key for key in DEFAULTS if key != "unclean.leader.election.enable"])
async def test_a_default_of_topics_changes_in_a_running_broker(
    make_cluster: Any, autojump_clock: object, key: str
) -> None:
    """Topic, this broker, all brokers (KIP-226)."""
    cluster = await make_cluster(1)
    of_all, own, topics = VALUES.get(key, NUMBERS)
    if key.endswith(".level"):
        cluster.controller.configure(compression_type=key.split(".")[1])

    async def now() -> object:
        await trio.sleep(0.1)
        return values_in_force(cluster[1])[key]

    before = await now()
    commit(cluster, ConfigType.BROKER, "", key, of_all)
    assert await now() == form(of_all)
    commit(cluster, ConfigType.BROKER, "2", key, topics)
    assert await now() == form(of_all), "another broker's value is not for this one"
    commit(cluster, ConfigType.BROKER, "1", key, own)
    assert await now() == form(own)
    name = BROKER_KEYS[key][0].name
    commit(cluster, ConfigType.TOPIC, "t", name, topics)
    assert await now() == form(topics)
    commit(cluster, ConfigType.BROKER, "1", key, None)
    assert await now() == form(topics)
    commit(cluster, ConfigType.TOPIC, "t", name, None)
    assert await now() == form(of_all)
    commit(cluster, ConfigType.BROKER, "", key, None)
    assert await now() == before


@pytest.mark.bug("KAFKA-16126")
async def test_a_broker_that_starts_has_what_was_set_before(
    make_brokers: Any, autojump_clock: object
) -> None:
    """The first metadata is a change too."""
    cluster = make_brokers(brokers=2, min_isr=1)
    await cluster[2].start()
    commit(cluster, ConfigType.BROKER, "", "message.max.bytes", "100")
    commit(cluster, ConfigType.BROKER, "1", "log.segment.bytes", "200")
    await cluster[1].start()
    cluster.controller.create(replicas=(1, 2))
    await cluster.opened()
    assert [values_in_force(cluster[each])["message.max.bytes"] for each in (1, 2)] == [100, 100]
    assert [values_in_force(cluster[each])["log.segment.bytes"] for each in (1, 2)] == [200, 1 << 30]


async def test_a_smaller_message_max_bytes_refuses_the_next_batch(
    make_cluster: Any, autojump_clock: object
) -> None:
    cluster = await make_cluster(1)
    assert not (await cluster[1].produced("x" * 200)).error
    commit(cluster, ConfigType.BROKER, "", "message.max.bytes", "100")
    await trio.sleep(0.1)
    assert (await cluster[1].produced("x" * 200)).error is ErrorCode.MESSAGE_TOO_LARGE


async def test_a_larger_min_isr_refuses_the_next_write(make_brokers: Any, autojump_clock: object) -> None:
    cluster = make_brokers(brokers=2, min_isr=1)
    await cluster.start(1)
    cluster.controller.create(replicas=(1, 2), isr=(1,))
    await cluster.opened()
    assert not (await cluster[1].produced("a")).error
    commit(cluster, ConfigType.BROKER, "", "min.insync.replicas", "2")
    await trio.sleep(0.1)
    assert (await cluster[1].produced("b")).error is ErrorCode.NOT_ENOUGH_REPLICAS


async def test_a_smaller_retention_of_all_brokers_deletes_segments(
    make_cluster: Any, autojump_clock: object
) -> None:
    cluster = await make_cluster(1, log_retention_check_interval_ms=60000)
    cluster.controller.configure(retention_ms=-1)
    commit(cluster, ConfigType.BROKER, "", "log.segment.bytes", "300")
    await trio.sleep(0.1)
    await cluster[1].produce_each(["x" * 200] * 10)
    await trio.sleep(61)
    assert cluster[1].partition().log.log_start_offset == 0
    commit(cluster, ConfigType.BROKER, "1", "log.retention.bytes", "600")
    await trio.sleep(61)
    assert cluster[1].partition().log.log_start_offset > 5


@pytest.mark.bug("KAFKA-7366")
async def test_a_lower_segment_ms_rolls_the_present_segment_at_the_next_append(
    make_cluster: Any, autojump_clock: object
) -> None:
    cluster = await make_cluster(1)
    await cluster[1].produced("a", timestamp_ms=1000)
    commit(cluster, ConfigType.BROKER, "", "log.roll.ms", "1000")
    await trio.sleep(0.1)
    await cluster[1].produced("b", timestamp_ms=2000)
    assert len(cluster[1].partition().log._segments) == 1
    await cluster[1].produced("c", timestamp_ms=2001)
    assert len(cluster[1].partition().log._segments) == 2


async def test_a_shorter_expiration_forgets_producers_sooner(
    make_cluster: Any, autojump_clock: object
) -> None:
    cluster = await make_cluster(1, producer_id_expiration_ms=86400000)
    await cluster[1].produced("a", producer=(7, 0, 0))
    await trio.sleep(300)
    assert len(cluster[1].partition().producers.producers) == 1
    cluster[1].manager.reconfigure(ReplicationConfig(producer_id_expiration_ms=60_000))
    await trio.sleep(61)
    assert not cluster[1].partition().producers.producers
