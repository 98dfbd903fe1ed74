"""The groups of one partition of `__consumer_offsets`, for one leadership of it."""

from dataclasses import dataclass, field

from quorate.broker.groups.group import Group
from quorate.broker.groups.group_records import OffsetKey
from quorate.broker.groups.offsets import GroupOffsets
from quorate.types import Epoch


@dataclass(slots=True)
class SetAside:
    """A group with a record in the log that can't be read here. It is not served until it is deleted, or
    loaded by a broker that can."""

    offsets: GroupOffsets
    unreadable: list[OffsetKey]
    """The committed offsets that can't be read."""


@dataclass(slots=True)
class Shard:
    """`groups` and `offsets` by group id; a group in `set_aside` is in neither."""

    partition: int
    leader_epoch: Epoch
    loaded: bool = False
    groups: dict[str, Group] = field(default_factory=dict)
    offsets: dict[str, GroupOffsets] = field(default_factory=dict)
    set_aside: dict[str, SetAside] = field(default_factory=dict)
    is_closed: bool = False
    unwritable_since: float | None = None
    """When an append first failed because of the state of the partition; None after one that succeeded."""

    def offsets_of(self, group_id: str) -> GroupOffsets:
        held = self.offsets.get(group_id)
        if held is None:
            held = self.offsets[group_id] = GroupOffsets()
        return held
