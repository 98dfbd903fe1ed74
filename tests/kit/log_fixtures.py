"""Fixtures of metadata logs, written to folders or served. A `conftest` names them to have them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from metadata_folder import MetadataFolder, story_folder
from written_log import Broker, WrittenLog


@pytest.fixture
def story(tmp_path: Path) -> MetadataFolder:
    """A log that may have snapshots, not written yet."""
    return story_folder(tmp_path / "story")


@pytest.fixture
def new_log(tmp_path: Path) -> Callable[..., WrittenLog]:
    """An empty log in a folder of its own."""
    made = iter(range(100))

    def new(**settings: object) -> WrittenLog:
        return WrittenLog(folder=tmp_path / f"node-{next(made)}", **settings)  # type: ignore[arg-type]

    return new


@pytest.fixture
def new_broker() -> Iterator[Callable[[WrittenLog], Broker]]:
    started: list[Broker] = []

    def new(log: WrittenLog) -> Broker:
        started.append(Broker(log))
        return started[-1]

    yield new
    for broker in started:
        broker.stop()
