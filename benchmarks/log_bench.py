"""What the log costs: `python benchmarks/log_bench.py [--folder FOLDER]`.

FOLDER should be on the device that is to be measured; the current one by default. The figures of the
processor's work are the best of several rounds. The kinds of sync take turns, one append each, so that all
meet the same weather. On a busy machine a task that a sync woke waits for the processor until the scheduler's
next tick (4 ms at 250 Hz), which hides the device: run it under `nice -n -20` there.
"""

import argparse
import tempfile
import time
from collections.abc import Callable

import trio

from quorate.log import Log, LogConfig
from quorate.log.batches.batch import read_batches
from quorate.log.batches.records import build_batch, records_of
from quorate.runtime.real.real_disk import RealDisk, SyncStrategy

_ROUNDS = 9
_TAIL = 1 << 20
_RESERVE_BYTES = 4 * 1024 * 1024


def best_us(run: Callable[[], None], count: int) -> float:
    """Microseconds for each of the `count` things that `run` does."""
    best = float("inf")
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best / count * 1e6


def batch(base_offset: int = 0, *, count: int = 1, size: int = 100) -> bytes:
    return build_batch(base_offset=base_offset, epoch=1, timestamp_ms=1000, values=[b"x" * size] * count)


def append_own(log: Log) -> None:
    base = log.end_offset
    log.append_own(batch(base), base_offset=base, end_offset=base + 1, epoch=1)


async def open_log(folder: str, name: str, *, sync: SyncStrategy, reserve_bytes: int = 0) -> Log:
    config = LogConfig(own_recovery_point=True, reserve_bytes=reserve_bytes)
    return await Log.open(RealDisk(sync=sync), f"{folder}/{name}", config, now_ms=lambda: 0)


async def measure_work(folder: str) -> None:
    log = await open_log(folder, "work-0", sync=SyncStrategy.INLINE)
    one, thousand, megabyte = batch(), batch(count=1000), batch(count=1000, size=1000)
    (whole,) = read_batches(thousand)

    def as_leader() -> None:
        for _ in range(1000):
            info = log.append_as_leader(one, 1)
            log.read_tail(info.base_offset, _TAIL)

    def own() -> None:
        for _ in range(1000):
            append_own(log)

    def large() -> None:
        for _ in range(10):
            log.append_as_leader(megabyte, 1)

    def build() -> None:
        for _ in range(1000):
            batch()

    rows = [
        ("append a client's batch of 170 bytes, read it through the tail", best_us(as_leader, 1000)),
        ("build and append a batch of one record", best_us(own, 1000)),
        ("append a client's batch of 1 MB", best_us(large, 10)),
        ("build a batch of one record", best_us(build, 1000)),
        ("build, per record of 100 bytes, 1000 in a batch", best_us(lambda: void(batch(count=1000)), 1000)),
        ("decode, per record of 100 bytes, 1000 in a batch", best_us(lambda: void(records_of(whole)), 1000)),
    ]
    print(f"{'':66}{'us':>10}")
    for name, value in rows:
        print(f"{name:66}{value:10.1f}")
    log.close()


def void(_: object) -> None:
    pass


async def measure_sync(folder: str, appends: int) -> None:
    kinds = {
        f"append and sync, {sync.value}, {'reserve' if reserve else 'no reserve'}": await open_log(
            folder, f"{sync.value}{reserve}-0", sync=sync, reserve_bytes=reserve
        )
        for sync in SyncStrategy
        for reserve in (0, _RESERVE_BYTES)
    }
    taken: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(appends):
        for name, log in kinds.items():
            start = time.perf_counter()
            append_own(log)
            await log.sync()
            taken[name].append((time.perf_counter() - start) * 1e6)
    shares = (0.1, 0.5, 0.9, 0.99)
    print()
    print(f"{'us, percentiles':46}" + "".join(f"{f'p{share * 100:.0f}':>9}" for share in shares))
    for name, values in taken.items():
        values.sort()
        print(f"{name:46}" + "".join(f"{values[int(len(values) * share)]:9.0f}" for share in shares))
        kinds[name].close()


async def main() -> None:
    parser = argparse.ArgumentParser(description="What the log costs.")
    parser.add_argument("--folder", default=".")
    parser.add_argument("--appends", type=int, default=300, help="for each kind of sync")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        await measure_work(folder)
        await measure_sync(folder, arguments.appends)


if __name__ == "__main__":
    trio.run(main)
