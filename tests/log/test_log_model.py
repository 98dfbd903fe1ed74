"""A log against a list, through rolls, truncations, reopenings and power losses."""

import random
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorate.log.batches.batch import read_batches
from quorate.log.log import Log
from quorate.log.log_config import LogConfig
from quorate.types import EpochStart, Offset
from tests.log.conftest import new_log

Model = list[tuple[int, int, bytes]]
"""(base offset, epoch, batch)."""

CONFIGS = [
    LogConfig(segment_bytes=700, index_interval_bytes=150, tail_bytes=300),
    LogConfig(
        segment_bytes=900,
        index_interval_bytes=100,
        tail_bytes=0,
        own_recovery_point=True,
        recovery_point_interval_bytes=400,
        reserve_bytes=256,
    ),
    LogConfig(segment_bytes=700, index_interval_bytes=150, tail_bytes=300, reserve_bytes=300),
]


async def content_of(log: Log) -> Model:
    found: Model = []
    offset = int(log.log_start_offset)
    while offset < log.end_offset:
        data = await log.read(offset, 500)
        for one in read_batches(data):
            assert one.header.base_offset == offset
            found.append((offset, one.header.leader_epoch, bytes(one.data)))
            offset = one.header.end_offset
    return found


def epochs_of(model: Model) -> tuple[EpochStart, ...]:
    starts: dict[int, int] = {}
    for base, epoch, _ in model:
        starts.setdefault(epoch, base)
    return tuple(EpochStart(epoch, start) for epoch, start in starts.items())  # type: ignore[arg-type]


def end_of(model: Model) -> int:
    if not model:
        return 0
    return next(read_batches(model[-1][2])).header.end_offset


@pytest.mark.slow
@pytest.mark.costly
@pytest.mark.parametrize("config", CONFIGS, ids=["partition", "metadata", "partition with a reserve"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(draw=st.randoms(use_true_random=False), steps=st.integers(1, 40))
async def test_synced_batches_survive_a_crash_and_the_rest_is_a_prefix(
    config: LogConfig,
    draw: random.Random,
    steps: int,
    open_log: Callable[..., Awaitable[Log]],
    batch: Callable[..., bytes],
) -> None:
    disk, log = await new_log(config)
    model: Model = []
    durable = 0
    epoch = 1
    for _ in range(steps):
        match draw.choice(
            ("append", "append", "append", "append", "sync", "flush", "truncate", "close", "crash", "power")
        ):
            case "append":
                if draw.random() < 0.2:
                    epoch += 1
                base = int(log.end_offset)
                built = batch(base, draw.randint(1, 4), epoch=epoch, size=draw.choice((10, 30, 300)))
                log.append_as_follower(built)
                model.append((base, epoch, built))
            case "sync":
                durable = await log.sync()
                assert durable == end_of(model)
            case "flush":
                durable = await log.flush()
            case "truncate":
                if model:
                    cut = draw.randrange(len(model))
                    end = model[cut][0]
                    del model[cut:]
                    assert await log.truncate(Offset(end)) == end
                    durable = min(durable, end)
            case kind:
                point = int(log.recovery_point)
                assert point <= durable
                if kind == "close":
                    await log.flush_and_close()
                    durable = end_of(model)
                elif kind == "crash":
                    disk.crash_process()
                else:
                    disk.lose_power(draw)
                log = await open_log(
                    disk,
                    config=config,
                    recovery_point=end_of(model) if kind == "close" else point,
                    clean_shutdown=kind == "close",
                )
                assert log.end_offset >= durable
                if kind == "crash":
                    assert log.end_offset == end_of(model)
                model = [entry for entry in model if entry[0] < log.end_offset]
                assert log.end_offset == end_of(model)
                durable = int(log.end_offset)
                disk.lose_power(draw)
                log = await open_log(disk, config=config, recovery_point=int(log.recovery_point))
                assert log.end_offset == durable, "opening makes durable what it shows"
        assert log.end_offset == end_of(model)
        assert log.epochs == epochs_of(model)
        assert log.size_bytes == sum(len(entry[2]) for entry in model)
    assert await content_of(log) == model
    log.close()
