"""A compaction of a large log lets others run, by the processor time of the loop's thread."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from gaps import within_gap
from large_metadata import no_full_collection

from quorate.log import Log, LogConfig
from quorate.log.batches.batch import HEADER_BYTES, read_header, seal
from quorate.log.batches.records import RecordContent, build_keyed_batch
from quorate.log.compaction.compactor import compact
from quorate.log.compaction.terms import CompactionBounds, CompactionRules
from quorate.log.compression import Codec, compress
from quorate.runtime.real import RealDisk, SyncStrategy
from quorate.runtime.real.real_compute import ThreadCompute
from quorate.types import Offset
from tests.log.conftest import FreePace

pytestmark = pytest.mark.real_time

RECORDS = 50_000
CONFIG = LogConfig(segment_bytes=16 << 20, tail_bytes=0)
T0 = 1_700_000_000_000


@pytest.fixture(autouse=True)
def _no_full_collection() -> Iterator[None]:
    with no_full_collection():
        yield


@dataclass(frozen=True)
class Shape:
    """`keys`: of `RECORDS` records, in turn."""

    keys: int
    in_a_batch: int
    value_bytes: int = 10
    codec: Codec | None = None

    def batches(self) -> Iterator[bytes]:
        value = b"v" * self.value_bytes
        for base in range(0, RECORDS, self.in_a_batch):
            count = min(self.in_a_batch, RECORDS - base)
            records = [RecordContent(b"key-%09d" % ((base + at) % self.keys), value) for at in range(count)]
            batch = build_keyed_batch(base_offset=base, epoch=1, timestamp_ms=T0, records=records)
            yield batch if self.codec is None else compressed(batch, self.codec)


def compressed(batch: bytes, codec: Codec) -> bytes:
    header = read_header(batch)
    return seal(
        bytes(compress(codec, batch[HEADER_BYTES:])),
        base_offset=header.base_offset,
        epoch=1,
        attributes=header.attributes | codec.value,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=header.count,
    )


SHAPES = {
    "single records, few keys": Shape(keys=100, in_a_batch=1),
    "single records, all kept": Shape(keys=RECORDS, in_a_batch=1),
    "large batches, few keys": Shape(keys=1000, in_a_batch=20_000),
    "large batches, all kept": Shape(keys=RECORDS, in_a_batch=20_000),
    "large batches, every second kept": Shape(keys=RECORDS * 3 // 4, in_a_batch=20_000),
    "one batch": Shape(keys=RECORDS // 2, in_a_batch=RECORDS, codec=Codec.ZSTD),
    "large compressed batches": Shape(keys=RECORDS * 3 // 4, in_a_batch=20_000, codec=Codec.ZSTD),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_a_whole_compaction_of_a_large_log_lets_others_run(tmp_path: Path, shape: Shape) -> None:
    disk = RealDisk(sync=SyncStrategy.THREAD)
    log = await Log.open(disk, f"{tmp_path}/t-0", CONFIG, now_ms=lambda: T0)
    for batch in shape.batches():
        log.append_as_follower(batch)
    log.configure(replace(CONFIG, segment_bytes=1))
    log.append_as_follower(
        build_keyed_batch(base_offset=RECORDS, epoch=1, timestamp_ms=T0, records=[RecordContent(b"end", b"")])
    )
    log.configure(CONFIG)
    await log.flush()
    bounds = CompactionBounds(dirty_start=Offset(0), end=log.active_base_offset)
    assert bounds.end == RECORDS
    rules = CompactionRules(delete_retention_ms=1000, now_ms=T0, map_bytes=64 << 20)
    result = await within_gap(
        compact(log, bounds, rules, FreePace(), lambda header: False, ThreadCompute()),
        what="a whole compaction",
    )
    assert result.cleaned_to == RECORDS
    log.close()
