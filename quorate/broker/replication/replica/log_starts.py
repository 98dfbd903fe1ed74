"""Raised log starts: made durable, and the segments below them removed."""

from collections.abc import Sequence
from functools import partial

from quorate.broker.replication.foundation.failures import Failures
from quorate.broker.replication.replica.hosted_replicas import HostedReplicas
from quorate.broker.replication.replica.partition_replica import LogFailed, PartitionReplica
from quorate.broker.replication.storage.log_manager import LogManager
from quorate.log import LogError, LogInterruptedError
from quorate.runtime import DiskError, Tasks, get_logger

log = get_logger(__name__)


class LogStarts:
    """Makes log starts durable. `raised` is called after one went up in memory, as leader or as follower."""

    def __init__(
        self,
        logs: LogManager,
        hosted: HostedReplicas,
        failures: Failures,
        tasks: Tasks,
    ) -> None:
        self._logs = logs
        self._hosted = hosted
        self._failures = failures
        self._tasks = tasks
        self._removing: set[PartitionReplica] = set()

    async def raised(self, partitions: Sequence[PartitionReplica]) -> None:
        """Make the log starts durable (`durable_log_start_offset`), and begin to remove what is below: each
        segment costs a sync, and thousands may go. A folder that can't be written goes offline with its
        partitions."""
        failures = await self._logs.store_log_starts([(each.topic, each.partition_id) for each in partitions])
        for each in partitions:
            error = failures.get((each.topic, each.partition_id))
            if error is not None:
                self._failures.report(LogFailed(each, error))
            elif each not in self._removing and not self._tasks.ended:
                self._removing.add(each)
                self._tasks.start(partial(self._remove, each))

    async def _remove(self, partition: PartitionReplica) -> None:
        try:
            async with partition.upkeep:
                # It may have failed or gone while this waited.
                if partition.failure is not None or not self._hosted.has(partition):
                    return
                self._removing.discard(partition)
                removed = await partition.log.remove_below_log_start()
                if removed:
                    log.info(
                        "removed the segments below the log start",
                        partition=str(partition),
                        segments=removed,
                        log_start_offset=partition.log.log_start_offset,
                    )
        except LogInterruptedError:
            pass  # The broker is stopping; the next start removes them.
        except (DiskError, LogError) as error:
            self._failures.report(LogFailed(partition, error))
        finally:
            self._removing.discard(partition)
