"""A failed disk takes its directory offline, with every replica in it. Damage takes one replica only, because
the disk works."""

import uuid
from collections.abc import Callable, Sequence

import trio

from quorate.broker.replication.replica.hosted_replicas import HostedReplicas
from quorate.broker.replication.replica.partition_replica import PartitionReplica
from quorate.broker.replication.storage import LogManager, failure_reason
from quorate.log import DamagedLogError
from quorate.runtime import DescriptorsExhaustedError, get_logger

log = get_logger(__name__)


def remedy_for(topic: str, partition_id: int, broker_id: int) -> str:
    """Return what a person can do about a damaged replica."""
    return (
        f"fetch it anew: quorate log-dirs refetch --replica {topic}:{partition_id}:{broker_id} "
        "(docs/how-to/recover-a-damaged-replica.md)"
    )


class DiskFailures:
    """Takes directories and damaged replicas offline, when somebody reports a failure."""

    def __init__(
        self,
        broker_id: int,
        logs: LogManager,
        *,
        hosted: HostedReplicas,
        report: Callable[[Sequence[uuid.UUID]], None],
        damaged: Callable[[str, int], None],
    ) -> None:
        """`report` is called with all failed directories when there may be more; `damaged` with topic and
        partition of a replica whose log is damaged."""
        self._broker_id = broker_id
        self._logs = logs
        self._hosted = hosted
        self._report = report
        self._damaged = damaged
        self.out_of_folders = trio.Event()
        """No directory is left, or not that of the metadata log."""

    def failed(self, partition: PartitionReplica, error: Exception) -> None:
        """A use of an open log has failed."""
        if not self._hosted.has(partition):
            return  # its files are being removed
        if isinstance(error, DescriptorsExhaustedError):
            log.error("a partition's files can't be opened", partition=str(partition), reason=str(error))
            return
        if isinstance(error, DamagedLogError):
            # The disk gives what it has: the other replicas in the directory go on.
            log.error(
                "a replica is damaged",
                topic=partition.topic,
                partition=partition.partition_id,
                reason=str(error),
                remedy=remedy_for(partition.topic, partition.partition_id, self._broker_id),
            )
            partition.fail(str(error))
            self._damaged(partition.topic, partition.partition_id)
            return
        elsewhere = self._logs.elsewhere(partition.log, error)
        if elsewhere is not None:
            # It has moved since.
            self.directory_failed(elsewhere, error)
            return
        reason = failure_reason(error)
        partition.fail(reason)
        self._fail_all(self._logs.fail(partition.log, reason), reason)

    def directory_failed(self, directory: uuid.UUID, error: Exception) -> None:
        """A use of a directory has failed, for no replica in it."""
        reason = failure_reason(error)
        self._fail_all(self._logs.fail_directory(directory, reason), reason)

    def cant_open(self, topic: str, partition_id: int, error: Exception) -> None:
        """A log could not be opened or made, nor its folder removed."""
        self._fail_all(self._logs.fail_dir_of(topic, partition_id, error), failure_reason(error))

    def _fail_all(self, keys: Sequence[tuple[str, int]], reason: str) -> None:
        for topic, partition_id in keys:
            partition = self._hosted.find(topic, partition_id)
            if partition is not None:
                partition.fail(reason)
        self._report(self._logs.failed_ids)
        if not self._logs.can_go_on:
            self.out_of_folders.set()
