"""Metadata logs and snapshots in folders, and brokers that serve a log."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from metadata_folder import MetadataFolder, story_folder
from written_log import Broker, WrittenLog, write_sample

from quorate.cli.node.free_ports import free_ports
from quorate.runtime import Address


@pytest.fixture
def story(tmp_path: Path) -> MetadataFolder:
    """A log that may have snapshots, not written yet."""
    return story_folder(tmp_path / "story")


@pytest.fixture
def new_log(tmp_path: Path) -> Callable[..., WrittenLog]:
    """An empty log in a folder of its own."""
    made = iter(range(100))

    def new(**settings: int) -> WrittenLog:
        return WrittenLog(folder=tmp_path / f"node-{next(made)}", **settings)

    return new


@pytest.fixture
def sample(new_log: Callable[..., WrittenLog]) -> WrittenLog:
    """The sample of the kit, written and committed."""
    log = new_log(index_interval_bytes=64)
    write_sample(log)
    log.write()
    return log


@pytest.fixture
def new_broker() -> Iterator[Callable[[WrittenLog], Broker]]:
    started: list[Broker] = []

    def new(log: WrittenLog) -> Broker:
        started.append(Broker(log))
        return started[-1]

    yield new
    for broker in started:
        broker.stop()


@pytest.fixture
def nobody() -> Address:
    """Where nobody listens."""
    return Address("127.0.0.1", free_ports(1)[0])
