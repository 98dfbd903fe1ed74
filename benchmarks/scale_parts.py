"""One measurement of the scale suite, in a process of its own: prints its figures as JSON.

Seconds are of the processor (user and system). The garbage collector works as in a node
(`short_collections`).
"""

import argparse
import gc
import itertools
import json
import os
import random
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

import trio
from clusters import resident_mib
from fence_bench import Log as CommittingLog
from fence_bench import Passes
from population import EPOCH, FIRST_BROKER, HEAVY, Population, write_log

from quorate.broker.controller.controller import Controller
from quorate.broker.controller.controller_settings import ControllerSettings
from quorate.broker.controller.rpc import BrokerHeartbeatRequest
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import PartitionChange
from quorate.broker.metadata.record_codec import encode
from quorate.broker.metadata_cache import MetadataCache
from quorate.log import Log, LogConfig
from quorate.log.batches.batch import read_batches
from quorate.log.batches.records import values_of
from quorate.raft.state_machine.interface import CommittedBatch
from quorate.raft.storage.storage import LOG_FOLDER
from quorate.runtime import Entropy
from quorate.runtime.real import SyncStrategy, real_runtime, short_collections
from quorate.types import Epoch, Offset, SnapshotId

_READ_BYTES = 1 << 20
_DELTAS = 300

Figures = dict[str, float]


def read_log(cache: MetadataCache, folder: str) -> int:
    """Apply a log as a node's applier does. Return the number of records."""

    async def read() -> int:
        disk = real_runtime(sync=SyncStrategy.INLINE).disk
        log = await Log.open(disk, folder, LogConfig(own_recovery_point=True), now_ms=lambda: 0)
        offset = 0
        while offset < log.end_offset:
            for batch in read_batches(await log.read(offset, _READ_BYTES)):
                cache.apply(
                    CommittedBatch(
                        base_offset=Offset(batch.header.base_offset),
                        epoch=Epoch(batch.header.leader_epoch),
                        timestamp_ms=batch.header.max_timestamp,
                        records=values_of(batch),
                    )
                )
                offset = batch.header.end_offset
        log.close()
        return offset

    return trio.run(read)


def timed(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def load(folder: Path) -> Figures:
    """From the log; then its snapshot written and loaded, and what a node does with an image of this size."""
    cache = MetadataCache()
    before = resident_mib(os.getpid())
    began = time.process_time()
    records = read_log(cache, str(folder / LOG_FOLDER))
    taken = time.process_time() - began
    found: Figures = {
        "records": records,
        "process_mib": before,
        "loaded_mib": resident_mib(os.getpid()),
        "replay_s": taken,
    }
    image = cache.image
    found["copy_ms"] = timed(image.copy) * 1e3
    found["count_ms"] = timed(image.partition_count) * 1e3
    found |= deltas(cache)
    found |= snapshot(cache, folder / "snapshot")
    gc.unfreeze()
    found["full_collection_ms"] = timed(gc.collect) * 1e3
    return found


def deltas(cache: MetadataCache) -> Figures:
    """Changes of one partition each, which listeners are told of: as long for any size of the image."""
    keys = [key for key, _ in itertools.islice(cache.image.all_partitions(), _DELTAS)]
    offset = itertools.count(cache.offset + 1)
    reached: list[int] = []
    cache.subscribe(lambda delta, image: reached.append(sum(1 for _ in delta.partitions)))
    taken: list[float] = []
    for lap in range(3):
        for key in keys:
            change = encode(PartitionChange(topic_id=key.topic_id, partition_id=key.partition_id, leader=lap))
            batch = CommittedBatch(
                base_offset=Offset(next(offset)), epoch=EPOCH, timestamp_ms=1, records=[change]
            )
            taken.append(timed(lambda batch=batch: cache.apply(batch)))  # type: ignore[misc]
    assert reached == [1] * len(taken)
    return {"delta_us": median(taken) * 1e6, "delta_longest_ms": max(taken) * 1e3}


def snapshot(cache: MetadataCache, file: Path) -> Figures:
    size = 0
    began = time.process_time()
    with file.open("wb") as output:
        for chunk in cache.take_snapshot():
            output.write(len(chunk).to_bytes(4) + chunk)
            size += len(chunk)
    wrote = time.process_time() - began
    other = MetadataCache()
    began = time.process_time()
    loader = other.load_snapshot(SnapshotId(Offset(cache.offset + 1), EPOCH))
    with file.open("rb") as chunks:
        while head := chunks.read(4):
            loader.add(chunks.read(int.from_bytes(head)))
    loader.install()
    loaded = time.process_time() - began
    assert other.image == cache.image
    return {"snapshot_mb": size / 1e6, "snapshot_write_s": wrote, "snapshot_load_s": loaded}


def traced(folder: Path) -> Figures:
    """By Python's own account, which makes everything slow: for smaller images."""
    cache = MetadataCache()
    tracemalloc.start()
    read_log(cache, str(folder / LOG_FOLDER))
    gc.collect()
    return {"traced_bytes": tracemalloc.get_traced_memory()[0] / cache.image.partition_count()}


def leave(folder: Path, broker_id: int, *, shut_down: bool) -> Figures:
    """A broker is fenced, or shuts down in order: until it leads nothing and is in no ISR."""
    cache = MetadataCache()
    read_log(cache, str(folder / LOG_FOLDER))
    image = cache.image.copy()
    concerned, led = image.isr_count(broker_id), image.leader_count(broker_id)
    found, batches = trio.run(_leave, image, broker_id, shut_down)
    longest = total = 0.0
    for base, records in batches:
        batch = CommittedBatch(base_offset=Offset(base), epoch=EPOCH, timestamp_ms=1, records=records)
        taken = timed(lambda batch=batch: cache.apply(batch))  # type: ignore[misc]
        total, longest = total + taken, max(longest, taken)
    assert cache.image.isr_count(broker_id) == cache.image.leader_count(broker_id) == 0
    return {
        **found,
        "concerned": concerned,
        "led": led,
        "applied_s": total,
        "applied_longest_ms": longest * 1e3,
    }


async def _leave(
    image: MetadataImage, broker_id: int, shut_down: bool
) -> tuple[Figures, list[tuple[int, list[bytes]]]]:
    log = CommittingLog(Offset(image.offset + 1))
    controller = Controller(
        log, settings=ControllerSettings(cluster_id="c"), entropy=Entropy(random.Random(1))
    )
    held = image.broker(broker_id)
    assert held is not None
    request = BrokerHeartbeatRequest(
        broker_id=broker_id, broker_epoch=held.epoch, current_metadata_offset=1 << 40
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(controller.performer.run)
        began, activating = time.process_time(), Passes()
        controller.activate(image, epoch=Epoch(EPOCH + 1))
        activated = time.process_time() - began
        # What it looks for that an earlier controller may have left undone.
        trio.lowlevel.add_instrument(activating)
        while controller.tenure is not None and controller.tenure.chores:
            await trio.lowlevel.checkpoint()
        trio.lowlevel.remove_instrument(activating)
        leaving = Passes()
        trio.lowlevel.add_instrument(leaving)
        await controller.answer(replace(request, want_fence=not shut_down, want_shut_down=shut_down))
        while image.isr_count(broker_id):
            await trio.lowlevel.checkpoint()
        trio.lowlevel.remove_instrument(leaving)
        nursery.cancel_scope.cancel()
    found = {
        "activate_ms": activated * 1e3,
        "resume_s": activating.total,
        "resume_longest_ms": activating.longest * 1e3,
        "decide_s": leaving.total,
        "longest_ms": leaving.longest * 1e3,
    }
    return found, [(base, list(batch)) for base, batch in log.batches]


PARTS: dict[str, Callable[[Path], Figures]] = {
    "load": load,
    "traced": traced,
    "fence": lambda folder: leave(folder, FIRST_BROKER + 1, shut_down=False),
    "shut down": lambda folder: leave(folder, HEAVY, shut_down=True),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["write", *PARTS])
    parser.add_argument("--folder", type=Path, required=True, help="of the log")
    parser.add_argument("--partitions", type=int, default=10_000, help="write: so many")
    parser.add_argument("--young", action="store_true", help="write: as on its first day")
    asked = parser.parse_args()
    if asked.part == "write":
        population = Population(partitions=asked.partitions, aged=not asked.young)
        disk = real_runtime(sync=SyncStrategy.INLINE).disk
        trio.run(write_log, disk, str(asked.folder / LOG_FOLDER), population.records())
        return
    with short_collections():
        print(json.dumps(PARTS[asked.part](asked.folder)))


if __name__ == "__main__":
    main()
