"""The things that have a state, and their columns: each is shown as the record that would say all of it."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import pyarrow as pa

from quorate.bounds import Integer
from quorate.broker.metadata.metadata_records import ClientQuota, Config, FeatureLevel, RegisterBroker, Topic
from quorate.log.batches.control import LeaderChange
from quorate.spark_source.changes.partition_table import PARTITION_FIELDS
from quorate.spark_source.columns import fields_of
from quorate.types import VoterSet

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class Entity(enum.Enum):
    """A kind of thing that has a state, by its name in rows."""

    PARTITION = "partition"
    TOPIC = "topic"
    BROKER = "broker"
    CONFIG = "config"
    QUOTA = "quota"
    FEATURE = "feature"
    QUORUM = "quorum"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumVoter:
    """A voter. Of a static set the log has only the ids."""

    id: int
    directory_id: str | None = None
    host: str | None = None
    port: Annotated[int, Integer(low=1, high=65535)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """The quorum itself, as Raft's own records in the log say."""

    leader: int | None
    """The active controller. None: a snapshot of quorate 0.2 or older took the place of the
    record that names it."""
    leader_epoch: int
    kraft_version: int
    """1 from when the voters are in the log (KIP-853)."""
    voters: tuple[QuorumVoter, ...]

    def led(self, change: LeaderChange, epoch: int) -> "QuorumState":
        """Return the state after a new leader's first record."""
        ids = change.directory_ids or (None,) * len(change.voters)
        voters = tuple(
            QuorumVoter(id=node, directory_id=directory)
            for node, directory in zip(change.voters, ids, strict=True)
        )
        return QuorumState(
            leader=change.leader,
            leader_epoch=epoch,
            kraft_version=self.kraft_version,
            voters=self.voters if self.kraft_version else voters,
        )

    def with_voters(self, voters: VoterSet) -> "QuorumState":
        """Return the state after a KRaftVoters record."""
        return QuorumState(
            leader=self.leader,
            leader_epoch=self.leader_epoch,
            kraft_version=1,
            voters=tuple(
                QuorumVoter(
                    id=each.key.id,
                    directory_id=each.key.directory_id,
                    host=each.endpoint.host,
                    port=each.endpoint.port,
                )
                for each in voters
            ),
        )


NO_QUORUM: Final = QuorumState(leader=None, leader_epoch=0, kraft_version=0, voters=())

RECORDS: Final[Mapping[Entity, "type[DataclassInstance]"]] = {
    Entity.TOPIC: Topic,
    Entity.BROKER: RegisterBroker,
    Entity.CONFIG: Config,
    Entity.QUOTA: ClientQuota,
    Entity.FEATURE: FeatureLevel,
    Entity.QUORUM: QuorumState,
}
ENTITY_FIELDS: Final[Mapping[Entity, tuple[pa.Field, ...]]] = {
    Entity.PARTITION: PARTITION_FIELDS,
    **{entity: tuple(fields_of(record)) for entity, record in RECORDS.items()},
}
