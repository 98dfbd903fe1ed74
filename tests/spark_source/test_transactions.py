"""Change feeds show what took place: nothing of a transaction that is open or was aborted."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from quorate.broker.metadata.metadata_records import (
    AbortTransaction,
    BeginTransaction,
    BrokerEndpoint,
    Config,
    ConfigType,
    EndTransaction,
    Partition,
    RegisterBroker,
    Topic,
)
from quorate.broker.metadata.record_codec import decode
from tests.spark_source.conftest import in_order, read_rows

NAMES: dict[str, Callable[[dict[str, Any]], str]] = {
    "partitions": lambda row: str(row["topic"]),
    "topics": lambda row: str(row["name"]),
    "brokers": lambda row: f"t{row['broker_id']}",
    "configs": lambda row: str(row["resource_name"]),
}
"""What each row is about, by view."""


def read(log: Any, **options: object) -> list[dict[str, Any]]:
    return read_rows(path=log.folder, **options)


def changes(log: Any, **options: object) -> list[dict[str, Any]]:
    return read(log, readChangeFeed=True, **options)


def tell(log: Any, number: int) -> None:
    topic_id = uuid.UUID(int=number)
    log.append(Topic(name=f"t{number}", topic_id=topic_id))
    for index in range(2):
        log.append(Partition(topic_id=topic_id, partition_id=index, replicas=(1,), isr=(1,), leader=1))
    log.append(
        Config(resource_type=ConfigType.TOPIC, resource_name=f"t{number}", name="segment.bytes", value="9"),
        RegisterBroker(
            broker_id=number,
            incarnation_id=uuid.UUID(int=number << 100),
            broker_epoch=log.end,
            listeners=(BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9090),),
        ),
    )


@pytest.fixture
def transactions(new_log: Callable[..., Any]) -> Any:
    """One that took place, one that did not, one that is open."""
    log = new_log()
    log.new_epoch(1)
    tell(log, 1)
    log.append(BeginTransaction(name="a topic is created"))
    tell(log, 2)
    log.append(EndTransaction())
    log.append(BeginTransaction())
    tell(log, 3)
    log.new_epoch(2)
    log.append(AbortTransaction(reason="another controller"))
    tell(log, 4)
    log.append(BeginTransaction())
    tell(log, 5)
    log.write()
    return log


@pytest.mark.parametrize("view", NAMES)
def test_a_change_feed_shows_what_took_place(transactions: Any, view: str) -> None:
    before = changes(transactions, view=view)
    assert {NAMES[view](row) for row in before} == {"t1", "t2", "t4"}
    offsets = [row["offset"] for row in before]
    assert offsets == sorted(offsets)
    transactions.append(EndTransaction())
    transactions.write()
    whole = changes(transactions, view=view)
    assert whole[: len(before)] == before
    assert {NAMES[view](row) for row in whole[len(before) :]} == {"t5"}


@pytest.mark.parametrize("view", NAMES)
def test_the_state_is_without_an_open_transaction(transactions: Any, view: str) -> None:
    assert {NAMES[view](row) for row in read(transactions, view=view)} == {"t1", "t2", "t4"}
    transactions.append(EndTransaction())
    transactions.write()
    assert {NAMES[view](row) for row in read(transactions, view=view)} == {"t1", "t2", "t4", "t5"}


@pytest.mark.slow
@pytest.mark.costly
@pytest.mark.parametrize("view", ["changes", "partitions"])
def test_a_log_that_is_read_in_two_parts_shows_the_same(transactions: Any, view: str) -> None:
    whole = in_order(changes(transactions, view=view))
    for middle in range(transactions.end + 1):
        first = changes(transactions, view=view, endingOffsets=middle)
        second = changes(transactions, view=view, startingOffsets=middle)
        assert in_order(first + second) == whole, f"parted at offset {middle}"
    assert in_order(changes(transactions, view=view, minPartitions=7)) == whole


def test_a_leader_of_the_quorum_is_shown_though_a_transaction_is_open(transactions: Any) -> None:
    """It was dropped with the aborted transaction, though its record is none of the metadata."""
    aborted = next(offset for offset, *_, each in transactions.records if isinstance(each, AbortTransaction))
    transactions.new_epoch(3)
    transactions.write()
    led = [
        (row["offset"], row["_change_type"], row["leader"], row["leader_epoch"])
        for row in changes(transactions, view="quorum")
    ]
    assert led == [
        (0, "insert", 1, 1),
        (aborted - 1, "update_preimage", 1, 1),
        (aborted - 1, "update_postimage", 2, 2),
        (transactions.end - 1, "update_preimage", 2, 2),
        (transactions.end - 1, "update_postimage", 3, 3),
    ]
    (state,) = read(transactions, view="quorum", versionAsOf=aborted - 1)
    assert (state["leader"], state["leader_epoch"]) == (2, 2)


def test_the_view_of_records_shows_all_of_them(transactions: Any) -> None:
    rows = read(transactions)
    assert [decode(row["value"]) for row in rows if "Transaction" in row["recordType"]] == [
        BeginTransaction(name="a topic is created"),
        EndTransaction(),
        BeginTransaction(),
        AbortTransaction(reason="another controller"),
        BeginTransaction(),
    ]
    named = [row["topic"]["name"] for row in read(transactions, view="decoded") if row["type"] == "Topic"]
    assert named == [f"t{number}" for number in range(1, 6)]
