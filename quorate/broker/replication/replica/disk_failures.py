"""A failed disk takes its directory offline, with every replica in it. Damage takes one replica only, because
the disk works."""

import uuid
from collections.abc import Callable, Sequence

import trio

from quorate.broker.replication.foundation.failures import (
    DamageFound,
    DirectoryFailed,
    Failures,
    OpeningFailed,
)
from quorate.broker.replication.replica.hosted_replicas import HostedReplicas
from quorate.broker.replication.replica.partition_replica import LogFailed
from quorate.broker.replication.storage.log_directory import failure_reason
from quorate.broker.replication.storage.log_manager import LogManager
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
    """Takes directories and damaged replicas offline when a failure is reported (`Failures`)."""

    def __init__(
        self,
        broker_id: int,
        logs: LogManager,
        hosted: HostedReplicas,
        failures: Failures,
        *,
        tell_controller: Callable[[Sequence[uuid.UUID]], None],
    ) -> None:
        """`tell_controller` is called with all failed directories when there may be more."""
        self._broker_id = broker_id
        self._logs = logs
        self._hosted = hosted
        self._failures = failures
        self._tell_controller = tell_controller
        self.out_of_folders = trio.Event()
        """No directory is left, or not that of the metadata log."""

    def log_failed(self, failure: LogFailed) -> None:
        """Fail the replica alone if its log is damaged, and else its directory."""
        partition, error = failure.partition, failure.error
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
            self._failures.report(DamageFound(partition.topic, partition.partition_id))
            return
        elsewhere = self._logs.elsewhere(partition.log, error)
        if elsewhere is not None:
            # It has moved since.
            self.directory_failed(DirectoryFailed(elsewhere, error))
            return
        reason = failure_reason(error)
        partition.fail(reason)
        self._fail_all(self._logs.fail(partition.log, reason), reason)

    def directory_failed(self, failure: DirectoryFailed) -> None:
        """Fail the directory."""
        reason = failure_reason(failure.error)
        self._fail_all(self._logs.fail_directory(failure.directory, reason), reason)

    def opening_failed(self, failure: OpeningFailed) -> None:
        """Fail the directory that the log is in, or was to be made in."""
        keys = self._logs.fail_dir_of(failure.topic, failure.partition_id, failure.error)
        self._fail_all(keys, failure_reason(failure.error))

    def _fail_all(self, keys: Sequence[tuple[str, int]], reason: str) -> None:
        for topic, partition_id in keys:
            partition = self._hosted.find(topic, partition_id)
            if partition is not None:
                partition.fail(reason)
        self._tell_controller(self._logs.failed_ids)
        if not self._logs.can_go_on:
            self.out_of_folders.set()
