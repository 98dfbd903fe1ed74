"""The requests of operators: list, describe and delete groups, and delete committed offsets.

A deletion is a matter of tombstones: one for each offset, then one for the group. It is answered when every
replica in sync has them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple, Self

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.groups.consumer_protocol import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from quorate.broker.groups.group import Group
from quorate.broker.groups.group_lags import EndOf, GroupLags, group_lags
from quorate.broker.groups.group_messages import GroupDescription
from quorate.broker.groups.group_records import GroupValue
from quorate.broker.groups.group_state import GroupState
from quorate.broker.groups.shard import GroupOffsets, SetAside, Shard
from quorate.broker.groups.shards import Shards
from quorate.broker.groups.tombstones import Key, Tombstones, in_pieces
from quorate.kafka_bytes.varints import MalformedError
from quorate.runtime import Slices, Steps, get_logger

log = get_logger(__name__)

CLASSIC: Final = "classic"
"""The type of all groups served here."""


class ListedGroup(NamedTuple):
    """A group as ListGroups shows it. A tuple, for there may be many."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str = CLASSIC


class GroupFilter:
    """The filter of ListGroups, by state and type (KIP-518, KIP-848). Names are in any case; none: all. A
    name that no group can have matches none."""

    def __init__(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> None:
        self._states = {name.lower() for name in states}
        self._types = {name.lower() for name in types}

    @classmethod
    def steps(cls, *, states: Iterable[str], types: Iterable[str]) -> Steps[Self]:
        """Make the filter of any number of names."""
        made = cls()
        for names, into in ((states, made._states), (types, made._types)):
            for name in names:
                into.add(name.lower())
                yield
        return made

    def __contains__(self, group: ListedGroup) -> bool:
        return (not self._states or group.state.lower() in self._states) and (
            not self._types or group.group_type.lower() in self._types
        )


class GroupAdministration:
    """The requests of operators to a coordinator. All methods belong to the coordinator's trio run."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    # Listing and describing

    async def groups(self, wanted: GroupFilter) -> list[ListedGroup] | ErrorCode:
        """Return the groups of this broker that the filter lets through, or the error of a partition that is
        being loaded: an incomplete list would look complete."""
        found: list[ListedGroup] = []
        slices = Slices()
        for shard in self._shards:
            if not shard.loaded:
                return ErrorCode.coordinator_load_in_progress
            for group_id in tuple(shard.groups):
                group = shard.existing(group_id)
                if group is not None:
                    listed = ListedGroup(group_id, group.protocol_type, group.state.value)
                    if listed in wanted:
                        found.append(listed)
                await slices.pause()
        return found

    async def lags(self, end_of: EndOf) -> GroupLags:
        """Return the groups of this broker with their lag. `end_of`: the high watermarks that are known."""
        return await group_lags(self._shards, end_of)

    def describe(self, group_id: str) -> GroupDescription | ErrorCode:
        """Describe a group. GROUP_ID_NOT_FOUND: there is none; others: this broker can't tell."""
        shard = self._shards.of(group_id)
        if isinstance(shard, ErrorCode):
            return shard
        group = shard.existing(group_id)
        return ErrorCode.group_id_not_found if group is None else group.describe()

    # Deleting groups

    async def delete(self, group_id: str, reply: Callable[[ErrorCode], None]) -> None:
        """Append the tombstones of an empty group and its offsets, and return; `reply` gets the outcome when
        all are stored, maybe before this returns.

        The group is dead at once: members that come meanwhile are told to look for their coordinator again.
        If a tombstone can't be stored, the group comes back with the offsets that are left.
        """
        shard = self._shards.of_any(group_id)
        if isinstance(shard, ErrorCode):
            reply(shard)
            return
        aside = shard.set_aside.get(group_id)
        if aside is not None:
            await self._delete_set_aside(shard, group_id, aside, reply)
            return
        group = shard.existing(group_id)
        if group is None or group.state is GroupState.DEAD:
            reply(ErrorCode.group_id_not_found)
        elif group.state is not GroupState.EMPTY:
            reply(ErrorCode.non_empty_group)
        else:
            await self._delete(shard, group, reply)

    async def _delete(self, shard: Shard, group: Group, reply: Callable[[ErrorCode], None]) -> None:
        group_id, value, offsets = group.group_id, group.stored(), shard.offsets_of(group.group_id)
        group.unload()

        def ended(error: ErrorCode) -> None:
            if error is not ErrorCode.none:
                self._restore(shard, group, value)
            elif not shard.is_closed:
                del shard.groups[group_id], shard.offsets[group_id]
                log.info("group is deleted", group=group_id)
            reply(error)

        await self._append(Tombstones(self._shards, shard, ended), group_id, offsets, _written(offsets))

    async def _delete_set_aside(
        self, shard: Shard, group_id: str, aside: SetAside, reply: Callable[[ErrorCode], None]
    ) -> None:
        """Delete a group that is not served. Whether it has members is unknown: the operator decides."""

        def ended(error: ErrorCode) -> None:
            if error is ErrorCode.none and shard.set_aside.pop(group_id, None) is not None:
                log.info("group is deleted", group=group_id)
            reply(error)

        unreadable = ((key.topic, key.partition) for key in aside.unreadable)
        keys = chain(_written(aside.offsets), unreadable)
        await self._append(Tombstones(self._shards, shard, ended), group_id, aside.offsets, keys)

    async def _append(
        self, tombstones: Tombstones, group_id: str, offsets: GroupOffsets, keys: Iterable[Key]
    ) -> None:
        """Append the tombstones of a group's offsets and of itself."""
        with trio.CancelScope(shield=True):  # it ends by itself, and must not end halfway
            await tombstones.append_all(group_id, offsets, keys)
        tombstones.append_group(group_id)
        tombstones.all_begun()

    def _restore(self, shard: Shard, group: Group, value: GroupValue) -> None:
        """Put a fresh group in a dead one's place."""
        if not shard.is_closed:
            del shard.groups[group.group_id]
            shard.group(group.group_id).load(value)

    # Deleting offsets

    async def delete_offsets(
        self, group_id: str, asked: Sequence[Key], reply: Callable[[ErrorCode, Sequence[ErrorCode]], None]
    ) -> None:
        """Delete committed offsets. `reply` gets the error of the whole, and each partition's in order.

        A topic that a member subscribes to is refused with GROUP_SUBSCRIBED_TO_TOPIC: its next fetch of the
        offset would begin elsewhere. A partition without an offset is a success.
        """
        if not group_id:
            reply(ErrorCode.invalid_group_id, ())
            return
        shard = self._shards.of(group_id)
        if isinstance(shard, ErrorCode):
            reply(shard, ())
            return
        outcomes: list[ErrorCode] = []

        def ended(error: ErrorCode) -> None:
            reply(error, outcomes)

        tombstones = Tombstones(self._shards, shard, ended)
        slices = Slices()
        subscribed = _Subscribed()
        for piece in in_pieces(asked):
            group = await self._current(shard, group_id, subscribed)
            if isinstance(group, ErrorCode):
                tombstones.refuse(group)
                break
            offsets = shard.offsets_of(group_id)
            in_flight = offsets.in_flight()
            free = [key for key in piece if key[0] not in subscribed]
            tombstones.append_offsets(
                group_id, offsets, [key for key in free if key in in_flight or offsets.get(*key) is not None]
            )
            outcomes += [
                ErrorCode.group_subscribed_to_topic if key[0] in subscribed else ErrorCode.none
                for key in piece
            ]
            await slices.pause()
        tombstones.all_begun()

    async def _current(self, shard: Shard, group_id: str, subscribed: "_Subscribed") -> Group | ErrorCode:
        """Return the group with `subscribed` as of now, or why its offsets can't be deleted."""
        while True:
            if shard.is_closed:
                return ErrorCode.not_coordinator
            group = shard.existing(group_id)
            if group is None or group.state is GroupState.DEAD:
                return ErrorCode.group_id_not_found
            if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
                return ErrorCode.non_empty_group
            subscriptions = group.subscriptions()
            if subscribed.is_of(subscriptions):
                return group
            await subscribed.read(subscriptions)


def _written(offsets: GroupOffsets) -> Iterator[Key]:
    """Yield each topic and partition that the log may hold an offset of. No commit may begin meanwhile;
    those in flight may end."""
    in_flight = offsets.in_flight()
    yield from in_flight
    for topic in offsets.topics():
        for partition, _ in offsets.of_topic(topic):
            if (topic, partition) not in in_flight:
                yield topic, partition


class _Subscribed:
    """The topics that the members of a group subscribe to."""

    def __init__(self) -> None:
        self._read: list[bytes] = []
        self._topics: set[str] | None = set()
        """None: all, as a subscription can't be read."""

    def __contains__(self, topic: str) -> bool:
        return self._topics is None or topic in self._topics

    def is_of(self, subscriptions: list[bytes]) -> bool:
        return self._read == subscriptions

    async def read(self, subscriptions: list[bytes]) -> None:
        """Take these in the place of the earlier ones."""
        slices = Slices()
        topics: set[str] = set()
        self._read, self._topics = subscriptions, None
        for each in subscriptions:
            try:
                topics |= subscribed_topics(each)
            except MalformedError:
                return
            await slices.pause()
        self._topics = topics
