"""The groups that this broker coordinates with their lag, as far as its own replicas tell."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from quorate.broker.groups.group import Group
from quorate.broker.groups.group_state import GroupState
from quorate.broker.groups.shard import GroupOffsets, Shard
from quorate.broker.groups.shards import Shards
from quorate.runtime import Slices
from quorate.types import Offset

EndOf: TypeAlias = Callable[[str, int], Offset | None]
"""Returns the high watermark of a topic's partition. None: it is not known here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """A group at one moment."""

    group_id: str
    state: GroupState
    members: int
    lag: int = 0
    """The records between its committed offsets and the high watermarks that are known here."""
    known: int = 0
    """The partitions of `lag`."""
    unknown: int = 0
    """The partitions with a committed offset of which no high watermark is known here."""


@dataclass(frozen=True, slots=True)
class GroupLags:
    """The groups of all partitions of `__consumer_offsets` that are led here."""

    groups: tuple[GroupLag, ...]
    loading: int
    """Partitions of which the groups are not loaded yet."""


async def group_lags(shards: Shards, end_of: EndOf) -> GroupLags:
    """Look at each group, in slices: a group that changes meanwhile is told as it was at its turn."""
    found: list[GroupLag] = []
    loading = 0
    slices = Slices()
    for shard in shards:
        if not shard.loaded:
            loading += not shard.is_closed
            continue
        for group_id in tuple(shard.groups):
            group = shard.existing(group_id)
            # Its partition may have got another leader meanwhile.
            if group is not None and not shard.is_closed:
                found.append(await _lag_of(shard, group, end_of, slices))
            await slices.pause()
    return GroupLags(tuple(found), loading)


async def _lag_of(shard: Shard, group: Group, end_of: EndOf, slices: Slices) -> GroupLag:
    told = GroupLag(group_id=group.group_id, state=group.state, members=group.member_count)
    lag = known = unknown = 0
    offsets = shard.offsets.get(group.group_id, _NO_OFFSETS)
    for topic in offsets.topics():
        for partition, committed in offsets.of_topic(topic):
            end = end_of(topic, partition)
            if end is None:
                unknown += 1
            else:
                known += 1
                # A follower's high watermark may be behind what was committed.
                lag += max(end - committed.offset, 0)
            await slices.pause()
    return replace(told, lag=lag, known=known, unknown=unknown)


_NO_OFFSETS: Final = GroupOffsets()
