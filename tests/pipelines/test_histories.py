"""The states of entities, from stories."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame

from tests.kit.change_feed import ChangeFeed

pytestmark = [pytest.mark.spark, pytest.mark.slow]
Tables = Callable[[ChangeFeed], dict[str, DataFrame]]


def rows(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.orderBy("from_offset", "from_row").select(*columns).collect()]


def test_each_state_is_valid_until_the_next_change_of_its_key(feed: ChangeFeed, tables: Tables) -> None:
    begin = feed.offset
    feed.create("orders", [1, 2], [2, 3])
    feed.wait(5)
    feed.change("orders", 0, "REPLICA_LAGGED", isr=[1])
    history = tables(feed)["partition_history"]
    assert rows(history, "partition_id", "isr", "reason", "from_offset", "to_offset", "ended_by") == [
        (0, [1, 2], None, begin + 1, begin + 3, "change"),
        (1, [2, 3], None, begin + 2, None, None),
        (0, [1], "REPLICA_LAGGED", begin + 3, None, None),
    ]
    (first,) = history.where("to_offset is not null").selectExpr("valid_to - valid_from as lasted").collect()
    assert first["lasted"].total_seconds() == 5


def test_the_order_is_that_of_offsets_when_clocks_go_back(feed: ChangeFeed, tables: Tables) -> None:
    feed.create("orders", [1, 2])
    feed.wait(-3600)
    feed.change("orders", 0, "BROKER_FENCED", leader=2, isr=[2])
    feed.wait(60)
    feed.change("orders", 0, "REPLICA_CAUGHT_UP", isr=[2, 1])
    assert rows(tables(feed)["partition_history"], "leader", "isr") == [(1, [1, 2]), (2, [2]), (2, [2, 1])]


def test_a_removed_topic_ends_its_partitions_and_configs(feed: ChangeFeed, tables: Tables) -> None:
    feed.create("orders", [1], [2])
    feed.configure("TOPIC", "orders", "retention.ms", "1000")
    feed.remove("orders")
    feed.create("orders", [3])
    found = tables(feed)
    assert rows(found["partition_history"], "replicas", "ended_by") == [
        ([1], "delete"),
        ([2], "delete"),
        ([3], None),
    ]
    assert rows(found["config_history"], "name", "value", "ended_by") == [("retention.ms", "1000", "delete")]
    assert rows(found["topic_history"], "name", "ended_by") == [("orders", "delete"), ("orders", None)]


def test_a_restart_ends_all_that_was_known(feed: ChangeFeed, tables: Tables) -> None:
    feed.create("orders", [1, 2])
    # What happened between is not in the feed.
    kept = list(feed.rows)
    feed.change("orders", 0, "REPLICA_LAGGED", isr=[1])
    feed.rows = kept
    feed.restart()
    found = tables(feed)
    assert rows(found["partition_history"], "isr", "snapshot", "to_offset", "ended_by") == [
        ([1, 2], False, feed.offset - 1, "restart"),
        ([1], True, None, None),
    ]
    brokers = rows(found["broker_history"].where("broker_id = 3"), "fenced", "snapshot", "ended_by")
    assert brokers == [(True, False, "change"), (False, False, "restart"), (False, True, None)]
    assert rows(found["quorum_history"], "leader", "ended_by") == [(1, "restart"), (1, None)]


def test_a_partition_changes_with_the_broker_that_is_fenced(feed: ChangeFeed, tables: Tables) -> None:
    feed.create("orders", [1, 2])
    feed.fence(2, "BROKER_FENCED")
    states = rows(tables(feed)["partition_history"], "isr", "offline_replicas", "record_type")
    assert states == [([1, 2], [], "Partition"), ([1, 2], [2], "BrokerRegistrationChange")]
