"""The records of the metadata log, one frozen dataclass each (as `value`: a replay makes them by the hundred
thousand).

A record's version rises when its meaning changes; a field that readers may ignore is added without that.
Source: KIP-500, KIP-631 and Kafka's metadata records of the same names.
"""

import enum
import uuid
from typing import Annotated, Final, TypeAlias

from quorate.bounds import Integer, Most
from quorate.broker.metadata.acls import Acl
from quorate.broker.settings.registered_names import MAX_REGISTERED_NAME
from quorate.types import Epoch, SecretBytes
from quorate.value import value

MAX_REPLICAS: Final = 1 << 10
"""Replicas of one partition."""
MAX_RESOURCE_NAME: Final = 249
"""Characters in the name of a resource that has configs: a topic, a broker or a group."""
MAX_LISTENERS: Final = 64
"""Listeners of one broker."""
MAX_DIRECTORIES: Final = 256
"""Directories of one broker."""
MAX_FIRST_EPOCHS: Final = 1 << 10
"""The number of times that one topic may have been shrunk, each time to more partitions than the last."""

NO_LEADER: Final = -1
"""A partition's leader where no replica may lead."""

MIGRATING: Final = uuid.UUID(int=0)
"""Directory id of a replica that is placed, in a directory that was never recorded: its record is older than
directories."""
UNASSIGNED: Final = uuid.UUID(int=1)
"""Directory id of a replica that its broker has not placed yet, or not reported yet."""
LOST: Final = uuid.UUID(int=2)
"""Directory id of a replica that may be in a directory which its broker doesn't have any more; which one is
not known."""
DISCARDED: Final = uuid.UUID(int=99)
"""Ours, in a broker's request alone, never in a record: the broker is about to set the replica's log aside
and to begin an empty one."""
RESERVED_DIRECTORIES: Final = 100
"""Directory ids below this are no directory's own (KIP-858)."""


def is_reserved(directory: uuid.UUID) -> bool:
    """True if the id describes a directory instead of naming one."""
    return directory.int < RESERVED_DIRECTORIES


class LeaderRecoveryState(enum.IntEnum):
    """The recovery state of a leader: elected from the ISR, or uncleanly and not yet recovered."""

    RECOVERED = 0
    RECOVERING = 1


class ConfigType(enum.IntEnum):
    """The kind of resource of a configuration, with Kafka's numbers."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


class ScramMechanism(enum.IntEnum):
    """A mechanism of SCRAM, with Kafka's numbers (KIP-554)."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


class ChangeReason(enum.IntEnum):
    """Why a broker's state or a partition's leader, ISR or replicas changed. Numbers are for ever."""

    BROKER_FENCED = 1
    """The broker's session ran out, or it asked to be fenced."""
    BROKER_GONE = 2
    """The broker's process has ended: its address refuses connections."""
    BROKER_RESTARTED = 3
    """Another incarnation of the broker registered."""
    BROKER_UNFENCED = 4
    """The broker has caught up with the metadata, and may lead."""
    BROKER_UNREGISTERED = 5
    """An administrator has removed the broker from the cluster."""
    CONTROLLED_SHUTDOWN = 6
    """The broker shuts down in order."""
    DIRECTORY_FAILED = 7
    """The replica's directory is offline."""
    PREFERRED_LEADER = 8
    """The first replica leads again: asked for, or by automatic rebalance."""
    UNCLEAN_ELECTION = 9
    """No replica that is sure to have all committed records can lead, and another was allowed to."""
    REASSIGNMENT = 10
    """The replicas are being moved, or have been."""
    REPLICA_LAGGED = 11
    """The leader put a follower out of the ISR that had not kept up."""
    REPLICA_CAUGHT_UP = 12
    """The leader took a follower back into the ISR."""
    CONFIG_CHANGED = 13
    """A setting like min.insync.replicas or unclean.leader.election.enable has another value."""
    LEADER_RECOVERED = 14
    """A leader that was elected uncleanly has recovered."""
    DIRECTORY_ASSIGNED = 15
    """The broker reported the directory of its replica, which may now lead a partition without a leader."""
    ISR_CONFIRMED = 16
    """The leader took back a change of the ISR that it had asked for."""
    ELECTION_ASKED_FOR = 17
    """An administrator asked for an election."""
    REPLICA_DISCARDED = 18
    """The broker sets a damaged log aside, and fetches the replica anew."""


BrokerId: TypeAlias = Annotated[int, Integer(low=0)]
LeaderId: TypeAlias = Annotated[int, Integer(low=-1)]
"""A broker's id, or `NO_LEADER`."""
PartitionId: TypeAlias = Annotated[int, Integer(low=0)]
LeaderEpoch: TypeAlias = Annotated[Epoch, Integer(low=0)]
BrokerIds: TypeAlias = Annotated[tuple[BrokerId, ...], Most(MAX_REPLICAS)]
ReplicaDirectories: TypeAlias = Annotated[tuple[uuid.UUID, ...], Most(MAX_REPLICAS)]
LogDirs: TypeAlias = Annotated[tuple[uuid.UUID, ...], Most(MAX_DIRECTORIES)]
_Int64: TypeAlias = Annotated[int, Integer(bits=64, low=0)]
_Level: TypeAlias = Annotated[int, Integer(bits=16, low=0)]
_Name: TypeAlias = Annotated[str, Most(255)]
_TopicName: TypeAlias = Annotated[str, Most(249)]
_EntityName: TypeAlias = Annotated[str, Most(1 << 12)]
_Salt: TypeAlias = Annotated[SecretBytes, Most(1 << 10)]
_Key: TypeAlias = Annotated[SecretBytes, Most(128)]
_SealingKeyId: TypeAlias = Annotated[str, Most(16)]
RegisteredName: TypeAlias = Annotated[str, Most(MAX_REGISTERED_NAME)]


@value(frozen=True, slots=True, kw_only=True)
class BrokerEndpoint:
    """An endpoint of a broker: the listener's name, host and port."""

    name: RegisteredName
    host: RegisteredName
    port: Annotated[int, Integer(low=0)]


@value(frozen=True, slots=True, kw_only=True)
class FeatureRange:
    """The levels of a feature that a broker supports, both inclusive."""

    name: _Name
    min_level: _Level
    max_level: _Level


Listeners: TypeAlias = Annotated[tuple[BrokerEndpoint, ...], Most(MAX_LISTENERS)]
Features: TypeAlias = Annotated[tuple[FeatureRange, ...], Most(256)]


@value(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    """A broker process made itself known, or the same process did so again."""

    broker_id: BrokerId
    incarnation_id: uuid.UUID
    """Drawn by each process: a restart has another."""
    broker_epoch: _Int64
    """The offset of the first registration record of this incarnation."""
    listeners: Listeners = ()
    rack: RegisteredName | None = None
    features: Features = ()
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: LogDirs = ()
    """Ids of the directories that are online. Empty: registered by a version that didn't say."""
    inactive_reason: ChangeReason | None = None
    """The value of `BrokerState.inactive_reason`; None for a new incarnation."""
    proven_epoch: _Int64 | None = None
    """The value of `BrokerState.proven_epoch` (KIP-966)."""


@value(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChange:
    """A broker was fenced, unfenced, began its controlled shutdown or lost a directory. None: unchanged."""

    broker_id: BrokerId
    broker_epoch: _Int64
    fenced: bool | None = None
    in_controlled_shutdown: bool | None = None
    log_dirs: LogDirs | None = None
    reason: ChangeReason | None = None
    """None in records of versions that did not say."""
    last_heard_ms: _Int64 | None = None
    """The time at which the controller last heard the broker before it fenced it (ms since the Unix epoch, by
    the clock of the controller): the last heartbeat. Without one, for the broker of the active controller
    before: its last sign as leader of the quorum. None: neither was heard."""


@value(frozen=True, slots=True, kw_only=True)
class UnregisterBroker:
    """A broker was unregistered."""

    broker_id: BrokerId
    broker_epoch: _Int64


@value(frozen=True, slots=True, kw_only=True)
class FirstEpoch:
    """The leader epoch with which a topic's partitions from `partition_id` on begin."""

    partition_id: PartitionId
    leader_epoch: LeaderEpoch


@value(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic was created. Its partitions follow, in order."""

    name: _TopicName
    topic_id: uuid.UUID
    first_epochs: Annotated[tuple[FirstEpoch, ...], Most(MAX_FIRST_EPOCHS)] = ()
    """The first epochs of a topic that was shrunk, in snapshots: see `TopicState.first_epochs`."""


@value(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition's whole state."""

    topic_id: uuid.UUID
    partition_id: PartitionId
    replicas: BrokerIds
    """Broker ids in order of preference."""
    isr: BrokerIds
    removing_replicas: BrokerIds = ()
    adding_replicas: BrokerIds = ()
    leader: LeaderId = NO_LEADER
    leader_recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    leader_epoch: LeaderEpoch = Epoch(0)
    partition_epoch: Annotated[int, Integer(low=0)] = 0
    eligible_leader_replicas: BrokerIds = ()
    """KIP-966: no member of the ISR, and sure to have every committed record. Empty while the ISR has
    min.insync.replicas members."""
    last_known_elr: BrokerIds = ()
    """The last leader, where the ISR is empty."""
    directories: ReplicaDirectories = ()
    """The directory of each replica, in the order of `replicas` (KIP-858). Empty, as in older records:
    `MIGRATING` for all. A reader that skips the field elects as it did before there were directories."""


@value(frozen=True, slots=True, kw_only=True)
class PartitionChange:
    """A change of a partition. None: unchanged.

    The partition epoch rises by one with each; the leader epoch rises by one when `leader` is present, even
    if it names the same broker.
    """

    topic_id: uuid.UUID
    partition_id: PartitionId
    isr: BrokerIds | None = None
    leader: LeaderId | None = None
    replicas: BrokerIds | None = None
    removing_replicas: BrokerIds | None = None
    adding_replicas: BrokerIds | None = None
    leader_recovery_state: LeaderRecoveryState | None = None
    eligible_leader_replicas: BrokerIds | None = None
    last_known_elr: BrokerIds | None = None
    directories: ReplicaDirectories | None = None
    """None: those that stay replicas keep theirs (KAFKA-16583), those that are new have none yet."""
    reason: ChangeReason | None = None
    """None in records of versions that did not say."""


@value(frozen=True, slots=True, kw_only=True)
class ShrinkTopic:
    """A topic has fewer partitions: its last ones and their records are removed (Kafka's V2 controller).

    Partitions that get their numbers later begin with a leader epoch above those of the removed ones.
    """

    topic_id: uuid.UUID
    num_partitions: Annotated[int, Integer(low=1)]
    """The number of partitions that are left; at least one."""


@value(frozen=True, slots=True, kw_only=True)
class RemoveTopic:
    """A topic was deleted, with its partitions and its configuration."""

    topic_id: uuid.UUID


@value(frozen=True, slots=True, kw_only=True)
class Config:
    """A configuration key was set, or with None removed."""

    resource_type: ConfigType
    resource_name: Annotated[str, Most(MAX_RESOURCE_NAME)]
    """A topic's name, a broker's id in digits, or empty for every broker."""
    name: _Name
    value: str | None


@value(frozen=True, slots=True, kw_only=True)
class FeatureLevel:
    """A feature's finalized level; 0 removes it."""

    name: _Name
    level: _Level


@value(frozen=True, slots=True, kw_only=True)
class ProducerIds:
    """A broker was given the unused producer ids below `next_producer_id`."""

    broker_id: BrokerId
    broker_epoch: _Int64
    next_producer_id: _Int64


@value(frozen=True, slots=True, kw_only=True)
class QuotaEntity:
    """The entity that has a quota: one of the two or both of `user` and `client_id`, or `ip` alone. An empty
    name is the default of its type, None: the entity has no such part (KIP-546)."""

    user: _EntityName | None = None
    client_id: _EntityName | None = None
    ip: _EntityName | None = None


@value(frozen=True, slots=True, kw_only=True)
class ClientQuota:
    """A quota of an entity was set, or with None removed (KIP-546)."""

    entity: QuotaEntity
    key: _Name
    """The quota, such as `producer_byte_rate`."""
    value: float | None


@value(frozen=True, slots=True, kw_only=True)
class AccessControlEntry:
    """An ACL was created (KIP-11, KIP-801)."""

    id: uuid.UUID
    acl: Acl


@value(frozen=True, slots=True, kw_only=True)
class RemoveAccessControlEntry:
    """An ACL was deleted."""

    id: uuid.UUID


@value(frozen=True, slots=True, kw_only=True)
class UserScramCredential:
    """A user has a password, for one mechanism of SCRAM (KIP-554). It is not the password, but as secret: its
    keys let others pose as the user or as the server. So they are sealed
    (`quorate.broker.access.sealing`)."""

    name: _Name
    """The user."""
    mechanism: ScramMechanism
    salt: _Salt
    stored_key: _Key
    server_key: _Key
    iterations: Annotated[int, Integer(low=1)]
    sealed_by: _SealingKeyId = ""
    """The id of the key that sealed both keys; empty: they are as SCRAM has them."""


@value(frozen=True, slots=True, kw_only=True)
class RemoveUserScramCredential:
    """A user has no password for this mechanism any more (KIP-554)."""

    name: _Name
    mechanism: ScramMechanism


@value(frozen=True, slots=True, kw_only=True)
class NoOp:
    """Says that time has passed (KIP-835)."""


@value(frozen=True, slots=True, kw_only=True)
class BeginTransaction:
    """The begin of one change in more than one batch, which takes effect at its end (KIP-868)."""

    name: str | None = None
    """A description of the change, for people."""


@value(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """The open transaction takes effect."""


@value(frozen=True, slots=True, kw_only=True)
class AbortTransaction:
    """The open transaction has no effect."""

    reason: str | None = None


Record: TypeAlias = (
    RegisterBroker
    | BrokerRegistrationChange
    | UnregisterBroker
    | Topic
    | Partition
    | PartitionChange
    | ShrinkTopic
    | RemoveTopic
    | Config
    | FeatureLevel
    | ProducerIds
    | ClientQuota
    | AccessControlEntry
    | RemoveAccessControlEntry
    | UserScramCredential
    | RemoveUserScramCredential
    | NoOp
    | BeginTransaction
    | EndTransaction
    | AbortTransaction
)
