"""Doubles and builders for logs."""

from collections.abc import Awaitable, Callable

import pytest

from quorate.log.config import LogConfig
from quorate.log.log import Log
from quorate.log.records import build_batch
from quorate.raft.core.types import Offset
from quorate.simulation.disk import SimulatedDisk

OpenLog = Callable[..., Awaitable[Log]]


@pytest.fixture
def open_log() -> OpenLog:
    async def opened(
        disk: SimulatedDisk,
        *,
        config: LogConfig = LogConfig(),  # noqa: B008
        recovery_point: int | None = None,
        clean_shutdown: bool = False,
        log_start_offset: int | None = None,
    ) -> Log:
        return await Log.open(
            disk,
            "data/t-0",
            config,
            recovery_point=None if recovery_point is None else Offset(recovery_point),
            clean_shutdown=clean_shutdown,
            log_start_offset=None if log_start_offset is None else Offset(log_start_offset),
            now_ms=lambda: 1_000_000,
        )

    return opened


@pytest.fixture
def batch() -> Callable[..., bytes]:
    def built(
        base_offset: int, count: int = 1, *, epoch: int = 1, size: int = 20, timestamp_ms: int = 1000
    ) -> bytes:
        values = [f"{base_offset + delta}/{epoch}:".encode().ljust(size, b".") for delta in range(count)]
        return build_batch(base_offset=base_offset, epoch=epoch, timestamp_ms=timestamp_ms, values=values)

    return built
