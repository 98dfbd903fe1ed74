"""Follows leaders: one task per leading broker, which fetches every partition that this broker follows there.

It fetches in a session (KIP-227): a request names the partitions that have changed here, an answer those
that have changed there, and the others cost nothing. One Fetch is in flight at a time
(num.replica.fetchers=1), and the next leaves as soon as an answer is appended: that next fetch is what
acknowledges it. A partition that is new in an assignment doesn't wait for the end of a long poll in which it
is missing: the next request, which names it, is sent ahead, and the leader answers the poll when it arrives.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final

import trio

from quorate.broker.replication.following.leader_session import (
    LOST_SESSION,
    FetchKey,
    FollowerSession,
    Poll,
    Polls,
    by_topic,
    forgotten_by_topic,
)
from quorate.broker.replication.following.lost_leaders import LostLeaders
from quorate.broker.replication.following.taking_in import Taken, asked_for, take_in
from quorate.broker.replication.foundation.current_metadata import CurrentMetadata
from quorate.broker.replication.foundation.errors import ReplicaFailedError
from quorate.broker.replication.foundation.failures import Failures
from quorate.broker.replication.foundation.replication_quota import ReplicationQuotas
from quorate.broker.replication.foundation.stats import ReplicationStats
from quorate.broker.replication.replica.log_starts import LogStarts
from quorate.broker.replication.replica.partition_replica import LogFailed, PartitionReplica
from quorate.broker.replication.replica.roles import FollowerState
from quorate.broker.replication.storage.log_manager import LogManager
from quorate.broker.settings.replication_config import ReplicationConfig
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs.fetch_codec import (
    FetchedPartition,
    FetchPartition,
    KafkaFetchRequest,
    KafkaFetchResponse,
)
from quorate.broker.wire.kafka_client import WireClient, open_client
from quorate.broker.wire.wire_errors import KafkaError
from quorate.error_code import ErrorCode
from quorate.kafka_bytes.varints import MalformedError
from quorate.log import InvalidBatchError, LogError
from quorate.runtime import (
    Address,
    DescriptorsExhaustedError,
    DiskError,
    Network,
    NetworkError,
    Slices,
    Tasks,
    get_logger,
    in_slices,
)
from quorate.types import Offset

log = get_logger(__name__)

_FIRST_VERSION_WITH_IDS = 13
_RECONNECT_APART_S: Final = 1.0
"""The least time between two connects that are broken off for a partition that is new."""


@dataclass(slots=True, eq=False)
class _Followed:
    """One partition in one leader epoch."""

    fetcher: "LeaderFetcher"
    partition: PartitionReplica
    role: FollowerState
    backoff_s: float = 0.0
    not_before: float = -math.inf
    failed: bool = False
    asked_in: int = 0
    """The number of the first request that asked for what is fetched next. Earlier ones are of no use."""

    @property
    def current(self) -> bool:
        return self.partition.role is self.role and not self.failed

    def changed(self, *, wake: bool) -> None:
        """The replica has changed here, its log start for instance (`Observer`)."""
        self.fetcher.look_at(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherContext:
    """The parts that all fetchers of a broker share."""

    broker_id: int
    metadata: CurrentMetadata
    connect: Callable[[int], Address | None]
    """Return the address where another broker listens for brokers, or None if it is unknown."""
    network: Network
    config: ReplicationConfig
    stats: ReplicationStats
    quotas: ReplicationQuotas
    logs: LogManager
    log_starts: LogStarts
    failures: Failures
    lost: LostLeaders

    def cutting(self, partition: PartitionReplica, end_offset: Offset) -> AbstractAsyncContextManager[None]:
        """Wrap a cut of the partition's log (`Cutting`)."""
        return self.logs.cutting(partition.topic, partition.partition_id, end_offset)


class LeaderFetcher:
    """Fetches from one broker until cancelled."""

    def __init__(self, leader: int, context: FetcherContext) -> None:
        self.leader = leader
        self._context = context
        self._followed: dict[PartitionReplica, _Followed] = {}
        self._session = FollowerSession()
        self._in_session: dict[FetchKey, _Followed] = {}
        self._due: dict[_Followed, None] = {}
        """The partitions whose part of the last request may be out of date."""
        self._paused: dict[_Followed, None] = {}
        """The partitions that are not fetched for now, after an error or because of the throttle."""
        self._with_ids = True
        self._polls = Polls(poll_s=context.config.replica_fetch_wait_max_ms / 1000)
        self._connection = trio.CancelScope()
        self._connecting = False
        self._broke_off_at = -math.inf
        self._requests = 0
        self._backoff_s = 0.0

    def __len__(self) -> int:
        return len(self._followed)

    def follow(self, partition: PartitionReplica, role: FollowerState) -> None:
        """Begin at the present end of its log."""
        self.unfollow(partition)
        followed = self._followed[partition] = _Followed(self, partition, role)
        partition.watchers.attach(followed, follower=True)
        self._due[followed] = None
        self._backoff_s = 0.0
        self._polls.tell_news()
        now = trio.current_time()
        if self._connecting and now - self._broke_off_at >= _RECONNECT_APART_S:
            # The leader may be back at another address.
            self._broke_off_at = now
            self._connection.cancel()

    def unfollow(self, partition: PartitionReplica) -> None:
        followed = self._followed.pop(partition, None)
        if followed is not None:
            partition.watchers.detach(followed)
            self._paused.pop(followed, None)
            # The leader is told with the next request.
            self._due[followed] = None

    def look_at(self, followed: _Followed) -> None:
        """Ask for this partition anew if anything differs."""
        self._due[followed] = None

    async def run(self) -> None:
        while True:
            if not self._followed:
                await self._polls.wait_for_news(math.inf)
                continue
            try:
                with trio.CancelScope() as self._connection:
                    await self._connected()
                continue
            except (NetworkError, MalformedError, KafkaError) as error:
                self._context.stats.fetch_errors += 1
                if self._backoff_s == 0.0:
                    log.warning("can't fetch from a leader", leader=self.leader, reason=str(error))
                self._backoff_s = self._longer(self._backoff_s)
            finally:
                self._connecting = False
            await self._polls.wait_for_news(trio.current_time() + self._backoff_s)

    def _longer(self, backoff_s: float) -> float:
        config = self._context.config
        return min(
            max(2 * backoff_s, config.replica_fetch_backoff_min_ms / 1000),
            config.replica_fetch_backoff_ms / 1000,
        )

    async def _connected(self) -> None:
        """Fetch over one connection. Returns when there is nothing left to fetch."""
        address = self._context.connect(self.leader)
        if address is None:
            raise NetworkError(f"broker {self.leader} has no address")
        config = self._context.config
        self._connecting = True
        async with open_client(
            self._context.network,
            address,
            client_id=f"broker-{self._context.broker_id}-fetcher",
            timeout_s=config.replica_socket_timeout_ms / 1000,
        ) as client:
            self._connecting = False
            self._context.lost.found(self.leader)
            try:
                await self._fetch_all(client)
            except NetworkError:
                self._context.lost.lost(self.leader)
                raise

    async def _fetch_all(self, client: WireClient) -> None:
        self._with_ids = client.version(ApiKey.FETCH) >= _FIRST_VERSION_WITH_IDS
        session = self._session
        # Whether the leader had the last request of an earlier connection is unknown.
        session.restart()
        self._polls.forget()
        while True:
            retry_at = math.inf if self._polls else await self._ask(client)
            if self._polls and session.incremental and await self._goes_ahead():
                retry_at = await self._ask(client)
            if not len(session):
                self._polls.forget()
                session.restart()
                if not self._followed:
                    return
                await self._polls.wait_for_news(retry_at)
                continue
            poll = await self._polls.answered()
            try:
                response = await poll.fetch.response()
            finally:
                poll.fetch.forget()
            error = ErrorCode(int(response.error))
            if error is ErrorCode.NONE:
                self._backoff_s = 0.0
                await self._take(response, poll.number)
            session.answered(error, response.session_id)
            if not session.incremental:
                self._polls.forget()
            if error is not ErrorCode.NONE and error not in LOST_SESSION:
                raise KafkaError(response.error, f"broker {self.leader} refused a Fetch: {error.name}")

    async def _goes_ahead(self) -> bool:
        return len(self._polls) == 1 and await self._polls.may_go_ahead()

    async def _ask(self, client: WireClient) -> float:
        """Send the next request, unless nothing is fetched. Return the time at which the first paused
        partition is due."""
        self._polls.take_news()
        request, retry_at = await self._request(client.version(ApiKey.FETCH))
        if len(self._session):
            self._session.sent()
            self._polls.begun(Poll(self._requests, await client.begin_fetch(request)))
        return retry_at

    def _key(self, partition: PartitionReplica) -> FetchKey:
        return (partition.topic_id if self._with_ids else partition.topic, partition.partition_id)

    async def _request(self, version: int) -> tuple[KafkaFetchRequest, float]:
        """Return the next fetch, and the time at which the first paused partition is due."""
        config = self._context.config
        session = self._session
        now = trio.current_time()
        self._requests += 1
        due, self._due = self._due, {}
        if not session.incremental:
            self._in_session.clear()
            self._paused.clear()
            due = dict.fromkeys(self._followed.values())
        elif now >= self._polls.pace.next_at:
            over = [each for each in self._paused if each.not_before <= now]
            if over:
                self._polls.pace.sent(now)
            due.update(dict.fromkeys(over))
        named: dict[FetchKey, FetchPartition] = {}
        forgotten: dict[FetchKey, None] = {}
        slices = Slices()
        for followed in due:
            await slices.pause()
            key = self._key(followed.partition)
            part = self._wanted(followed, now)
            if part is not None:
                before = session.asks(key)
                if (
                    before is None
                    or before.fetch_offset != part.fetch_offset
                    or self._in_session.get(key) is not followed
                ):
                    followed.asked_in = self._requests
                self._in_session[key] = followed
                forgotten.pop(key, None)
                if session.name(key, part):
                    named[key] = part
            elif self._in_session.get(key) is followed:
                # Another life of the same partition may have taken its place.
                del self._in_session[key]
                named.pop(key, None)
                if session.forget(key):
                    forgotten[key] = None
        retry_at = min((each.not_before for each in self._paused), default=math.inf)
        retry_at = max(retry_at, self._polls.pace.next_at)
        wait_ms = config.replica_fetch_wait_max_ms
        if retry_at < math.inf:
            # A pause must not end in the middle of a long poll.
            wait_ms = max(1, min(wait_ms, math.ceil((retry_at - now) * 1000)))
        request = KafkaFetchRequest(
            version=version,
            replica_id=self._context.broker_id,
            replica_epoch=self._context.metadata.broker_epoch,
            max_wait_ms=wait_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=session.session_id,
            session_epoch=session.epoch,
            topics=await in_slices(by_topic(named)),
            forgotten=await in_slices(forgotten_by_topic(forgotten)),
        )
        return request, retry_at

    def _wanted(self, followed: _Followed, now: float) -> FetchPartition | None:
        """Return the part of the next request; None if the partition is not fetched, or not now."""
        partition = followed.partition
        if self._followed.get(partition) is not followed:
            return None
        if not followed.current:
            self.unfollow(partition)
            self._due.pop(followed, None)
            return None
        if followed.not_before <= now and partition.follower_throttled and self._held_back(partition):
            followed.not_before = now + self._context.quotas.follower.pause_s(now=now)
        if followed.not_before > now:
            self._paused[followed] = None
            return None
        self._paused.pop(followed, None)
        return asked_for(partition, followed.role, max_bytes=self._context.config.replica_fetch_max_bytes)

    def _held_back(self, partition: PartitionReplica) -> bool:
        """Return whether the partition is left out for now: its replica here is not in the ISR, and throttled
        ones have copied more than they may (KIP-73)."""
        state, context = partition.state, self._context
        return (
            state is not None
            and context.broker_id not in state.isr
            and context.quotas.follower.exceeded(now=trio.current_time())
        )

    async def _take(self, response: KafkaFetchResponse, number: int) -> None:
        """Take in the answer to the request of this number."""
        slices = Slices()
        raised: list[PartitionReplica] = []
        for key, part in _parts(response):
            await slices.pause()
            followed, asked = self._in_session.get(key), self._session.asks(key)
            if followed is None or asked is None:
                continue
            self._due[followed] = None
            partition = followed.partition
            if (
                not followed.current
                or followed.asked_in > number
                or partition.log.end_offset != asked.fetch_offset
            ):
                continue  # the replica asks for something else by now
            try:
                if await self._take_one(followed, part):
                    raised.append(partition)
            except InvalidBatchError as error:
                log.error("a leader sent records that are none", partition=str(partition), reason=str(error))
                self._pause(followed)
            except ReplicaFailedError as error:
                log.error(
                    "a partition is not replicated any more", partition=str(partition), reason=str(error)
                )
                followed.failed = True
            except DescriptorsExhaustedError as error:
                self._context.failures.report(LogFailed(partition, error))
                self._pause(followed)
            except (DiskError, LogError) as error:
                self._context.failures.report(LogFailed(partition, error))
                followed.failed = True
        if raised:
            # Before the next fetch, which tells the leader.
            await self._context.log_starts.raised(raised)

    async def _take_one(self, followed: _Followed, part: FetchedPartition) -> bool:
        """Take in one partition's answer, and return whether it raised the log start."""
        context = self._context
        taken = await take_in(
            followed.partition, followed.role, part, cutting=context.cutting, quota=context.quotas.follower
        )
        if taken is Taken.NOTHING:
            self._pause(followed)
            return False
        followed.backoff_s = 0.0
        return taken is Taken.LOG_START_RAISED

    def _pause(self, followed: _Followed) -> None:
        followed.backoff_s = self._longer(followed.backoff_s)
        followed.not_before = trio.current_time() + followed.backoff_s


def _parts(response: KafkaFetchResponse) -> Iterator[tuple[FetchKey, FetchedPartition]]:
    for topic in response.topics:
        ref = topic.topic_id if topic.topic_id is not None else topic.name or ""
        for part in topic.partitions:
            yield (ref, part.index), part


class Fetchers:
    """The fetchers of a broker, one per leader. They live until the broker stops: an idle one costs a
    task."""

    def __init__(self, context: FetcherContext, tasks: Tasks) -> None:
        self._context = context
        self._tasks = tasks
        self._fetchers: dict[int, LeaderFetcher] = {}
        self._leader_of: dict[PartitionReplica, int] = {}

    def follow(self, partition: PartitionReplica, role: FollowerState) -> None:
        """Follow only the leader that `role` names from now on."""
        self.unfollow(partition)
        fetcher = self._fetchers.get(role.leader)
        if fetcher is None:
            fetcher = self._fetchers[role.leader] = LeaderFetcher(role.leader, self._context)
            self._tasks.start(fetcher.run)
        self._leader_of[partition] = role.leader
        fetcher.follow(partition, role)

    def unfollow(self, partition: PartitionReplica) -> None:
        leader = self._leader_of.pop(partition, None)
        if leader is not None:
            self._fetchers[leader].unfollow(partition)
