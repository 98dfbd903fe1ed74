"""The metadata log of a live cluster, read as a Kafka consumer would: any broker serves it, up to its high
watermark. The reader is no replica of the quorum, which never waits for it.

Each call is a trio run of its own with one connection at a time. What breaks (a broker gone, one that lags,
a leader change) is met by asking the next broker, again and again within bounds.
"""

import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs.fetch_codec import (
    FetchedPartition,
    FetchPartition,
    FetchTopic,
    KafkaFetchRequest,
)
from quorate.broker.wire.kafka_client import WireClient, open_client
from quorate.broker.wire.wire_errors import KafkaError
from quorate.history.history_errors import LogUnavailableError
from quorate.history.metadata_history import (
    CLIENT_ID,
    METADATA_TOPIC,
    Extent,
    MetadataHistory,
    StoredSnapshot,
)
from quorate.history.slabs import Slab, whole_batches
from quorate.history.snapshot_file import opened_file
from quorate.kafka_bytes.varints import MalformedError
from quorate.log import InvalidBatchError
from quorate.log.snapshots.snapshot_file import SnapshotReader, name_of
from quorate.quorum_state import SkippedBatches
from quorate.runtime import Address, Network, NetworkError
from quorate.runtime.real import RealNetwork
from quorate.types import Offset, SnapshotId

_EARLIEST: Final = -2
_LATEST: Final = -1
_FETCH_BYTES: Final = 1024 * 1024
_RUN_BYTES: Final = 8 * 1024 * 1024
"""Read in one trio run, and so held in memory."""
_FETCH_BY_NAME: Final = 12
"""The last version of Fetch that names topics."""
_CONTROLLERS: Final = 2
"""The endpoint type of DescribeCluster."""
_CONSUMER: Final = -1
_MAX_WAIT_MS: Final = 500

T = TypeVar("T")


class _BehindError(Exception):
    """This broker does not have, or does not know to be committed, what others do."""


_RETRIABLE = (NetworkError, KafkaError, MalformedError, InvalidBatchError, _BehindError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLog(MetadataHistory):
    """A `MetadataHistory` in a live cluster: the log that a broker serves to any consumer, and the snapshots
    of all controllers that answer."""

    bootstrap_servers: tuple[Address, ...]
    """The listeners of brokers, or with `controllers` those of controllers."""
    retries: int = 2
    """The number of further tries of all servers before a read fails."""
    retry_interval_ms: int = 200
    request_timeout_ms: int = 10_000
    """The time for each answer."""
    controllers: bool = False
    """True if the servers are controllers, at their controller listeners."""
    network: Network = field(default_factory=RealNetwork, repr=False, compare=False)
    """The network that reaches them, with the protection of their listeners."""

    @property
    def place(self) -> str:
        """Return the words for the cluster in messages."""
        return f"the cluster at {','.join(map(str, self.bootstrap_servers))}"

    def extent(self, *, at_least: int = 0) -> Extent:
        """Return what may be read now. See `MetadataHistory.extent`."""
        return trio.run(self._extent, at_least)

    async def _extent(self, at_least: int) -> Extent:
        best: Extent | None = None

        async def ask(client: WireClient) -> Extent:
            nonlocal best
            found = await _extent(client, controllers=self.controllers)
            if best is None or found.end_offset > best.end_offset:
                best = found
            if found.end_offset < at_least:
                raise _BehindError(f"has nothing committed at offset {found.end_offset} yet")
            return found

        async with _Caller(self) as caller:
            try:
                return await caller.call(ask)
            except LogUnavailableError:
                if best is None:
                    raise
                return best

    def offset_at(self, time_ms: int) -> int | None:
        """Return the offset of the first record at or after `time_ms` (since the Unix epoch, by the clocks of
        the controllers). None: there is none. Raises `LogUnavailableError`."""
        found = trio.run(self._ask, partial(_list_offset, timestamp=time_ms))
        return None if found < 0 else found

    def epoch_end(self, epoch: int) -> int:
        """Return the end offset (exclusive) of the records of this epoch, or of the newest one before it that
        has records; -1: there is none. Raises `LogUnavailableError`."""
        return trio.run(self._ask, partial(_epoch_end, epoch=epoch))

    async def _ask(self, request: Callable[[WireClient], Awaitable[T]]) -> T:
        async with _Caller(self) as caller:
            return await caller.call(request)

    def slabs(self, start: int, end: int) -> Iterator[Slab]:
        """Yield the batches that hold [start, end). See `MetadataHistory.slabs`."""
        offset = start
        while offset < end:
            fetched = trio.run(self._fetch, offset, end)
            if not fetched:
                return
            yield from fetched
            offset = fetched[-1].batch(-1).header.end_offset

    async def _fetch(self, start: int, end: int) -> list[Slab]:
        """Some batches from `start` on, at least one; none if the log begins above `start`."""
        fetched: list[Slab] = []
        size = 0
        offset = start
        async with _Caller(self) as caller:
            while offset < end and size < _RUN_BYTES:
                slab = await caller.call(_Fetch(offset))
                if not slab.positions:
                    break
                fetched.append(slab)
                size += len(slab.data)
                offset = slab.batch(-1).header.end_offset
        return fetched

    def snapshots(self, warn: Callable[[str], None]) -> Sequence[StoredSnapshot]:
        """Return the snapshots of the controllers. See `MetadataHistory.snapshots`. A controller lists those
        only that it can read."""
        try:
            found = self._held()
        except LogUnavailableError:
            if self.extent().start_offset:
                raise
            # The log has it all, only slower.
            return ()
        return sorted({each.snapshot: each for each, _ in found}.values())

    @contextmanager
    def opened(self, snapshot: SnapshotId) -> Iterator[SnapshotReader]:
        """Open a snapshot, once a controller has sent all of it. See `MetadataHistory.opened`."""
        from quorate.history.cluster_snapshots import download_snapshot

        holders = [holder for each, holder in self._held() if each.snapshot == snapshot]
        with tempfile.TemporaryDirectory(prefix="quorate-snapshot-") as folder:
            file = Path(folder) / name_of(snapshot)
            download_snapshot(self.network, holders, snapshot, file, timeout_ms=self.request_timeout_ms)
            with opened_file(str(file), snapshot) as reader:
                yield reader

    def _held(self) -> list[tuple[StoredSnapshot, Address]]:
        # The controllers' client takes as long to import as all else here, and tasks rarely need it.
        from quorate.history.cluster_snapshots import find_snapshots

        return find_snapshots(
            self.network,
            self.bootstrap_servers,
            controllers=self.controllers,
            timeout_ms=self.request_timeout_ms,
        )

    def skipped(self) -> SkippedBatches:
        """Return none: no node is asked for its own. An image can't take a batch that the nodes left out."""
        return SkippedBatches()


async def newest_first(network: Network, addresses: Sequence[Address], *, timeout_s: float) -> list[Address]:
    """Return the servers that answer within a time: those that know of most records as committed first, as a
    node with a slow disk serves the metadata of a minute ago."""
    found: list[tuple[int, Address]] = []

    async def ask(address: Address) -> None:
        try:
            async with open_client(network, address, client_id=CLIENT_ID, timeout_s=timeout_s) as client:
                found.append((await _list_offset(client, _LATEST), address))
        except (NetworkError, KafkaError, MalformedError):
            pass

    with trio.move_on_after(timeout_s):
        async with trio.open_nursery() as nursery:
            for address in addresses:
                nursery.start_soon(ask, address)
    # Of equals the fastest: the order of answers is kept.
    return [address for _, address in sorted(found, key=lambda each: -each[0])]


@dataclass(slots=True)
class _Caller:
    """Asks one broker after the other until one answers, and stays with that one."""

    cluster: ClusterLog
    _brokers: list[Address] = field(default_factory=list)
    _turn: int = 0
    _client: WireClient | None = None
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def __aenter__(self) -> "_Caller":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def call(self, request: Callable[[WireClient], Awaitable[T]]) -> T:
        """What the first broker answers that can. Raises `LogUnavailableError` when none could, all asked
        `retries` + 1 times."""
        if not self._brokers:
            self._brokers = list(self.cluster.bootstrap_servers)
        problems: dict[str, str] = {}
        tries = 0
        while tries < (self.cluster.retries + 1) * len(self._brokers):
            address = self._brokers[self._turn % len(self._brokers)]
            try:
                client = self._client or await self._connect(address)
                return await request(client)
            except _RETRIABLE as error:
                problems[str(address)] = str(error) or type(error).__name__
                await self._close()
                self._turn += 1
                tries += 1
                if tries % len(self._brokers) == 0:
                    await trio.sleep(self.cluster.retry_interval_ms / 1000)
        listed = "; ".join(f"{address}: {problem}" for address, problem in problems.items())
        raise LogUnavailableError(
            f"no broker could serve {METADATA_TOPIC} within {self.cluster.retries + 1} rounds: {listed}. "
            "Check that the brokers run and that these are their client listeners"
        )

    async def _connect(self, address: Address) -> WireClient:
        client = await self._stack.enter_async_context(
            open_client(
                self.cluster.network,
                address,
                client_id=CLIENT_ID,
                timeout_s=self.cluster.request_timeout_ms / 1000,
            )
        )
        self._client = client
        self._learn((await _servers(client, controllers=self.cluster.controllers)).addresses)
        return client

    def _learn(self, found: Sequence[Address]) -> None:
        """More brokers to turn to than were named."""
        self._brokers += [address for address in found if address not in self._brokers]

    async def _close(self) -> None:
        self._client = None
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()


@dataclass(frozen=True, slots=True)
class _Servers:
    cluster: str
    addresses: list[Address]


async def _servers(client: WireClient, *, controllers: bool) -> _Servers:
    if controllers:
        response = await client.call(ApiKey.DESCRIBE_CLUSTER, endpoint_type=_CONTROLLERS)
        by_id = {int(each.broker_id): each for each in getattr(response, "brokers", ())}
    else:
        response = await client.call(ApiKey.METADATA, topics=())
        by_id = {int(each.node_id): each for each in getattr(response, "brokers", ())}
    cluster: object = getattr(response, "cluster_id", None)
    return _Servers(
        cluster if isinstance(cluster, str) else "",
        [Address(str(each.host), int(each.port)) for _, each in sorted(by_id.items())],
    )


async def _extent(client: WireClient, *, controllers: bool) -> Extent:
    cluster = (await _servers(client, controllers=controllers)).cluster
    start, end = await _list_offset(client, _EARLIEST), await _list_offset(client, _LATEST)
    if end <= start:
        # A cluster that has a leader has committed at least that.
        raise _BehindError("does not know yet what is committed")
    return Extent(cluster=cluster, start_offset=start, end_offset=end)


async def _list_offset(client: WireClient, timestamp: int) -> int:
    response = await client.call(
        ApiKey.LIST_OFFSETS,
        replica_id=_CONSUMER,
        isolation_level=0,
        topics=[
            {
                "name": METADATA_TOPIC,
                "partitions": [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}],
            }
        ],
    )
    for topic in getattr(response, "topics", ()):
        for partition in topic.partitions:
            if partition.error_code is not ErrorCode.none:
                raise KafkaError(
                    partition.error_code, f"ListOffsets of {METADATA_TOPIC}: {partition.error_code.name}"
                )
            return int(partition.offset)
    raise MalformedError(f"ListOffsets did not answer for {METADATA_TOPIC}")


async def _epoch_end(client: WireClient, epoch: int) -> int:
    response = await client.call(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        replica_id=_CONSUMER,
        topics=[
            {
                "topic": METADATA_TOPIC,
                "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}],
            }
        ],
    )
    for topic in getattr(response, "topics", ()):
        for partition in topic.partitions:
            return int(partition.end_offset)
    raise MalformedError(f"OffsetForLeaderEpoch did not answer for {METADATA_TOPIC}")


@dataclass(frozen=True, slots=True)
class _Fetch:
    """One Fetch: whole batches from the one that holds `offset` on."""

    offset: int

    async def __call__(self, client: WireClient) -> Slab:
        partition = FetchPartition(partition=0, fetch_offset=Offset(self.offset), max_bytes=_FETCH_BYTES)
        response = await client.fetch(
            KafkaFetchRequest(
                version=client.version(ApiKey.FETCH, at_most=_FETCH_BY_NAME),
                max_wait_ms=_MAX_WAIT_MS,
                min_bytes=1,
                max_bytes=_FETCH_BYTES,
                topics=[FetchTopic(METADATA_TOPIC, None, [partition])],
            )
        )
        if response.error is not ErrorCode.none:
            raise KafkaError(response.error, f"Fetch: {response.error.name}")
        for topic in response.topics:
            for fetched in topic.partitions:
                return await self._slab(client, fetched)
        raise MalformedError(f"Fetch did not answer for {METADATA_TOPIC}")

    async def _slab(self, client: WireClient, fetched: FetchedPartition) -> Slab:
        if fetched.error is ErrorCode.offset_out_of_range:
            if self.offset < await _list_offset(client, _EARLIEST):
                return Slab(b"", [])
            raise _BehindError(f"has nothing at offset {self.offset} yet")
        if fetched.error is not ErrorCode.none:
            raise KafkaError(fetched.error, f"Fetch of {METADATA_TOPIC}: {fetched.error.name}")
        # A broker may begin before the batch that was asked for, and the last may be cut off by the limit.
        slab, _ = whole_batches(b"".join(fetched.records), start=self.offset)
        if not slab.positions:
            raise _BehindError(f"has nothing committed at offset {self.offset} yet")
        return slab
