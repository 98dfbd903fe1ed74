"""Metadata logs and snapshots in folders, and brokers that serve a log."""

from collections.abc import Callable

import pytest
from log_fixtures import new_broker, new_log, story
from written_log import WrittenLog, write_sample

from quorate.cli.node.free_ports import free_ports
from quorate.runtime import Address

__all__ = ["new_broker", "new_log", "story"]


@pytest.fixture
def sample(new_log: Callable[..., WrittenLog]) -> WrittenLog:
    """The sample of the kit, written and committed."""
    log = new_log(index_interval_bytes=64)
    write_sample(log)
    log.write()
    return log


@pytest.fixture
def nobody() -> Address:
    """Where nobody listens."""
    return Address("127.0.0.1", free_ports(1)[0])
