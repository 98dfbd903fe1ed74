"""Reading from brokers, without Spark."""

from collections.abc import Callable
from typing import Any

import pytest

from quorate.broker.metadata.metadata_records import NoOp
from quorate.cli.node.free_ports import free_ports
from quorate.runtime.network import Address
from quorate.spark_source import MetadataLogSource
from quorate.spark_source.spark_errors import DataLossError, LogUnavailableError
from tests.spark_source.conftest import read_rows

QUICK = {"fetchOffset.numRetries": "3", "fetchOffset.retryIntervalMs": "1"}


def read(*brokers: Any, **options: object) -> list[dict[str, Any]]:
    servers = ",".join(str(getattr(broker, "address", broker)) for broker in brokers)
    return read_rows(bootstrapServers=servers, **QUICK, **options)


def from_folder(log: Any, **options: object) -> list[dict[str, Any]]:
    return read_rows(path=log.folder, **options)


@pytest.fixture
def nobody() -> Address:
    """Where nobody listens."""
    return Address("127.0.0.1", free_ports(1)[0])


@pytest.mark.parametrize("view", ["records", "partitions", "topics", "brokers"])
def test_brokers_and_folders_tell_the_same(sample: Any, new_broker: Callable[..., Any], view: str) -> None:
    rows = read(new_broker(sample), view=view, minPartitions=3)
    assert rows == from_folder(sample, view=view)
    assert rows


def test_a_broker_that_is_down_is_passed_over(
    sample: Any, new_broker: Callable[..., Any], nobody: Address
) -> None:
    assert len(read(nobody, new_broker(sample))) == len(sample.records)


def test_a_broker_that_dies_halfway_is_replaced_and_nothing_is_read_twice(
    sample: Any, new_broker: Callable[..., Any]
) -> None:
    dying, other = new_broker(sample), new_broker(sample)
    dying.drop_after_fetches = 2
    rows = read(dying, other)
    assert [row["offset"] for row in rows] == [offset for offset, _, _, _ in sample.records]
    assert dying.fetches == 2
    assert other.fetches > 2


def test_brokers_that_were_not_named_are_found(sample: Any, new_broker: Callable[..., Any]) -> None:
    dying, other = new_broker(sample), new_broker(sample)
    dying.drop_after_fetches = 2
    # Only a connection that was made learns of others, and each pass over the log makes its own.
    dying.known = [other.address]
    source = MetadataLogSource({"bootstrapServers": str(dying.address), **QUICK})
    reader = source.reader(source.schema())
    (part,) = reader.partitions()
    rows = [row for batch in reader.read(part) for row in batch.to_pylist()]
    assert [row["offset"] for row in rows] == [offset for offset, _, _, _ in sample.records]


def test_a_broker_that_lags_is_not_believed(sample: Any, new_broker: Callable[..., Any]) -> None:
    lagging, ahead = new_broker(sample), new_broker(sample)
    lagging.committed = 9
    rows = read(lagging, ahead, endingOffsets=9)
    assert rows[-1]["offset"] == 8
    source = MetadataLogSource({"bootstrapServers": str(ahead.address), "minPartitions": "3", **QUICK})
    parts = source.reader(source.schema()).partitions()
    again = MetadataLogSource({"bootstrapServers": f"{lagging.address},{ahead.address}", **QUICK})
    reader = again.reader(again.schema())
    offsets = [row["offset"] for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    assert offsets == [offset for offset, _, _, _ in sample.records]


def test_a_broker_that_has_just_started_is_passed_over(sample: Any, new_broker: Callable[..., Any]) -> None:
    starting, ready = new_broker(sample), new_broker(sample)
    starting.committed = 0
    assert len(read(starting, ready)) == len(sample.records)


def test_an_unanswered_read_names_each_asked_broker_and_its_error(nobody: Address) -> None:
    with pytest.raises(LogUnavailableError, match=f"4 rounds: {nobody}: can't connect"):
        read(nobody)


def test_a_read_below_the_brokers_log_start_is_data_loss(sample: Any, new_broker: Callable[..., Any]) -> None:
    broker = new_broker(sample)
    broker.log_start = 8
    with pytest.raises(DataLossError, match="starts at 8"):
        read(broker, startingOffsets=2)


def test_a_snapshot_of_the_log_stays_as_it_was(sample: Any, new_broker: Callable[..., Any]) -> None:
    broker = new_broker(sample)
    source = MetadataLogSource({"bootstrapServers": str(broker.address), **QUICK})
    before = source.reader(source.schema()).partitions()
    sample.append(NoOp())
    assert source.reader(source.schema()).partitions()[-1].end == before[-1].end
