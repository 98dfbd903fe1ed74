"""A large replica that moves between directories lets others run, by the processor's time of the loop's
thread."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from confluent_kafka import Producer
from gaps import within_gap
from kio.schema.errors import ErrorCode
from large_metadata import no_full_collection

from quorate.broker.replication.foundation.replication_quota import ReplicationQuota
from quorate.broker.replication.upkeep.future_copy import FutureCopy
from quorate.log import Log, LogConfig
from quorate.log.batches.records import build_batch
from quorate.runtime.real import RealDisk, SyncStrategy
from quorate.types import Offset
from tests.broker.server.client_requests import create
from tests.broker.server.conftest import MakeNodes
from tests.broker.server.test_data_on_brokers import describe, move, replicas

pytestmark = pytest.mark.real_time


@pytest.fixture(autouse=True)
def _without_full_collections() -> Iterator[None]:
    with no_full_collection():
        yield


@pytest.mark.parametrize(
    ("batches", "records", "epoch_batches", "segment_bytes"),
    [
        pytest.param(100_000, 1, 100_000, 1 << 26, id="batches of one record"),
        pytest.param(20_000, 1, 2, 1 << 26, id="10,000 leader epochs"),
        pytest.param(20, 3000, 20, 1 << 26, id="large batches"),
        pytest.param(50_000, 1, 50_000, 1 << 19, id="many segments"),
    ],
)
async def test_the_copy_of_a_log_has_no_gap(
    tmp_path: Path, batches: int, records: int, epoch_batches: int, segment_bytes: int
) -> None:
    disk = RealDisk(sync=SyncStrategy.THREAD)
    logs: list[Log] = []
    for name in ("original", "future"):
        disk.make_folder(f"{tmp_path}/{name}")
        config = LogConfig(segment_bytes=segment_bytes)
        logs.append(await Log.open(disk, f"{tmp_path}/{name}", config, now_ms=lambda: 0))
    original, future = logs
    for number in range(batches):
        batch = build_batch(
            base_offset=number * records,
            epoch=1 + number // epoch_batches,
            timestamp_ms=1,
            values=[b"x" * 60] * records,
        )
        original.append_as_follower(batch)
    await original.flush()
    original.high_watermark = original.end_offset
    copy = FutureCopy(future, quota=ReplicationQuota(), pieces=trio.CapacityLimiter(1))

    async def run() -> None:
        while not await copy.step(original):
            pass
        await future.flush()

    await within_gap(run(), what="the copy")
    assert (future.end_offset, future.high_watermark) == (batches * records, batches * records)
    assert future.epochs == original.epochs
    await within_gap(future.truncate_fully_and_start_at(Offset(7)), what="beginning it anew")


def fill(bootstrap: str, *, records: int) -> None:
    """Records of 1 kB in batches of some 20."""
    client = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "batch.size": 20_000, "acks": 1})
    for _ in range(records):
        while True:
            try:
                client.produce("t", b"x" * 1000)
                break
            except BufferError:
                client.poll(0.1)
    assert client.flush(60) == 0


async def test_a_broker_that_moves_a_large_replica_has_no_gap(make_nodes: MakeNodes, tmp_path: Path) -> None:
    """The time is from the request to the switch, and records are produced meanwhile."""
    paths = {str(tmp_path / "node-1"), str(tmp_path / "second")}
    nodes = await make_nodes(1, {"log.dirs": ",".join(sorted(paths)), "log.segment.bytes": "8388608"})
    async with nodes.client(1) as client:
        await create(client)
        await trio.to_thread.run_sync(lambda: fill(nodes.bootstrap, records=60_000))
        (source,) = {path for path, _, _ in replicas(await describe(client))}
        (target,) = paths - {source}

        async def run() -> None:
            assert await move(client, (target, "t", 0)) == {("t", 0): ErrorCode.none}
            await trio.to_thread.run_sync(lambda: fill(nodes.bootstrap, records=2_000))
            with trio.fail_after(60):
                while True:
                    if {path for path, _, _ in replicas(await describe(client))} == {target}:
                        return
                    await trio.sleep(0.05)

        await within_gap(run(), what="the move")
