"""Typed views show what took place: nothing of a transaction that is open or was aborted."""

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
from tests.spark_source.conftest import read_rows

TYPED = ["partitions", "topics", "brokers"]


def read(log: Any, **options: object) -> list[dict[str, Any]]:
    return read_rows(path=log.folder, **options)


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


@pytest.mark.parametrize("view", TYPED)
def test_typed_views_show_what_took_place(transactions: Any, view: str) -> None:
    about = {
        row["topic"] if view != "brokers" else f"t{row['broker']}" for row in read(transactions, view=view)
    }
    assert about == {"t1", "t2", "t4"}
    offsets = [row["offset"] for row in read(transactions, view=view)]
    assert offsets == sorted(offsets)
    transactions.append(EndTransaction())
    transactions.write()
    whole = read(transactions, view=view)
    assert [row["offset"] for row in whole][: len(offsets)] == offsets
    assert len(whole) > len(offsets)


@pytest.mark.parametrize("view", TYPED)
def test_a_log_that_is_read_in_two_parts_shows_the_same(transactions: Any, view: str) -> None:
    whole = read(transactions, view=view)
    for middle in range(transactions.end + 1):
        first = read(transactions, view=view, endingOffsets=middle)
        assert first + read(transactions, view=view, startingOffsets=middle) == whole
    assert read(transactions, view=view, minPartitions=7) == whole


def test_the_view_of_records_shows_all_of_them(transactions: Any) -> None:
    rows = read(transactions)
    assert [(row["type"], row["record"]) for row in rows if "Transaction" in row["type"]] == [
        ("BeginTransaction", '{"name":"a topic is created"}'),
        ("EndTransaction", "{}"),
        ("BeginTransaction", '{"name":null}'),
        ("AbortTransaction", '{"reason":"another controller"}'),
        ("BeginTransaction", '{"name":null}'),
    ]
    assert {row["topic"] for row in rows if row["type"] == "Partition"} == {f"t{n}" for n in range(1, 6)}
