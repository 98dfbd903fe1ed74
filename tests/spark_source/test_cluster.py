"""Reading from brokers, without Spark."""

import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from quorate.broker.metadata.metadata_records import NoOp
from quorate.history import LogUnavailableError
from quorate.spark_source import MetadataLogSource
from quorate.spark_source.spark_errors import DataLossError
from tests.spark_source.conftest import in_order, read_rows

QUICK = {"fetchOffset.numRetries": "3", "fetchOffset.retryIntervalMs": "1"}


def read(broker: Any, **options: object) -> list[dict[str, Any]]:
    return read_rows(bootstrapServers=broker.address, **QUICK, **options)


@pytest.mark.parametrize("view", ["records", "decoded"])
def test_brokers_and_folders_have_the_same_records(
    sample: Any, new_broker: Callable[..., Any], view: str
) -> None:
    wanted = by_offset(read_rows(path=sample.folder, view=view))
    assert wanted
    for tasks in (1, 3):
        assert by_offset(read(new_broker(sample), view=view, minPartitions=tasks)) == wanted


def by_offset(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """In a view of records those of a type are together, as far as a task reads them at once."""
    return sorted(rows, key=lambda row: int(row["offset"]))


@pytest.mark.parametrize("view", ["changes", "partitions", "topics", "brokers"])
def test_brokers_and_folders_tell_of_the_same_changes(
    sample: Any, new_broker: Callable[..., Any], view: str
) -> None:
    rows = read(new_broker(sample), view=view, readChangeFeed=True, minPartitions=3)
    assert in_order(rows) == in_order(read_rows(path=sample.folder, view=view, readChangeFeed=True))
    assert rows


def test_brokers_and_folders_have_the_same_state(sample: Any, new_broker: Callable[..., Any]) -> None:
    state = read(new_broker(sample), view="partitions", versionAsOf=15)
    assert state == read_rows(path=sample.folder, view="partitions", versionAsOf=15)
    assert [row["offline_replicas"] for row in state] == [[1], [], [1]]


def test_a_part_that_was_planned_at_one_broker_is_read_from_another(
    sample: Any, new_broker: Callable[..., Any]
) -> None:
    """The broker that lags does not know yet that the part is committed."""
    lagging, ahead = new_broker(sample), new_broker(sample)
    lagging.committed = 9
    source = MetadataLogSource({"bootstrapServers": str(ahead.address), "minPartitions": "3", **QUICK})
    parts = source.reader(source.schema()).partitions()
    again = MetadataLogSource({"bootstrapServers": f"{lagging.address},{ahead.address}", **QUICK})
    reader = again.reader(again.schema())
    offsets = [row["offset"] for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    assert offsets == [offset for offset, _, _, _ in sample.records]


def test_a_read_below_the_brokers_log_start_is_data_loss(sample: Any, new_broker: Callable[..., Any]) -> None:
    broker = new_broker(sample)
    broker.log_start = 8
    with pytest.raises(DataLossError, match="starts at 8"):
        read(broker, startingOffsets=2)


def test_a_broker_that_never_answers_is_given_up_within_the_stated_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        begun = time.monotonic()
        with pytest.raises(LogUnavailableError, match=server):
            MetadataLogSource(
                {
                    "bootstrapServers": server,
                    "fetchOffset.numRetries": "1",
                    "fetchOffset.retryIntervalMs": "1",
                    "kafka.request.timeout.ms": "200",
                }
            )
        assert time.monotonic() - begun < 20


def test_a_snapshot_of_the_log_stays_as_it_was(sample: Any, new_broker: Callable[..., Any]) -> None:
    broker = new_broker(sample)
    source = MetadataLogSource({"bootstrapServers": str(broker.address), **QUICK})
    before = source.reader(source.schema()).partitions()
    sample.append(NoOp())
    assert source.reader(source.schema()).partitions()[-1].end == before[-1].end
