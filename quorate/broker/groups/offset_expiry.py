"""The deletion of committed offsets that have expired (KIP-211), or whose partition was deleted.

Both are deleted by tombstones, as by an operator's request. A deletion that can't be stored is tried again.
"""

from collections.abc import Callable, Iterator
from typing import Final

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.groups.consumer_protocol import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from quorate.broker.groups.group import Group
from quorate.broker.groups.group_administration import GroupAdministration
from quorate.broker.groups.group_state import GroupState
from quorate.broker.groups.shard import GroupOffsets, Shard
from quorate.broker.groups.shards import Shards
from quorate.broker.groups.tombstones import Key, Tombstones
from quorate.broker.settings.group_config import OffsetRetention
from quorate.kafka_bytes.varints import MalformedError
from quorate.runtime import Slices, get_logger

log = get_logger(__name__)

_RETRY_SECONDS: Final = 1.0


class OffsetExpiry:
    """Deletes offsets that are no longer of use. All methods belong to the coordinator's trio run."""

    def __init__(
        self,
        shards: Shards,
        administration: GroupAdministration,
        *,
        retention: OffsetRetention,
        now_ms: Callable[[], int],
        exists: Callable[[str, int], bool],
    ) -> None:
        """`now_ms`: the wall clock, which the timestamps of commits are of. `exists`: whether there is a
        partition of that topic and number."""
        self._shards = shards
        self._administration = administration
        self._retention = retention
        self._now_ms = now_ms
        self._exists = exists
        self._to_check: list[Shard] = []
        self._deleted: dict[Key, int] = {}
        """Partitions that were deleted, and when (ms): later commits are of another one of that name."""
        self._wake = trio.Event()

    async def run(self) -> None:
        """Delete offsets until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._forget_deleted)
            while True:
                await trio.sleep(self._retention.check_interval_ms / 1000)
                await self.expire()

    # Expired

    async def expire(self) -> None:
        """Delete the offsets that have expired by now, and groups that have neither offsets nor members."""
        slices = Slices()
        for shard in self._shards:
            if not shard.loaded:
                continue
            for group_id in tuple(shard.groups):
                await slices.pause()
                group = shard.groups.get(group_id)
                if shard.is_closed:
                    break
                if group is not None:
                    await self._expire(shard, group)

    async def _expire(self, shard: Shard, group: Group) -> None:
        if group.state is GroupState.DEAD:
            return
        offsets = shard.offsets.get(group.group_id)
        if offsets is not None:
            expired = list(self._expired(group, offsets))
            if await self._delete(shard, group.group_id, offsets, expired) and expired:
                log.info("offsets have expired", group=group.group_id, offsets=len(expired))
        if group.state is GroupState.EMPTY and not group.is_vacant and not offsets and not _writes(offsets):
            await self._administration.delete(group.group_id, lambda error: None)

    def _expired(self, group: Group, offsets: GroupOffsets) -> Iterator[Key]:
        """Yield the offsets that were not used for the retention time: in an empty group since it became
        empty, in one that only commits since the commit, in a stable group of consumers since the commit if
        no member subscribes to the topic. Any other group is about to say what it reads."""
        kept: frozenset[str] = frozenset()
        since_ms: int | None = None
        if group.state is GroupState.EMPTY:
            since_ms = group.empty_since_ms
        elif group.state is GroupState.STABLE and group.protocol_type == CONSUMER_PROTOCOL_TYPE:
            try:
                kept = frozenset().union(*map(subscribed_topics, group.subscriptions()))
            except MalformedError:
                return
        else:
            return
        oldest_ms = self._now_ms() - self._retention.retention_ms
        in_flight = offsets.in_flight()
        for topic in offsets.topics():
            if topic in kept:
                continue
            for partition, value in offsets.of_topic(topic):
                began_ms = value.commit_timestamp_ms if since_ms is None else since_ms
                if began_ms <= oldest_ms and (topic, partition) not in in_flight:
                    yield topic, partition

    # Deleted

    def partition_deleted(self, topic: str, partition: int) -> None:
        """Delete the committed offsets of a partition that was deleted (KAFKA-16168)."""
        self._deleted[topic, partition] = self._now_ms()
        self._wake.set()

    def loaded(self, shard: Shard) -> None:
        """Look for offsets of partitions that were deleted while no broker coordinated these groups. When
        this broker became leader, it knew each partition of a commit in the log, or that it was deleted."""
        self._to_check.append(shard)
        self._wake.set()

    async def _check(self, shard: Shard) -> None:
        slices = Slices()
        for group_id in tuple(shard.offsets):
            offsets = shard.offsets.get(group_id)
            for topic in () if offsets is None else offsets.topics():
                await slices.pause()
                for partition, _ in () if offsets is None else offsets.of_topic(topic):
                    if not self._exists(topic, partition):
                        self._deleted.setdefault((topic, partition), self._now_ms())

    async def _forget_deleted(self) -> None:
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            to_check, self._to_check = self._to_check, []
            for shard in to_check:
                await self._check(shard)
            while self._deleted:
                deleted, self._deleted = self._deleted, {}
                if not await self._forget(deleted):
                    # Some groups are being loaded, or a tombstone was not stored.
                    self._deleted = deleted | self._deleted
                    await trio.sleep(_RETRY_SECONDS)

    async def _forget(self, deleted: dict[Key, int]) -> bool:
        """Return whether all is done."""
        slices, done = Slices(), True
        topics: dict[str, list[int]] = {}
        for topic, partition in deleted:
            topics.setdefault(topic, []).append(partition)
        for shard in self._shards:
            if not shard.loaded:
                done = False
                continue
            for group_id in tuple(shard.offsets):
                await slices.pause()
                offsets = shard.offsets.get(group_id)
                if shard.is_closed or offsets is None:
                    continue
                found: list[Key] = []
                written = offsets.in_flight()
                for topic, partitions in topics.items():
                    await slices.pause()
                    for partition in partitions:
                        held = offsets.get(topic, partition)
                        key = (topic, partition)
                        if (held and held.commit_timestamp_ms <= deleted[key]) or key in written:
                            found.append(key)
                done = await self._delete(shard, group_id, offsets, found) and done
        return done

    async def _delete(self, shard: Shard, group_id: str, offsets: GroupOffsets, keys: list[Key]) -> bool:
        """Write tombstones. Return whether every replica in sync has them, or another broker coordinates the
        shard."""
        if not keys:
            return True
        outcome, stored = [ErrorCode.none], trio.Event()

        def ended(error: ErrorCode) -> None:
            outcome[0] = error
            stored.set()

        tombstones = Tombstones(self._shards, shard, ended)
        await tombstones.append_all(group_id, offsets, keys)
        tombstones.all_begun()
        await stored.wait()
        return outcome[0] is ErrorCode.none or shard.is_closed


def _writes(offsets: GroupOffsets | None) -> bool:
    return offsets is not None and bool(offsets.in_flight())
