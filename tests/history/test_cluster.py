"""Reading from brokers: what one can't say, another does."""

import subprocess
import sys
from collections.abc import Callable

import pytest
from written_log import Broker, WrittenLog

from quorate.history import ClusterLog, LogUnavailableError, entries_of
from quorate.runtime import Address

NewBroker = Callable[[WrittenLog], Broker]


def log_at(*servers: Broker | Address) -> ClusterLog:
    addresses = tuple(each if isinstance(each, Address) else each.address for each in servers)
    return ClusterLog(bootstrap_servers=addresses, retries=3, retry_interval_ms=1, request_timeout_ms=5_000)


def offsets(log: ClusterLog, end: int) -> list[int]:
    """The offsets of the metadata records below `end`."""
    return [
        entry.offset
        for batch in log.batches(0, end)
        for entry in entries_of(batch, start=0, end=end)
        if not entry.control
    ]


def written(log: WrittenLog) -> list[int]:
    return [offset for offset, _, _, _ in log.records]


def test_a_log_of_brokers_has_what_was_written(sample: WrittenLog, new_broker: NewBroker) -> None:
    log = log_at(new_broker(sample))
    extent = log.extent()
    assert (extent.cluster, extent.start_offset, extent.end_offset) == (sample.cluster, 0, sample.end)
    assert offsets(log, sample.end) == written(sample)


def test_a_broker_that_is_down_is_passed_over(
    sample: WrittenLog, new_broker: NewBroker, nobody: Address
) -> None:
    assert offsets(log_at(nobody, new_broker(sample)), sample.end) == written(sample)


def test_a_broker_that_dies_halfway_is_replaced_and_nothing_is_read_twice(
    sample: WrittenLog, new_broker: NewBroker
) -> None:
    dying, other = new_broker(sample), new_broker(sample)
    dying.drop_after_fetches = 2
    assert offsets(log_at(dying, other), sample.end) == written(sample)
    assert dying.fetches == 2
    assert other.fetches > 2


def test_brokers_that_were_not_named_are_found(sample: WrittenLog, new_broker: NewBroker) -> None:
    dying, other = new_broker(sample), new_broker(sample)
    dying.drop_after_fetches = 2
    # Only a connection that was made learns of others, and each pass over the log makes its own.
    dying.known = [other.address]
    assert offsets(log_at(dying), sample.end) == written(sample)


def test_a_broker_that_lags_is_not_believed(sample: WrittenLog, new_broker: NewBroker) -> None:
    lagging, ahead = new_broker(sample), new_broker(sample)
    lagging.committed = 9
    log = log_at(lagging, ahead)
    assert log.extent().end_offset == 9
    assert log.extent(at_least=sample.end).end_offset == sample.end
    assert log_at(lagging).extent(at_least=sample.end).end_offset == 9, "the best that there is"
    assert offsets(log, sample.end) == written(sample)


def test_a_broker_that_has_just_started_is_passed_over(sample: WrittenLog, new_broker: NewBroker) -> None:
    starting, ready = new_broker(sample), new_broker(sample)
    starting.committed = 0
    assert log_at(starting, ready).extent().end_offset == sample.end


def test_an_unanswered_read_names_each_asked_broker_and_its_error(nobody: Address) -> None:
    with pytest.raises(LogUnavailableError, match=f"4 rounds: {nobody}: can't connect"):
        log_at(nobody).extent()


def test_without_controllers_a_log_from_its_beginning_is_enough(
    sample: WrittenLog, new_broker: NewBroker
) -> None:
    """The brokers name no controllers while the quorum has no leader."""
    broker = new_broker(sample)
    log = log_at(broker)
    assert list(log.snapshots(pytest.fail)) == []
    broker.log_start = 8
    with pytest.raises(LogUnavailableError, match="the quorum can't be described"):
        log.snapshots(pytest.fail)


def test_a_reader_of_a_cluster_imports_no_controller() -> None:
    """Each worker of Spark imports it. The controllers' client took as long as all else."""
    program = """
import sys
from quorate.history import ClusterLog
ClusterLog(bootstrap_servers=())
print([each for each in sys.modules if each.startswith(("quorate.raft", "quorate.broker.controller"))])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
