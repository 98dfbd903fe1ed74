"""Elections, changes of ISRs, reassignments, balance and incidents."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame

from tests.kit.change_feed import ChangeFeed

pytestmark = [pytest.mark.spark, pytest.mark.slow]
Tables = Callable[[ChangeFeed], dict[str, DataFrame]]


def kill(feed: ChangeFeed, broker: int, *, successor: int, silent_s: float = 3.3) -> None:
    """The broker's process ends. `successor` leads what it led; it leaves every ISR."""
    heard = feed.now
    feed.wait(silent_s)
    feed.fence(broker, "BROKER_GONE", last_heard=heard)
    for (topic, partition), state in list(feed.partitions.items()):
        if broker in state["isr"]:
            isr = [each for each in state["isr"] if each != broker]
            leader = {"leader": successor} if state["leader"] == broker else {}
            feed.change(topic, partition, "BROKER_GONE", isr=isr, **leader)


def come_back(feed: ChangeFeed, broker: int, *, after_s: float) -> None:
    feed.wait(after_s)
    feed.register(broker)
    feed.unfence(broker)
    for (topic, partition), state in list(feed.partitions.items()):
        if broker in state["replicas"] and broker not in state["isr"]:
            feed.change(topic, partition, "REPLICA_CAUGHT_UP", isr=[*state["isr"], broker])


def collected(frame: DataFrame, *order: str) -> list[Any]:
    return frame.orderBy(*order).collect()


def test_the_time_to_a_new_leader_begins_with_the_last_heartbeat(feed: ChangeFeed, tables: Tables) -> None:
    feed.create("orders", [1, 2, 3], [2, 3, 1])
    kill(feed, 1, successor=2)
    (row,) = tables(feed)["time_to_new_leader"].collect()
    assert (row["partition_id"], row["old_leader"], row["leader"], row["leader_epoch"]) == (0, 1, 2, 1)
    assert (row["outage_ms"], row["leaderless_ms"], row["reason"]) == (3300, 0, "BROKER_GONE")


def test_a_partition_without_a_leader_waits_until_there_is_one(feed: ChangeFeed, tables: Tables) -> None:
    feed.create("orders", [1, 2])
    feed.change("orders", 0, "REPLICA_LAGGED", isr=[1])
    heard = feed.now
    feed.wait(3)
    feed.fence(1, "BROKER_FENCED", last_heard=heard)
    feed.change("orders", 0, "BROKER_FENCED", leader=-1)
    feed.wait(20)
    feed.unfence(1)
    feed.change("orders", 0, "BROKER_UNFENCED", leader=1)
    (row,) = tables(feed)["time_to_new_leader"].collect()
    assert (row["old_leader"], row["leader"], row["reason"]) == (1, 1, "BROKER_UNFENCED")
    assert (row["outage_ms"], row["leaderless_ms"]) == (23_000, 20_000)


def test_a_leader_that_moves_in_order_was_never_missed(feed: ChangeFeed, tables: Tables) -> None:
    feed.create("orders", [1, 2])
    feed.shut_down(1)
    feed.wait(1)
    feed.change("orders", 0, "CONTROLLED_SHUTDOWN", leader=2, isr=[2])
    feed.wait(1)
    feed.fence(1, "CONTROLLED_SHUTDOWN", last_heard=feed.now)
    come_back(feed, 1, after_s=60)
    feed.change("orders", 0, "PREFERRED_LEADER", leader=1)
    found = collected(tables(feed)["time_to_new_leader"], "elected_offset")
    assert [(row["leader"], row["reason"], row["outage_ms"]) for row in found] == [
        (2, "CONTROLLED_SHUTDOWN", 0),
        (1, "PREFERRED_LEADER", 0),
    ]


def test_no_election_spans_a_restart(feed: ChangeFeed, tables: Tables) -> None:
    feed.create("orders", [1, 2])
    kept = list(feed.rows)
    feed.change("orders", 0, "PREFERRED_LEADER", leader=2)
    feed.rows = kept
    feed.restart()
    found = tables(feed)
    assert found["time_to_new_leader"].collect() == []
    assert found["leadership_churn"].collect() == []
    assert found["isr_changes"].collect() == []


def test_leadership_churn_counts_changes_by_reason(feed: ChangeFeed, tables: Tables) -> None:
    feed.create("orders", [1, 2])
    for leader in (2, 1, 2):
        feed.wait(1)
        feed.change("orders", 0, "PREFERRED_LEADER", leader=leader)
    feed.change("orders", 0, "REPLICA_LAGGED", isr=[2])
    (row,) = tables(feed)["leadership_churn"].collect()
    assert (row["topic"], row["reason"], row["changes"]) == ("orders", "PREFERRED_LEADER", 3)
    assert (row["last_change"] - row["first_change"]).total_seconds() == 2


def test_isr_changes_name_the_replicas_that_left_and_joined(feed: ChangeFeed, tables: Tables) -> None:
    feed.create("orders", [1, 2, 3])
    feed.change("orders", 0, "REPLICA_LAGGED", isr=[1])
    feed.change("orders", 0, "PREFERRED_LEADER", leader=1)
    feed.change("orders", 0, "REPLICA_CAUGHT_UP", isr=[1, 3])
    found = collected(tables(feed)["isr_changes"], "offset")
    assert [(row["lost"], row["gained"], row["replicas"]) for row in found] == [([2, 3], [], 3), ([], [3], 3)]


def test_a_reassignment_lasts_until_no_replica_is_added_or_removed(feed: ChangeFeed, tables: Tables) -> None:
    feed.create("orders", [1, 2])
    feed.change("orders", 0, "REASSIGNMENT", replicas=[3, 2, 1], adding_replicas=[3], removing_replicas=[1])
    feed.wait(5)
    feed.change("orders", 0, "REPLICA_CAUGHT_UP", isr=[1, 2, 3])
    feed.wait(1)
    feed.change(
        "orders", 0, "REASSIGNMENT", replicas=[3, 2], isr=[2, 3], adding_replicas=[], removing_replicas=[]
    )
    (row,) = tables(feed)["reassignments"].collect()
    assert (sorted(row["original"]), row["target"], row["duration_ms"]) == ([1, 2], [3, 2], 6000)


def test_imbalance_counts_what_each_broker_leads_after_each_change(feed: ChangeFeed, tables: Tables) -> None:
    feed.create("orders", [1, 2], [2, 1])
    moved = feed.offset
    feed.change("orders", 0, "BROKER_FENCED", leader=2)
    feed.restart()
    rows = tables(feed)["imbalance"].where(f"offset >= {moved}")
    found = [
        (row["offset"], row["broker"], row["leaders"], row["preferred"], row["preferred_led"])
        for row in collected(rows, "offset", "broker")
    ]
    # The restart changes nothing.
    assert found == [(moved, 1, 0, 1, 0), (moved, 2, 2, 1, 1)]


def test_controller_failovers_name_both_controllers(feed: ChangeFeed, tables: Tables) -> None:
    feed.elect_controller(2)
    (row,) = tables(feed)["controller_failovers"].collect()
    assert (row["old_leader"], row["leader"], row["leader_epoch"]) == (1, 2, 2)


def test_the_slowest_changes_are_ranked_by_kind(feed: ChangeFeed, tables: Tables) -> None:
    feed.create("orders", [1, 2], [2, 1])
    for partition, seconds in ((0, 5), (1, 9)):
        leader = feed.partitions["orders", partition]["leader"]
        feed.change("orders", partition, "REPLICA_LAGGED", isr=[leader])
        feed.wait(seconds)
        feed.change("orders", partition, "REPLICA_CAUGHT_UP", isr=[leader, 3 - leader])
    slowest = tables(feed)["slowest_changes"].where("kind = 'under_replicated'")
    assert [(row["rank"], row["place"], row["duration_ms"]) for row in collected(slowest, "rank")] == [
        (1, "orders-1", 9000),
        (2, "orders-0", 5000),
    ]


class TestIncidents:
    """`incidents`"""

    def test_a_kill_has_its_partitions_and_its_outage(self, feed: ChangeFeed, tables: Tables) -> None:
        feed.create("orders", [1, 2, 3], [2, 3, 1])
        feed.create("logs", [1, 3])
        kill(feed, 1, successor=3)
        come_back(feed, 1, after_s=10)
        feed.wait(100)
        (row,) = tables(feed)["incidents"].collect()
        assert (row["broker_id"], row["reason"], row["same_process"]) == (1, "BROKER_GONE", False)
        assert (row["partitions"], row["topics"], row["led"]) == (3, ["logs", "orders"], 2)
        assert (row["outage_ms"], row["longest_outage_ms"], row["duration_ms"]) == (3300, 3300, 13_300)
        assert row["replicated_at"] == row["valid_to"]
        assert not row["led_quorum"]

    def test_a_stopped_process_is_the_same_when_it_goes_on(self, feed: ChangeFeed, tables: Tables) -> None:
        heard = feed.now
        feed.wait(3)
        feed.fence(2, "BROKER_FENCED", last_heard=heard)
        feed.wait(4)
        feed.unfence(2)
        (row,) = tables(feed)["incidents"].collect()
        assert (row["same_process"], row["duration_ms"], row["partitions"]) == (True, 7000, 0)
        assert row["replicated_at"] is None

    def test_a_controller_that_dies_is_fenced_by_its_successor(
        self, feed: ChangeFeed, tables: Tables
    ) -> None:
        feed.elect_controller(3)
        feed.fence(1, "BROKER_FENCED")
        feed.wait(60)
        feed.unfence(1)
        feed.fence(2, "BROKER_FENCED", last_heard=feed.now)
        found = collected(tables(feed)["incidents"], "broker_id")
        assert [(row["broker_id"], row["led_quorum"], row["ended_by"]) for row in found] == [
            (1, True, "change"),
            (2, False, None),
        ]

    def test_a_controller_that_its_successor_heard_before_its_election_led_the_quorum(
        self, feed: ChangeFeed, tables: Tables
    ) -> None:
        heard = feed.now
        feed.wait(2)
        feed.elect_controller(3)
        feed.wait(1)
        feed.fence(1, "BROKER_GONE", last_heard=heard)
        feed.wait(5)
        feed.unfence(1)
        feed.wait(60)
        # It is a follower now, and dies again.
        feed.fence(1, "BROKER_GONE", last_heard=feed.now)
        found = collected(tables(feed)["incidents"], "from_offset")
        assert [(row["led_quorum"], row["duration_ms"]) for row in found] == [(True, 8000), (False, None)]

    def test_what_one_broker_caused_is_not_of_another(self, feed: ChangeFeed, tables: Tables) -> None:
        feed.create("orders", [1, 2, 3])
        kill(feed, 1, successor=2)
        come_back(feed, 1, after_s=5)
        feed.create("later", [3, 2])
        kill(feed, 3, successor=2)
        found = collected(tables(feed)["incidents"], "from_offset")
        assert [(row["broker_id"], row["topics"], row["led"]) for row in found] == [
            (1, ["orders"], 1),
            (3, ["later", "orders"], 1),
        ]
