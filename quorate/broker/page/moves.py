"""The reassignments that a node leads, with what their new replicas still lack. A leader alone knows both
ends: what others lead, their own pages tell.
"""

from dataclasses import dataclass
from heapq import nlargest
from typing import Final

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.page.page_state import Json
from quorate.broker.replication.replica.hosted_replicas import HostedReplicas
from quorate.broker.replication.replica.partition_replica import PartitionReplica
from quorate.runtime import Slices

LISTED_MAX: Final = 200
"""Moves that are told; more are counted."""


@dataclass(frozen=True, slots=True)
class Lacking:
    """What the replicas that a reassignment adds to a partition lack of its leader's log."""

    topic: str
    partition: int
    records: dict[int, int]
    """The records, by the broker of the new replica."""
    bytes_left: int
    """Of all of them. An estimate: records are taken to be alike."""


async def moves(hosted: HostedReplicas, image: MetadataImage, *, bytes_per_s: float) -> dict[str, Json]:
    """Return the moves that are led here, those with the most to copy first. `bytes_per_s`: what this node
    sends to new replicas lately."""
    found: list[Lacking] = []
    # Most clusters move nothing most of the time: no walk then.
    if image.reassigning_count:
        slices = Slices()
        for each in hosted.each():
            lacking = _lacking(each)
            if lacking is not None:
                found.append(lacking)
            await slices.pause()
    bytes_left = sum(each.bytes_left for each in found)
    return {
        "total": image.reassigning_count,
        "here": len(found),
        "bytes_left": bytes_left,
        "seconds_left": round(bytes_left / bytes_per_s) if bytes_left and bytes_per_s >= 1 else None,
        "first": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "records": {str(broker): count for broker, count in each.records.items()},
                "bytes_left": each.bytes_left,
            }
            for each in nlargest(LISTED_MAX, found, key=lambda each: each.bytes_left)
        ],
    }


def _lacking(partition: PartitionReplica) -> Lacking | None:
    """Return None if the replica doesn't lead, or its partition does not move."""
    leading, state, log = partition.leading, partition.state, partition.log
    if leading is None or state is None or not state.is_reassigning:
        return None
    held = log.end_offset - log.log_start_offset
    records: dict[int, int] = {}
    for broker in state.adding_replicas:
        remote = leading.remotes.get(broker)
        # One that has not fetched in this leader epoch may have nothing yet.
        end = log.log_start_offset if remote is None else max(remote.log_end_offset, log.log_start_offset)
        records[broker] = max(log.end_offset - end, 0)
    left = log.size_bytes * sum(records.values()) // held if held else 0
    return Lacking(partition.topic, partition.partition_id, records, left)
