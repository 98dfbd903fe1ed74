"""The metadata of a large cluster, written as the metadata log that the scale suite loads."""

import random
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice

from quorate.broker.metadata.metadata_records import (
    BrokerEndpoint,
    FeatureLevel,
    Partition,
    Record,
    RegisterBroker,
    Topic,
)
from quorate.broker.metadata.record_codec import encode
from quorate.broker.metadata.supported_features import LATEST_METADATA_VERSION, METADATA_VERSION
from quorate.log import Log, LogConfig
from quorate.log.batches.records import build_batch
from quorate.runtime import Disk
from quorate.types import Epoch

EPOCH = Epoch(1)
"""The epoch of all records."""
FIRST_BROKER = 101
"""Apart from the ids of real nodes."""
HEAVY = FIRST_BROKER
"""Leads a third of all partitions."""
ON_EACH_OTHER = 100_000
"""Partitions on each other broker, a third of them led by it."""
_BATCH_RECORDS = 500
_TOPIC_SIZES = (10, 50, 100, 240)


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """Topics of 10 to 240 partitions, 100 on average; three replicas each, all in the ISR."""

    partitions: int
    aged: bool = True
    """Every partition has epochs of its own, its replicas are in one of three directories of their broker
    each, and one in fifty lacks a member of its ISR; or else it is as on its first day."""

    @property
    def brokers(self) -> range:
        others = round(self.partitions * 8 / 3 / ON_EACH_OTHER)
        return range(FIRST_BROKER, FIRST_BROKER + 1 + max(4, others))

    def records(self) -> Iterator[Record]:
        """Yield the records that make it, the same ones each time."""
        entropy = random.Random(7)
        directories = {
            broker: [_drawn(entropy) for _ in range(3 if self.aged else 1)] for broker in self.brokers
        }
        yield FeatureLevel(name=METADATA_VERSION, level=LATEST_METADATA_VERSION)
        for offset, broker in enumerate(self.brokers, 1):
            yield RegisterBroker(
                broker_id=broker,
                incarnation_id=_drawn(entropy),
                broker_epoch=offset,
                listeners=(BrokerEndpoint(name="PLAINTEXT", host="127.0.0.1", port=9),),
                log_dirs=tuple(directories[broker]),
                fenced=False,
            )
        left = self.partitions
        for number, size in enumerate(cycle(_TOPIC_SIZES)):
            if not left:
                return
            count = min(size, left)
            left -= count
            topic_id = _drawn(entropy)
            yield Topic(name=f"topic-{number}", topic_id=topic_id)
            # As Kafka places them: in turn from a random broker, the followers at a random distance.
            start, shift = entropy.randrange(len(self.brokers)), entropy.randrange(len(self.brokers))
            for partition_id in range(count):
                replicas = self._replicas(partition_id, start, shift)
                isr, leader_epoch, changes = replicas, 0, 3
                if self.aged:
                    leader_epoch = entropy.randrange(60)
                    changes += leader_epoch + entropy.randrange(300)
                    if not entropy.randrange(50):
                        isr = replicas[:2]
                yield Partition(
                    topic_id=topic_id,
                    partition_id=partition_id,
                    replicas=replicas,
                    isr=isr,
                    leader=replicas[0],
                    leader_epoch=Epoch(leader_epoch),
                    partition_epoch=changes,
                    directories=tuple(entropy.choice(directories[each]) for each in replicas),
                )

    def _replicas(self, partition_id: int, start: int, shift: int) -> tuple[int, ...]:
        others = self.brokers[1:]
        first = others[(start + partition_id) % len(others)]
        second = others[(start + partition_id + 1 + shift % (len(others) - 2)) % len(others)]
        third = others[(start + partition_id + 2 + shift % (len(others) - 2)) % len(others)]
        if partition_id % 3 == 0:
            return (HEAVY, first, second)
        return (first, second, third)


async def write_log(disk: Disk, folder: str, records: Iterable[Record]) -> None:
    """Write the records as a log of batches of 500, as far as a quorum would have."""
    config = LogConfig(own_recovery_point=True, max_batch_bytes=1 << 20)
    log = await Log.open(disk, folder, config, now_ms=lambda: 0)
    try:
        values = map(encode, records)
        while batch := list(islice(values, _BATCH_RECORDS)):
            base = log.end_offset
            end = base + len(batch)
            data = build_batch(base_offset=base, epoch=EPOCH, timestamp_ms=1, values=batch)
            log.append_own(data, base_offset=base, end_offset=end, epoch=EPOCH)
        await log.sync()
    finally:
        log.close()


def _drawn(entropy: random.Random) -> uuid.UUID:
    return uuid.UUID(int=entropy.getrandbits(128), version=4)
