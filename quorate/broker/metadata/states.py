"""The immutable states of brokers, topics and partitions in an image."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from quorate.broker.metadata.metadata_records import (
    LOST,
    MIGRATING,
    UNASSIGNED,
    BrokerEndpoint,
    BrokerRegistrationChange,
    ChangeReason,
    ConfigType,
    FeatureRange,
    FirstEpoch,
    LeaderRecoveryState,
    Partition,
    PartitionChange,
    RegisterBroker,
    Topic,
    is_reserved,
)
from quorate.types import Epoch


class ImageError(Exception):
    """A record that does not fit the image it is applied to. The log is damaged or was written by a fault
    of ours: a node that meets it stops."""


class ConfigResource(NamedTuple):
    type: ConfigType
    name: str


class PartitionKey(NamedTuple):
    topic_id: uuid.UUID
    partition_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    broker_id: int
    incarnation_id: uuid.UUID
    epoch: int
    """The offset of the record that first registered this incarnation."""
    listeners: tuple[BrokerEndpoint, ...]
    rack: str | None
    features: tuple[FeatureRange, ...]
    log_dirs: tuple[uuid.UUID, ...]
    fenced: bool
    in_controlled_shutdown: bool
    inactive_reason: ChangeReason | None = None
    """Why the broker was taken out of service. None while it is active, for an incarnation that was not
    active yet, and where the record did not say."""
    proven_epoch: int | None = None
    """The broker epoch of the last life that may have been active, if this incarnation and all between proved
    to have its data in full. Once this incarnation is active, its data is of its own epoch. None: it proved
    nothing."""

    @classmethod
    def of(cls, record: RegisterBroker) -> "BrokerState":
        """Return the state that a registration gives its broker."""
        return cls(
            broker_id=record.broker_id,
            incarnation_id=record.incarnation_id,
            epoch=record.broker_epoch,
            listeners=record.listeners,
            rack=record.rack,
            features=record.features,
            log_dirs=record.log_dirs,
            fenced=record.fenced,
            in_controlled_shutdown=record.in_controlled_shutdown,
            inactive_reason=record.inactive_reason,
            proven_epoch=record.proven_epoch,
        )

    @property
    def record(self) -> RegisterBroker:
        """The registration that says all of this state."""
        return RegisterBroker(
            broker_id=self.broker_id,
            incarnation_id=self.incarnation_id,
            broker_epoch=self.epoch,
            listeners=self.listeners,
            rack=self.rack,
            features=self.features,
            log_dirs=self.log_dirs,
            fenced=self.fenced,
            in_controlled_shutdown=self.in_controlled_shutdown,
            inactive_reason=self.inactive_reason,
            proven_epoch=self.proven_epoch,
        )

    @property
    def active(self) -> bool:
        """True if the broker may lead and join ISRs."""
        return not self.fenced and not self.in_controlled_shutdown

    def has_online(self, directory: uuid.UUID) -> bool:
        """Return whether the recorded directory of one of the broker's replicas is online. An unknown
        directory counts as online: a broker may have registered before KIP-858, and a replica may not be
        placed yet (KAFKA-16162)."""
        if is_reserved(directory):
            return directory != LOST
        return not self.log_dirs or directory in self.log_dirs

    def has_data_of(self, broker_epoch: int) -> bool:
        """Return whether a disk with all data of that life of the broker has all data of this one: its own
        life, or one that was followed by none that was active. Registrations may arrive late, so that a life
        is followed by an earlier one."""
        first = self.epoch if self.proven_epoch is None else self.proven_epoch
        return first <= broker_epoch <= self.epoch

    def changed(self, change: BrokerRegistrationChange) -> "BrokerState":
        """Return the broker after `change`."""
        fenced = self.fenced if change.fenced is None else change.fenced
        leaving = (
            self.in_controlled_shutdown
            if change.in_controlled_shutdown is None
            else change.in_controlled_shutdown
        )
        if not fenced and not leaving:
            reason = None
        elif change.fenced or change.in_controlled_shutdown:
            reason = change.reason
        else:
            reason = self.inactive_reason
        return replace(
            self,
            fenced=fenced,
            in_controlled_shutdown=leaving,
            inactive_reason=reason,
            proven_epoch=self.proven_epoch if fenced else None,
            log_dirs=self.log_dirs if change.log_dirs is None else change.log_dirs,
        )

    def endpoint(self, listener_name: str) -> BrokerEndpoint | None:
        return next((each for each in self.listeners if each.name == listener_name), None)


class EligibleLeaders(NamedTuple):
    """The replicas that may lead a partition if no ISR member can (KIP-966)."""

    elr: tuple[int, ...] = ()
    """No members of the ISR, and sure to have every committed record: they were members when the ISR fell
    below min.insync.replicas, nothing was committed since, and they have lost nothing."""
    last_known: tuple[int, ...] = ()
    """The last leader, where the ISR is empty."""


NO_ELIGIBLE: Final = EligibleLeaders()
"""The value of nearly every partition: its ISR has min.insync.replicas members."""


class PartitionState(NamedTuple):
    """A named tuple, because one is made whenever a partition is looked at (`TopicPartitions`): a frozen
    dataclass takes three times as long to build."""

    leader_epoch: Epoch
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    leader: int
    leader_recovery_state: LeaderRecoveryState
    eligible: EligibleLeaders = NO_ELIGIBLE
    directories: tuple[uuid.UUID, ...] = ()
    """The directory of each replica, in the order of `replicas`. Empty: `MIGRATING` for all."""

    def directory_of(self, broker_id: int) -> uuid.UUID:
        """Return the recorded directory of the broker's replica; `UNASSIGNED` if it has none."""
        for replica, directory in zip(self.replicas, self.directories, strict=False):
            if replica == broker_id:
                return directory
        return MIGRATING if not self.directories and broker_id in self.replicas else UNASSIGNED

    @property
    def is_reassigning(self) -> bool:
        """True while replicas are being added or removed (KIP-455)."""
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def original_replicas(self) -> tuple[int, ...]:
        """The replicas without those that a reassignment under way adds: the result of its cancellation.
        Those that it keeps come first, in its order."""
        adding = self.adding_replicas
        return tuple(each for each in self.replicas if each not in adding) if adding else self.replicas

    @property
    def target_replicas(self) -> tuple[int, ...]:
        """The replicas without those that a reassignment under way removes: the result of its end."""
        removing = self.removing_replicas
        return tuple(each for each in self.replicas if each not in removing) if removing else self.replicas

    def moved_to(self, broker_id: int, directory: uuid.UUID) -> tuple[uuid.UUID, ...]:
        """Return the directories, with the broker's replica in `directory`."""
        known = self.directories or (MIGRATING,) * len(self.replicas)
        return tuple(
            directory if replica == broker_id else each
            for replica, each in zip(self.replicas, known, strict=True)
        )

    @property
    def elr(self) -> tuple[int, ...]:
        return self.eligible.elr


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    name: str
    topic_id: uuid.UUID
    first_epochs: tuple[FirstEpoch, ...] = ()
    """The first epochs by partition id, rising. Empty: the topic was never shrunk, and its partitions began
    with epoch 0."""

    def first_epoch(self, partition_id: int) -> Epoch:
        """Return the leader epoch with which the partition began, or with which it will.

        With the topic id it tells a partition from an earlier one of its number, which a shrinking topic has
        lost: that one had lower leader epochs only.
        """
        for each in reversed(self.first_epochs):
            if each.partition_id <= partition_id:
                return each.leader_epoch
        return Epoch(0)

    @property
    def record(self) -> Topic:
        """The record that says all of this state."""
        return Topic(name=self.name, topic_id=self.topic_id, first_epochs=self.first_epochs)

    def shrunk(self, removed: Sequence[PartitionState], *, left: int) -> "TopicState":
        """Return the topic without its partitions from `left` on, which are `removed`."""
        # Of numbers that went earlier and are not there now, the last entry knows.
        earlier = self.first_epochs[-1].leader_epoch if self.first_epochs else 0
        highest = max(earlier, *(state.leader_epoch + 1 for state in removed))
        kept = tuple(each for each in self.first_epochs if each.partition_id < left)
        first = FirstEpoch(partition_id=left, leader_epoch=Epoch(highest))
        return replace(self, first_epochs=(*kept, first))


def placed(record: Partition) -> PartitionState:
    """Return the state that a record gives its partition."""
    # As `PartitionState(...)`, at half the cost: one is made with every record replayed.
    return tuple.__new__(
        PartitionState,
        (
            record.leader_epoch,
            record.partition_epoch,
            record.replicas,
            record.isr,
            record.removing_replicas,
            record.adding_replicas,
            record.leader,
            record.leader_recovery_state,
            as_eligible(record.eligible_leader_replicas, record.last_known_elr),
            record.directories,
        ),
    )


def changed(before: PartitionState, change: PartitionChange) -> PartitionState:
    """Return the partition after `change`."""
    leader_epoch: int
    (
        leader_epoch,
        partition_epoch,
        replicas,
        isr,
        removing,
        adding,
        leader,
        recovery,
        eligible,
        directories,
    ) = before
    if change.replicas is not None:
        replicas = change.replicas
        if directories:
            directories = tuple(map(before.directory_of, replicas))
    if change.directories is not None:
        directories = change.directories
    if change.isr is not None:
        isr = change.isr
    if change.removing_replicas is not None:
        removing = change.removing_replicas
    if change.adding_replicas is not None:
        adding = change.adding_replicas
    if change.leader is not None:
        leader = change.leader
        leader_epoch += 1
    if change.leader_recovery_state is not None:
        recovery = change.leader_recovery_state
    if change.eligible_leader_replicas is not None or change.last_known_elr is not None:
        eligible = _eligible_after(eligible, change)
    return tuple.__new__(
        PartitionState,
        (
            leader_epoch,
            partition_epoch + 1,
            replicas,
            isr,
            removing,
            adding,
            leader,
            recovery,
            eligible,
            directories,
        ),
    )


def _eligible_after(before: EligibleLeaders, change: PartitionChange) -> EligibleLeaders:
    elr, last_known = change.eligible_leader_replicas, change.last_known_elr
    return as_eligible(
        before.elr if elr is None else elr, before.last_known if last_known is None else last_known
    )


def as_eligible(elr: tuple[int, ...], last_known: tuple[int, ...]) -> EligibleLeaders:
    return EligibleLeaders(elr, last_known) if elr or last_known else NO_ELIGIBLE
