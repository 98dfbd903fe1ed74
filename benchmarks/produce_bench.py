"""What it costs a leader to look at every record: `python benchmarks/produce_bench.py [--folder FOLDER]`.

Each batch is appended to a log twice in turn, after a check of header and CRC only (as it was before) and
after the whole check; processor time, medians of the rounds. The rest of a Produce (the socket, the codec of
requests, followers) costs the same both ways and is not in it.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Iterator
from statistics import median
from typing import Final

import trio

from quorate.broker.replication.producing.batch_check import BatchChecker, ProduceRules, read_produced
from quorate.broker.wire.budget import MemoryBudget
from quorate.log import Log, LogConfig
from quorate.log.batches.batch import HEADER_BYTES, seal
from quorate.log.batches.records import RecordContent, build_keyed_batch
from quorate.log.compression import Codec, compress
from quorate.runtime.real.real_compute import ThreadCompute
from quorate.runtime.real.real_disk import RealDisk, SyncStrategy
from quorate.runtime.slices import Slices

_MEGABYTE: Final = 1_000_000
_RULES: Final = ProduceRules(
    max_message_bytes=2 * _MEGABYTE,
    codec=None,
    log_append_time=False,
    before_max_ms=(1 << 63) - 1,
    after_max_ms=3_600_000,
    keys_needed=False,
)
_WORDS: Final = (b"offset ", b"leader ", b"epoch ", b"0123456789 ", b"high watermark ", b"true ", b"x")


def values(count: int, size: int, *, varied: bool) -> list[bytes]:
    """Text that compresses about as well as JSON; `varied`: from half of `size` to one and a half."""
    draw = random.Random(size)
    text = b"".join(draw.choice(_WORDS) for _ in range(4 * size))
    made = []
    for _ in range(count):
        start = draw.randrange(size)
        made.append(text[start : start + (draw.randint(size // 2, size + size // 2) if varied else size)])
    return made


def batch(records: list[bytes], *, keyed: bool, codec: Codec) -> bytes:
    plain = build_keyed_batch(
        base_offset=0,
        epoch=0,
        timestamp_ms=1000,
        records=[
            RecordContent(b"user-%06d" % number if keyed else None, each)
            for number, each in enumerate(records)
        ],
    )
    if codec is Codec.NONE:
        return plain
    return seal(
        compress(codec, plain[HEADER_BYTES:]),
        base_offset=0,
        epoch=0,
        attributes=codec,
        last_offset_delta=len(records) - 1,
        base_timestamp=1000,
        max_timestamp=1000,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=len(records),
    )


def cases() -> Iterator[tuple[str, int, bytes]]:
    """(what, records in it, the batch)."""
    for size, count in ((1024, 970), (100, 8900)):
        for varied in (False, True):
            kind = "of varied sizes" if varied else "alike"
            made = batch(values(count, size, varied=varied), keyed=True, codec=Codec.NONE)
            yield f"1 MB, {size} B records {kind}", count, made
    yield (
        "16 KiB, 1024 B records of varied sizes",
        15,
        batch(values(15, 1024, varied=True), keyed=True, codec=Codec.NONE),
    )
    yield "one record of 100 B", 1, batch(values(1, 100, varied=False), keyed=True, codec=Codec.NONE)
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        made = batch(values(970, 1024, varied=True), keyed=True, codec=codec)
        yield f"1 MB of varied 1024 B records, {codec.name.lower()}", 970, made


async def measure(log: Log, data: bytes, *, rounds: int, at_once: int) -> tuple[float, float]:
    """Microseconds of processor time for each batch: without the look at records, and with it."""
    checker = BatchChecker(ThreadCompute(), lambda: 2000, uncompressed_max_bytes=100 * _MEGABYTE)
    before: list[float] = []
    after: list[float] = []
    view = memoryview(data)
    memory = MemoryBudget(256 * _MEGABYTE)
    for _ in range(rounds):
        started = time.process_time()
        for _ in range(at_once):
            header = read_produced(view, max_bytes=_RULES.max_message_bytes)
            log.append_as_leader(view, 1, headers=[header])
        between = time.process_time()
        for _ in range(at_once):
            checked = await checker.check(view, _RULES, Slices(), memory=memory)
            log.append_as_leader(checked.records, 1, headers=checked.headers)
        before.append(between - started)
        after.append(time.process_time() - between)
        await log.truncate_fully_and_start_at(log.end_offset)
    return median(before) / at_once * 1e6, median(after) / at_once * 1e6


async def run(folder: str, rounds: int) -> None:
    config = LogConfig(max_batch_bytes=2 * _MEGABYTE)
    log = await Log.open(RealDisk(sync=SyncStrategy.INLINE), f"{folder}/bench-0", config, now_ms=lambda: 2000)
    print("| batch | without, us | with, us | ratio | us a record | MB/s without | MB/s with |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for what, count, data in cases():
        at_once = max(1, 20_000 // (count + 20))
        old, new = await measure(log, data, rounds=rounds, at_once=at_once)
        print(
            f"| {what} | {old:,.1f} | {new:,.1f} | {new / old:.2f} | {(new - old) / count:.3f} "
            f"| {len(data) / old:,.0f} | {len(data) / new:,.0f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", default=".", help="on the device that takes the log")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="quorate-bench-", dir=options.folder) as folder:
        trio.run(run, folder, options.rounds)


if __name__ == "__main__":
    main()
