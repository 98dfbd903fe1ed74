"""The rows of `quorate groups describe`: partitions with their lag, and members with their partitions."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from quorate.broker.groups import CONSUMER_PROTOCOL_TYPE, MemberDescription, assigned_partitions
from quorate.broker.wire.codecs import MalformedError
from quorate.cli.groups.broker_connections import BrokerConnections
from quorate.cli.groups.group_requests import LATEST, DescribedGroup, Partition, committed_offsets, offsets_at


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """A member and its partitions; no partitions if its assignment is not a consumer's."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """A partition that a group has committed or a member has. None: unknown, or there is none."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    member: MemberView | None

    @property
    def lag(self) -> int | None:
        """Return the number of records that the group has not committed yet. A committed offset beyond the
        end, of a topic that was deleted and created again, is no negative lag."""
        if self.committed is None or self.end is None:
            return None
        return max(self.end - self.committed, 0)


def member_views(group: DescribedGroup) -> list[MemberView]:
    """Return the members of a group, in the order of their ids."""
    return [_member(group, each) for each in sorted(group.members)]


def _member(group: DescribedGroup, member: MemberDescription) -> MemberView:
    assigned: list[tuple[str, list[int]]] = []
    if group.protocol_type == CONSUMER_PROTOCOL_TYPE:
        with suppress(MalformedError):  # a consumer of a kind that nobody knows
            assigned = assigned_partitions(member.assignment)
    return MemberView(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        partitions=tuple(sorted((topic, each) for topic, parts in assigned for each in parts)),
    )


def partition_views_of(
    members: list[MemberView], committed: Mapping[Partition, int], ends: Mapping[Partition, int]
) -> list[PartitionView]:
    """Return a row for each partition that is committed or assigned, in order."""
    owners = {partition: member for member in members for partition in member.partitions}
    return [
        PartitionView(
            topic=each[0],
            partition=each[1],
            committed=committed.get(each),
            end=ends.get(each),
            member=owners.get(each),
        )
        for each in sorted(owners.keys() | committed.keys())
    ]


async def partition_views(brokers: BrokerConnections, group: DescribedGroup) -> list[PartitionView]:
    """Return the partitions of a group with offsets as of now. Raises `KafkaError`."""
    members = member_views(group)
    committed = await committed_offsets(brokers, group.group_id)
    assigned = {partition for member in members for partition in member.partitions}
    ends = await offsets_at(brokers, assigned | committed.keys(), LATEST)
    return partition_views_of(members, committed, ends)
