"""The loading of a shard from the records of one partition of `__consumer_offsets`, piece by piece.

Compaction keeps the newest record of each key, so kinds of records come in any order: offsets before their
group, and tombstones without an earlier record. A record whose key is unknown is passed over, and stays in
the log. A value that can't be read is worse: its group would continue from older offsets, or as an older
generation. Such a group is set aside unless a later record of the same key can be read. The other groups are
served.
"""

from collections.abc import Sequence
from typing import Final

from quorate.broker.groups.group import Group
from quorate.broker.groups.group_records import (
    GroupKey,
    Key,
    OffsetKey,
    offset_prefix,
    partition_behind,
    read_group,
    read_key,
    read_offset,
)
from quorate.broker.groups.shard import GroupOffsets, SetAside, Shard
from quorate.kafka_bytes.varints import MalformedError
from quorate.log.batches.records import Record
from quorate.runtime import Steps, get_logger
from quorate.types import Offset

log = get_logger(__name__)

_LINES_MAX: Final = 10
"""Log lines about single groups or records of one load."""


class Loading:
    """One load of a shard, which must be empty when it begins."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._places: dict[bytes, tuple[GroupOffsets, str, str]] = {}
        """Offsets, group id and topic, by the common part of the keys of a group's offsets of one topic."""
        self._unreadable: dict[Key, tuple[Offset, str]] = {}
        """The offset of each unreadable record, and the reason."""
        self._passed_over = 0

    def replay(self, records: Sequence[Record]) -> None:
        """Take in the next records. Some 3 us each."""
        places, groups = self._places, self._shard.groups
        for record in records:
            if record.key is None:
                self._pass_over(record, "there is no key")
                continue
            # Most keys differ from one before in their partition alone.
            place = places.get(record.key[:-4])
            if place is None or record.value is None or self._unreadable:
                self._replay(record, record.key)
                continue
            offsets, group_id, topic = place
            try:
                held = read_offset(record.value)
            except MalformedError:
                self._replay(record, record.key)
                continue
            offsets.put(topic, partition_behind(record.key), held, record_offset=record.offset)
            if group_id not in groups:
                self._shard.group(group_id)

    def _replay(self, record: Record, data: bytes) -> None:
        try:
            key = read_key(data)
        except MalformedError as error:
            self._pass_over(record, str(error))
            return
        if key is None:
            self._pass_over(record, "its key is of a later version, or of no kind that is known")
            return
        try:
            if isinstance(key, OffsetKey):
                self._replay_offset(record, key, data)
            else:
                self._replay_group(record, key)
            self._unreadable.pop(key, None)
        except MalformedError as error:
            self._unreadable[key] = Offset(record.offset), str(error)

    def _replay_offset(self, record: Record, key: OffsetKey, data: bytes) -> None:
        offsets = self._shard.offsets_of(key.group_id)
        if record.value is None:
            offsets.remove(key.topic, key.partition, record_offset=record.offset)
            return
        held = read_offset(record.value)
        offsets.put(key.topic, key.partition, held, record_offset=record.offset)
        self._shard.group(key.group_id)  # one that only commits has no record of its own
        prefix = offset_prefix(key, data)
        if prefix is not None:
            self._places[prefix] = offsets, key.group_id, key.topic

    def _replay_group(self, record: Record, key: GroupKey) -> None:
        if record.value is None:
            self._shard.groups.pop(key.group_id, None)
        else:
            self._shard.group(key.group_id).load(read_group(record.value))

    def _pass_over(self, record: Record, reason: str) -> None:
        self._passed_over += 1
        if self._passed_over <= _LINES_MAX:
            log.warning(
                "passed over a record of the offsets topic",
                partition=self._shard.partition,
                offset=record.offset,
                reason=reason,
            )

    def finish(self) -> Steps[list[Group]]:
        """Set groups with unreadable records aside. Return the groups that have members."""
        shard = self._shard
        if self._passed_over > _LINES_MAX:
            log.warning(
                "passed over more records of the offsets topic",
                partition=shard.partition,
                records=self._passed_over - _LINES_MAX,
            )
        for key, (offset, reason) in self._unreadable.items():
            aside = shard.set_aside.get(key.group_id)
            if aside is None:
                aside = SetAside(shard.offsets_of(key.group_id), [])
                del shard.offsets[key.group_id]
                shard.set_aside[key.group_id] = aside
                shard.groups.pop(key.group_id, None)
                if len(shard.set_aside) <= _LINES_MAX:
                    log.error(
                        "a group is not served: a record of it can't be read; start a version of the broker "
                        "that can, or delete the group",
                        group=key.group_id,
                        partition=shard.partition,
                        offset=offset,
                        reason=reason,
                    )
            if isinstance(key, OffsetKey):
                aside.unreadable.append(key)
            yield
        if shard.set_aside:
            log.error("groups are not served", partition=shard.partition, groups=len(shard.set_aside))
        with_members: list[Group] = []
        for group in shard.groups.values():
            if group.has_members:
                with_members.append(group)
            yield
        return with_members
