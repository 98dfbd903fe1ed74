"""Intervals of partitions, with their causes."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from quorate.pipelines.intervals import intervals
from tests.kit.change_feed import ChangeFeed

pytestmark = [pytest.mark.spark, pytest.mark.slow]
Tables = Callable[[ChangeFeed], dict[str, DataFrame]]


def collected(frame: DataFrame) -> list[Any]:
    return frame.orderBy("from_offset", "topic_id", "partition_id").collect()


def causes(row: Any) -> list[tuple[int, str]]:
    return [(each["broker"], each["reason"]) for each in row["causes"]]


def test_an_interval_spans_the_states_in_which_replicas_are_missing(feed: ChangeFeed, tables: Tables) -> None:
    feed.create("orders", [1, 2, 3])
    heard = feed.now
    feed.wait(3)
    feed.fence(1, "BROKER_GONE", last_heard=heard)
    begin = feed.offset
    feed.change("orders", 0, "BROKER_GONE", leader=2, isr=[2, 3])
    feed.wait(2)
    feed.change("orders", 0, "REPLICA_LAGGED", isr=[2])
    feed.wait(2)
    feed.change("orders", 0, "REPLICA_CAUGHT_UP", isr=[2, 3])
    feed.wait(2)
    feed.register(1)
    feed.unfence(1)
    end = feed.offset
    feed.change("orders", 0, "REPLICA_CAUGHT_UP", isr=[2, 3, 1])
    (row,) = collected(tables(feed)["under_replicated"])
    assert (row["from_offset"], row["to_offset"], row["ended_by"]) == (begin, end, "change")
    assert (row["topic"], row["reason"], row["duration_ms"]) == ("orders", "BROKER_GONE", 6000)
    assert row["smallest_isr"] == 1
    assert causes(row) == [(1, "BROKER_GONE"), (3, "REPLICA_LAGGED")]
    (of_1, of_3) = row["causes"]
    assert (of_1["since"] - of_1["last_heard"]).total_seconds() == 3
    assert of_3["last_heard"] is None


def test_two_brokers_that_die_together_are_both_causes(feed: ChangeFeed, tables: Tables) -> None:
    feed.create("orders", [1, 2, 3])
    heard = feed.now
    feed.wait(3)
    feed.fence(1, "BROKER_GONE", last_heard=heard)
    feed.fence(2, "BROKER_FENCED", last_heard=heard)
    feed.change("orders", 0, "BROKER_GONE", leader=3, isr=[2, 3])
    feed.change("orders", 0, "BROKER_FENCED", isr=[3])
    (row,) = collected(tables(feed)["under_replicated"])
    assert causes(row) == [(1, "BROKER_GONE"), (2, "BROKER_FENCED")]
    assert all(each["last_heard"] is not None for each in row["causes"])
    assert (row["to_offset"], row["duration_ms"]) == (None, None)


def test_the_cause_is_known_after_the_broker_registered_again(feed: ChangeFeed, tables: Tables) -> None:
    feed.create("orders", [1, 2])
    heard = feed.now
    feed.fence(1, "BROKER_GONE", last_heard=heard)
    feed.register(1)
    feed.change("orders", 0, "BROKER_RESTARTED", leader=2, isr=[2])
    (row,) = collected(tables(feed)["under_replicated"])
    assert causes(row) == [(1, "BROKER_GONE")]
    assert row["causes"][0]["last_heard"] is not None


def test_a_restart_ends_an_interval_and_begins_another(feed: ChangeFeed, tables: Tables) -> None:
    feed.create("orders", [1, 2])
    feed.change("orders", 0, "REPLICA_LAGGED", isr=[1])
    feed.restart()
    found = collected(tables(feed)["under_replicated"])
    assert [(row["ended_by"], row["to_offset"]) for row in found] == [
        ("restart", feed.offset - 1),
        (None, None),
    ]


def test_a_removed_topic_ends_its_intervals(feed: ChangeFeed, tables: Tables) -> None:
    feed.create("orders", [1, 2])
    feed.change("orders", 0, "REPLICA_LAGGED", isr=[1])
    feed.remove("orders")
    (row,) = collected(tables(feed)["under_replicated"])
    assert (row["ended_by"], row["to_offset"]) == ("delete", feed.offset - 1)


def test_a_partition_is_leaderless_until_its_broker_is_back(feed: ChangeFeed, tables: Tables) -> None:
    feed.create("orders", [1, 2])
    feed.change("orders", 0, "REPLICA_LAGGED", isr=[1])
    heard = feed.now
    feed.wait(3)
    feed.fence(1, "BROKER_FENCED", last_heard=heard)
    begin = feed.offset
    feed.change("orders", 0, "BROKER_FENCED", leader=-1)
    feed.wait(20)
    feed.unfence(1)
    feed.change("orders", 0, "BROKER_UNFENCED", leader=1)
    (row,) = collected(tables(feed)["leaderless"])
    assert (row["from_offset"], row["to_offset"], row["duration_ms"]) == (begin, feed.offset - 1, 20_000)
    assert (1, "BROKER_FENCED") in causes(row)


class TestMinIsr:
    """`under_min_isr`"""

    def held(self, feed: ChangeFeed, tables: Tables) -> list[tuple[int, int | None, str]]:
        found = collected(tables(feed)["under_min_isr"])
        return [(row["from_offset"], row["to_offset"], row["reason"]) for row in found]

    def test_the_topic_decides_before_the_cluster(self, feed: ChangeFeed, tables: Tables) -> None:
        feed.configure("BROKER", "", "min.insync.replicas", "2")
        feed.create("strict", [1, 2, 3])
        feed.create("lax", [1, 2, 3])
        feed.configure("TOPIC", "lax", "min.insync.replicas", "1")
        begin = feed.offset
        feed.change("strict", 0, "REPLICA_LAGGED", isr=[1])
        feed.change("lax", 0, "REPLICA_LAGGED", isr=[1])
        feed.change("strict", 0, "REPLICA_CAUGHT_UP", isr=[1, 2])
        assert self.held(feed, tables) == [(begin, begin + 2, "REPLICA_LAGGED")]

    def test_a_change_of_the_setting_begins_and_ends_it(self, feed: ChangeFeed, tables: Tables) -> None:
        feed.create("orders", [1, 2, 3])
        feed.change("orders", 0, "REPLICA_LAGGED", isr=[1])
        raised = feed.offset
        feed.configure("TOPIC", "orders", "min.insync.replicas", "2")
        feed.wait(7)
        feed.configure("TOPIC", "orders", "min.insync.replicas", None)
        assert self.held(feed, tables) == [(raised, raised + 1, "CONFIG_CHANGED")]

    def test_a_topic_is_created_with_its_settings_at_once(self, feed: ChangeFeed, tables: Tables) -> None:
        feed.configure("BROKER", "", "min.insync.replicas", "2")
        with feed.batch():
            feed.create("orders", [1, 2])
            feed.change("orders", 0, "REPLICA_LAGGED", isr=[1])
            feed.configure("TOPIC", "orders", "min.insync.replicas", "1")
        assert self.held(feed, tables) == []

    def test_it_is_no_more_than_the_replicas(self, feed: ChangeFeed, tables: Tables) -> None:
        feed.configure("BROKER", "", "min.insync.replicas", "3")
        feed.create("orders", [1, 2])
        begin = feed.offset
        feed.change("orders", 0, "REPLICA_LAGGED", isr=[1])
        assert self.held(feed, tables) == [(begin, None, "REPLICA_LAGGED")]

    def test_a_snapshot_has_the_setting_of_its_topics(self, feed: ChangeFeed, tables: Tables) -> None:
        feed.configure("BROKER", "", "min.insync.replicas", "2")
        feed.create("orders", [1, 2])
        feed.configure("TOPIC", "orders", "min.insync.replicas", "1")
        feed.change("orders", 0, "REPLICA_LAGGED", isr=[1])
        feed.restart()
        assert self.held(feed, tables) == []


def test_intervals_of_any_condition_and_history(feed: ChangeFeed, tables: Tables) -> None:
    feed.shut_down(2)
    feed.fence(2, "CONTROLLED_SHUTDOWN", last_heard=feed.now)
    feed.register(2)
    feed.unfence(2)
    brokers = tables(feed)["broker_history"].where("broker_id = 2")
    away = intervals(
        brokers, f.col("fenced") | f.col("in_controlled_shutdown"), keys=("broker_id",), states=f.count("*")
    )
    assert [(row["states"], row["reason"]) for row in away.orderBy("from_offset").collect()] == [
        (1, None),
        (3, "CONTROLLED_SHUTDOWN"),
    ]
