"""The progress of moves: what is left to copy, and how long that may take."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import trio
from kio.schema.describe_log_dirs.v2.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v2.response import DescribeLogDirsResponse
from kio.schema.errors import ErrorCode

from quorate.broker.wire import WireClient
from quorate.cli.console import connect_any
from quorate.cli.reassigning.assignment_files import Replica
from quorate.cli.reassigning.cluster_view import BrokerView, ClusterView, Move
from quorate.runtime import NetworkError

_DESCRIBE_LOG_DIRS: Final = 35

Sizes = Mapping[tuple[Replica, int], int]
"""The bytes of each replica that a broker told of, by partition and broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What is left of some moves at one moment (seconds on any clock)."""

    at: float
    left: Mapping[Replica, int | None]
    """Bytes that are still to be copied, for each move under way; None: no broker told of its size."""

    @property
    def bytes_left(self) -> int:
        """Of all moves whose size is known."""
        return sum(each for each in self.left.values() if each is not None)

    def seconds_left(self, before: "Progress") -> float | None:
        """How long the rest takes at the pace since `before`; None: nothing was copied since."""
        copied, elapsed = before.bytes_left - self.bytes_left, self.at - before.at
        return math.ceil(self.bytes_left * elapsed / copied) if copied > 0 and elapsed > 0 else None


async def progress_of(moves: Mapping[Replica, Move], view: ClusterView) -> Progress:
    """Ask the brokers for the sizes of the replicas that move. A broker that does not answer tells of
    none."""
    involved = {broker for move in moves.values() for broker in move.replicas}
    brokers = [view.brokers[each] for each in sorted(involved) if each in view.brokers]
    sizes = await _sizes(brokers)
    return Progress(
        at=trio.current_time(), left={key: bytes_left(key, move, sizes) for key, move in moves.items()}
    )


def bytes_left(key: Replica, move: Move, sizes: Sizes) -> int | None:
    """The bytes that the replicas that are being added still lack; None if nobody told of a whole one."""
    whole = max((sizes[key, each] for each in move.original if (key, each) in sizes), default=None)
    if whole is None:
        return None
    return sum(max(whole - sizes.get((key, each), 0), 0) for each in move.adding)


async def _sizes(brokers: Iterable[BrokerView]) -> Sizes:
    sizes: dict[tuple[Replica, int], int] = {}

    async def ask(broker: BrokerView) -> None:
        try:
            async with connect_any([broker.address]) as client:
                sizes.update(await _sizes_on(client, broker.broker_id))
        except NetworkError:
            pass

    async with trio.open_nursery() as nursery:
        for broker in brokers:
            nursery.start_soon(ask, broker)
    return sizes


async def _sizes_on(client: WireClient, broker_id: int) -> Sizes:
    if _DESCRIBE_LOG_DIRS not in client.versions:
        return {}
    answer = await client.send(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
    return {
        (Replica(str(topic.name), int(part.partition_index)), broker_id): int(part.partition_size)
        for directory in answer.results
        if directory.error_code is ErrorCode.none
        for topic in directory.topics
        for part in topic.partitions
        if not part.is_future_key
    }
