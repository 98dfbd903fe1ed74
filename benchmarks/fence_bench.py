"""What the metadata of many partitions costs: `python benchmarks/fence_bench.py 100000`.

One broker that is in every ISR is fenced, by the shipped controller over a log that commits at once; then the
batches that it wrote are applied by a node. Seconds of the processor, and the longest piece of each in
milliseconds; a hundred partitions to a topic, three replicas. No garbage is collected meanwhile.
"""

import argparse
import gc
import random
import time
import uuid
from collections.abc import Iterator, Sequence

import trio

from quorate.broker.controller.controller import Controller, ControllerSettings
from quorate.broker.controller.rpc import BrokerHeartbeatRequest
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import FeatureLevel, Partition, Record, RegisterBroker, Topic
from quorate.broker.metadata.record_codec import decode, encode
from quorate.broker.metadata_cache import MetadataCache
from quorate.raft.state_machine.interface import CommittedBatch
from quorate.runtime.entropy import Entropy
from quorate.types import Epoch, Offset

PER_TOPIC = 100


def records(partitions: int) -> Iterator[Record]:
    yield FeatureLevel(name="metadata.version", level=1)
    for broker_id in (1, 2, 3):
        yield RegisterBroker(
            broker_id=broker_id, incarnation_id=uuid.UUID(int=broker_id), broker_epoch=broker_id, fenced=False
        )
    for number in range(partitions // PER_TOPIC):
        topic_id = uuid.UUID(int=(7 << 100) + number)
        yield Topic(name=f"t{number}", topic_id=topic_id)
        for partition_id in range(PER_TOPIC):
            replicas = ((1, 2, 3), (2, 3, 1), (3, 1, 2))[partition_id % 3]
            yield Partition(
                topic_id=topic_id,
                partition_id=partition_id,
                replicas=replicas,
                isr=replicas,
                leader=replicas[0],
            )


class Log:
    """Commits at once, and keeps the batches."""

    def __init__(self, next_offset: Offset) -> None:
        self.next_offset = next_offset
        self.batches: list[tuple[int, Sequence[bytes]]] = []

    def append_nowait(self, batch: Sequence[bytes], *, epoch: int) -> "Committed":
        base, self.next_offset = self.next_offset, Offset(self.next_offset + len(batch))
        self.batches.append((base, batch))
        return Committed(base)

    def resign(self) -> None:
        raise RuntimeError("the controller gave up")


class Committed:
    def __init__(self, base_offset: Offset) -> None:
        self.base_offset = base_offset

    async def wait(self) -> "Committed":
        await trio.lowlevel.checkpoint()
        return self


class Passes(trio.abc.Instrument):
    """The loop's passes, each between two looks at the outside world."""

    def __init__(self) -> None:
        self.total = self.longest = 0.0
        self._began = time.thread_time()

    def after_io_wait(self, timeout: float) -> None:
        self._began = time.thread_time()

    def before_io_wait(self, timeout: float) -> None:
        taken = time.thread_time() - self._began
        self.total += taken
        self.longest = max(self.longest, taken)


async def fence(image: MetadataImage) -> list[tuple[int, Sequence[bytes]]]:
    log = Log(image.offset + 1)
    controller = Controller(
        log, settings=ControllerSettings(cluster_id="c"), entropy=Entropy(random.Random(1))
    )
    request = BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=1, current_metadata_offset=1 << 40, want_fence=True
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(controller.performer.run)
        controller.activate(image, epoch=Epoch(1))
        await trio.lowlevel.checkpoint()
        passes = Passes()
        trio.lowlevel.add_instrument(passes)
        await controller.answer(request)
        while image.isr_count(1):
            await trio.lowlevel.checkpoint()
        trio.lowlevel.remove_instrument(passes)
        nursery.cancel_scope.cancel()
    say("fence: decide, encode, apply", passes.total, passes.longest)
    return log.batches


def say(what: str, seconds: float, longest: float) -> None:
    print(f"{what:32} {seconds:8.2f} s   longest piece {longest * 1000:6.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("partitions", type=int)
    asked = parser.parse_args()
    gc.disable()
    data = [encode(record) for record in records(asked.partitions)]
    began = time.thread_time()
    image = MetadataImage()
    for offset, record in enumerate(data):
        image.apply(decode(record), offset=offset, epoch=1)
    replayed = time.thread_time() - began
    print(f"{'replay':32} {replayed:8.2f} s   {len(data):,} records, {len(data) / replayed:,.0f} a second")
    began = time.thread_time()
    cache = MetadataCache(image.copy())
    copied = time.thread_time() - began
    say("copy of the image", copied, copied)
    batches = trio.run(fence, image)
    total = longest = 0.0
    for base, batch in batches:
        began = time.thread_time()
        cache.apply(CommittedBatch(base_offset=Offset(base), epoch=Epoch(1), timestamp_ms=0, records=batch))
        taken = time.thread_time() - began
        total, longest = total + taken, max(longest, taken)
    say("a node applies it", total, longest)


if __name__ == "__main__":
    main()
