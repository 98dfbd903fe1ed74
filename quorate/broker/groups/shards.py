"""The groups of each partition of `__consumer_offsets` that this broker leads: loading, finding, writing."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.groups.group import Group
from quorate.broker.groups.loading import Loading
from quorate.broker.groups.offsets_topic import GroupLog, GroupLogError, partition_of
from quorate.broker.groups.shard import Shard
from quorate.log.batches.records import RecordContent
from quorate.runtime import Slices, get_logger, in_slices
from quorate.types import UNKNOWN_OFFSET, Epoch, Offset

log = get_logger(__name__)

_LOAD_RETRY_SECONDS: Final = 0.1


class Shards:
    """The shards of the partitions that this broker leads."""

    def __init__(
        self,
        group_log: GroupLog,
        *,
        partition_count: Callable[[], int],
        new_group: Callable[[str], Group],
        loaded: Callable[[Shard], None],
    ) -> None:
        """`partition_count`: of `__consumer_offsets`; 0 while it does not exist. `loaded` is called with each
        shard that has been loaded."""
        self._log = group_log
        self._partition_count = partition_count
        self._new_group = new_group
        self._on_loaded = loaded
        self._held: dict[int, Shard] = {}
        self._to_load: dict[int, Shard] = {}
        self._wake = trio.Event()
        self.failed_appends = 0

    def __iter__(self) -> Iterator[Shard]:
        return iter(tuple(self._held.values()))

    async def run(self) -> None:
        """Load shards until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                waiting, self._to_load = self._to_load, {}
                for shard in waiting.values():
                    nursery.start_soon(self._load, shard)
                if not self._to_load:
                    self._wake = trio.Event()
                    await self._wake.wait()

    # Leadership of partitions

    def elect(self, partition: int, leader_epoch: Epoch) -> None:
        """Load the groups of a partition that this broker leads now."""
        held = self._held.get(partition)
        if held is not None:
            if held.leader_epoch >= leader_epoch:
                return
            if leader_epoch == held.leader_epoch + 1:
                # Elected again with nobody in between: the log is the one we wrote, and so are the groups.
                held.leader_epoch = leader_epoch
                return
        self.resign(partition)
        shard = self._held[partition] = Shard(partition, leader_epoch, self._new_group)
        self._to_load[partition] = shard
        self._wake.set()

    def resign(self, partition: int) -> None:
        """Unload the groups of a partition that this broker leads no more."""
        shard = self._held.pop(partition, None)
        if shard is None:
            return
        shard.is_closed = True
        for group in shard.groups.values():
            group.unload()
        if shard.groups:
            log.info("groups unloaded", partition=partition, groups=len(shard.groups))

    async def _load(self, shard: Shard) -> None:
        while not shard.is_closed:
            began = trio.current_time()
            try:
                with_members = await self._replay(shard)
            except GroupLogError as error:
                log.debug("groups are not loaded yet", partition=shard.partition, reason=str(error))
                await trio.sleep(_LOAD_RETRY_SECONDS)
                continue
            if not shard.is_closed:
                self._begin(shard, with_members)
                if shard.groups:
                    log.info(
                        "groups loaded",
                        partition=shard.partition,
                        groups=len(shard.groups),
                        ms=round((trio.current_time() - began) * 1000),
                    )
            return

    async def _replay(self, shard: Shard) -> list[Group]:
        """Read the shard anew, in slices, unless it is given up meanwhile. Return the groups with members."""
        for held in (shard.groups, shard.offsets, shard.set_aside):
            held.clear()
        loading = Loading(shard)
        slices = Slices()
        async for records in self._log.records(shard.partition):
            if shard.is_closed:
                return []
            loading.replay(records)
            await slices.pause()
        return await in_slices(loading.finish())

    def _begin(self, shard: Shard, with_members: Sequence[Group]) -> None:
        """Serve the shard's groups."""
        shard.loaded = True
        for group in with_members:
            group.begin_sessions()
        self._on_loaded(shard)

    # Groups

    def of(self, group_id: str) -> Shard | ErrorCode:
        """Return the loaded shard of a group, or why there is none here: also for a group that is set aside.
        Any id has a shard, also ""."""
        shard = self.of_any(group_id)
        if not isinstance(shard, ErrorCode) and group_id in shard.set_aside:
            return ErrorCode.coordinator_not_available
        return shard

    def of_any(self, group_id: str) -> Shard | ErrorCode:
        """Return as `of`, with the shard of a group that is set aside too."""
        count = self._partition_count()
        shard = self._held.get(partition_of(group_id, count)) if count else None
        if shard is None:
            return ErrorCode.not_coordinator
        return shard if shard.loaded else ErrorCode.coordinator_load_in_progress

    def append(
        self, shard: Shard, records: Sequence[RecordContent], done: Callable[[ErrorCode, Offset], None]
    ) -> None:
        """Append to the shard's partition with acks=all. `done` gets the coordinator's error and the base
        offset. A shard that is gone gets nothing: the partition may be led here again, for another shard."""

        def appended(error: ErrorCode, base_offset: Offset) -> None:
            if shard.is_closed:
                done(ErrorCode.not_coordinator, base_offset)
                return
            self._report(shard, error)
            done(_as_coordinator(error), base_offset)

        if shard.is_closed:
            done(ErrorCode.not_coordinator, UNKNOWN_OFFSET)
        else:
            self._log.append(shard.partition, records, appended)

    def _report(self, shard: Shard, error: ErrorCode) -> None:
        """Count a failed append. A partition that can't be written has a line in the log when that begins,
        and one when it ends."""
        since = shard.unwritable_since
        if error is ErrorCode.none:
            if since is not None:
                shard.unwritable_since = None
                seconds = round(trio.current_time() - since, 1)
                log.info("groups and offsets are stored again", partition=shard.partition, seconds=seconds)
            return
        self.failed_appends += 1
        if since is None and _as_coordinator(error) is ErrorCode.coordinator_not_available:
            shard.unwritable_since = trio.current_time()
            log.warning(
                "groups and offsets can't be stored: assignments and commits of this partition of "
                "__consumer_offsets fail until enough replicas are in sync",
                partition=shard.partition,
                error=error.name,
            )


def _as_coordinator(error: ErrorCode) -> ErrorCode:
    """Return a partition's error as the members' error (as Kafka's GroupMetadataManager)."""
    match error:
        case (
            ErrorCode.unknown_topic_or_partition
            | ErrorCode.not_enough_replicas
            | ErrorCode.not_enough_replicas_after_append
            | ErrorCode.request_timed_out
        ):
            return ErrorCode.coordinator_not_available
        case ErrorCode.not_leader_or_follower | ErrorCode.kafka_storage_error:
            return ErrorCode.not_coordinator
        case ErrorCode.message_too_large | ErrorCode.corrupt_message:
            return ErrorCode.invalid_commit_offset_size
        case _:
            return error
