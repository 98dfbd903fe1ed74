"""Requests find the replicas that they name here, or the error that says why they may not have them."""

import uuid
from collections.abc import Callable

import trio

from quorate.broker.metadata.states import PartitionState
from quorate.broker.replication.foundation.current_metadata import CurrentMetadata
from quorate.broker.replication.foundation.errors import NotOpenedError, PartitionError
from quorate.broker.replication.foundation.requests import TopicRef
from quorate.broker.replication.replica.hosted_replicas import HostedReplicas
from quorate.broker.replication.replica.partition_replica import PartitionReplica
from quorate.error_code import ErrorCode


class PartitionLookups:
    """Looks partitions up in the hosted replicas and in the image. It owns nothing."""

    __slots__ = ("_broker_id", "_controller_silent_s", "_hosted", "_metadata", "_session_s")

    def __init__(
        self,
        broker_id: int,
        hosted: HostedReplicas,
        metadata: CurrentMetadata,
        *,
        controller_silent_s: Callable[[], float],
        session_s: float,
    ) -> None:
        self._broker_id = broker_id
        self._hosted = hosted
        self._metadata = metadata
        self._controller_silent_s = controller_silent_s
        self._session_s = session_s

    def partition(self, topic: TopicRef, partition_id: int) -> PartitionReplica:
        """Return the replica. Raises `PartitionError` if it is not here (yet)."""
        found = self._hosted.find(topic, partition_id)
        if found is not None:
            return found
        if isinstance(topic, uuid.UUID):
            known = self._metadata.image.topic_by_id(topic)
            if known is None:
                raise PartitionError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {topic}")
        else:
            known = self._metadata.image.topic(topic)
        state: PartitionState | None = None
        if known is not None:
            state = self._metadata.image.partition(known.topic_id, partition_id)
        if known is None or state is None:
            raise PartitionError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition_id} of {topic}"
            )
        if self._hosted.is_starved(known.name, partition_id):
            raise PartitionError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"partition {partition_id} of {topic} can't be opened for now: too few file descriptors are "
                "left",
            )
        damaged = self._hosted.damage_of(known.name, partition_id)
        if damaged is not None:
            raise PartitionError(ErrorCode.KAFKA_STORAGE_ERROR, damaged)
        message = (
            f"partition {partition_id} of {topic} is led by broker {state.leader}, or not opened here yet"
        )
        if state.leader == self._broker_id:
            opening = self._hosted.opening(known.name, partition_id)
            if opening is not None:
                raise NotOpenedError(message, leader_epoch=state.leader_epoch, opening=opening)
        raise PartitionError(ErrorCode.NOT_LEADER_OR_FOLLOWER, message)

    def is_cut_off(self, partition: PartitionReplica) -> bool:
        """Return whether this broker believes to lead it while no other broker can confirm that: its clients
        should look for another leader. While followers fetch, a quorum without a leader is no reason, because
        their records can be committed."""
        return (
            partition.leading is not None
            and self.is_controller_silent()
            and partition.leading.unheard_by_others(now=trio.current_time(), after_s=self._session_s)
        )

    def is_controller_silent(self) -> bool:
        """Return whether the controller has not answered this broker for a session."""
        return self._controller_silent_s() >= self._session_s

    def writable(self, topic: TopicRef, partition_id: int) -> PartitionReplica:
        """Return the replica, unless another broker may lead it by now. Raises `PartitionError`."""
        partition = self.partition(topic, partition_id)
        if self.is_cut_off(partition):
            raise PartitionError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{partition}: neither the controller nor a follower has been heard of for a session; "
                "another broker may lead by now",
            )
        return partition

    def deletable(self, topic: TopicRef, partition_id: int) -> PartitionReplica:
        """Return the replica, if its topic's records may be deleted. Raises `PartitionError`."""
        partition = self.writable(topic, partition_id)
        partition.check_leading()
        config = self._metadata.config(partition.topic)
        if config.cleanup_compact and not config.cleanup_delete:
            raise PartitionError(
                ErrorCode.POLICY_VIOLATION,
                f"records of {partition} can't be deleted: its topic has cleanup.policy=compact; add delete "
                "to it, or write tombstones",
            )
        return partition

    def sends_clients_away(self, topic: TopicRef, partition_id: int) -> bool:
        """Return whether clients that ask for the leader should look for another one."""
        found = self._hosted.find(topic, partition_id)
        return found is not None and self.is_cut_off(found)

    @property
    def any_cut_off(self) -> bool:
        """True if clients should look for another leader of any partition."""
        # Every Metadata asks, and a node may host many partitions.
        return self.is_controller_silent() and any(
            self.is_cut_off(each) for each in self._hosted.partitions()
        )
