"""The life of this broker's replicas, from the scan of the directories to the mark of an orderly shutdown."""

from collections.abc import Sequence

import trio

from quorate.broker.replication.foundation.errors import AllDirectoriesFailedError
from quorate.broker.replication.storage.log_directory import BadDirectory, Directory
from quorate.broker.replication.storage.log_manager import LogManager
from quorate.broker.replication.wiring import ReplicationContext, assemble
from quorate.broker.settings.replication_config import ReplicationConfig
from quorate.runtime import DiskError, get_logger

log = get_logger(__name__)


class ReplicaManager:
    """The replicas of a broker. Open it with `open`. It serves while `run` runs. Call `close` last."""

    __slots__ = ("_log_close_timeout_ms", "_logs", "_parts", "intake", "replicas")

    def __init__(self, context: ReplicationContext, logs: LogManager) -> None:
        self._log_close_timeout_ms = context.config.log_close_timeout_ms
        self._logs = logs
        self._parts = assemble(context, logs)
        self.intake = self._parts.roles.intake
        """Takes committed metadata."""
        self.replicas = self._parts.replicas
        """Answers the requests of clients, followers and operators."""

    @classmethod
    async def open(
        cls, context: ReplicationContext, directories: Sequence[Directory | BadDirectory]
    ) -> "ReplicaManager":
        """Scan `directories`, the directories of `log.dirs`. Raises the errors of `LogManager.open`."""
        runtime = context.runtime
        logs = await LogManager.open(
            runtime.disk, directories, now_ms=runtime.wall_clock.now_ms, boot_id=runtime.boot_id
        )
        return cls(context, logs)

    def reconfigure(self, config: ReplicationConfig) -> None:
        """Apply the fields of `config` that may change while a broker runs."""
        self._parts.storage.upkeep.producer_id_expiration_ms = config.producer_id_expiration_ms
        self._parts.storage.cleaner.reconfigure(config)

    def registered(self, broker_epoch: int) -> None:
        """Send `broker_epoch` with this broker's requests from now on."""
        self._parts.base.metadata.broker_epoch = broker_epoch
        self._logs.registered(broker_epoch)

    async def run(self) -> None:
        """Run until cancelled. Raises `AllDirectoriesFailedError` when no directory is left, or that of the
        metadata log has failed."""
        parts = self._parts
        async with parts.base.tasks.running() as nursery:
            nursery.start_soon(parts.base.purgatory.run)
            nursery.start_soon(parts.replicas.sessions.run)
            nursery.start_soon(parts.roles.isr_updater.run)
            nursery.start_soon(parts.roles.assignments.run)
            nursery.start_soon(parts.storage.upkeep.run)
            nursery.start_soon(parts.storage.scrubber.run)
            nursery.start_soon(parts.storage.cleaner.run)
            nursery.start_soon(parts.storage.space.run)
            nursery.start_soon(parts.roles.intake.run)
            try:
                await parts.base.disk_failures.out_of_folders.wait()
            finally:
                parts.roles.hosting.end()
            raise AllDirectoriesFailedError(
                f"no directory of log.dirs can be used any more, or not that of the metadata log: "
                f"{', '.join(self._logs.failed_dirs)}; see the errors logged before, mend the disk, and "
                "start again"
            )

    async def close(self, *, clean: bool) -> None:
        """Stop serving, and close the logs. `clean`: the broker was asked to stop. It then leaves the mark
        of an orderly shutdown, if everything was loaded (KAFKA-15375) and synced. Without the mark the
        next life proves nothing."""
        if not clean:
            self._logs.forsake()
        complete = self.intake.complete and self._parts.base.hosted.settled
        for partition in self._parts.base.hosted.partitions():
            partition.stop()
        try:
            with trio.move_on_after(self._log_close_timeout_ms / 1000) as closing:
                await self._parts.storage.upkeep.flush_all()
                clean = clean and complete and not self._logs.failed_dirs
                await self._logs.close(clean_epoch=self._parts.base.metadata.broker_epoch if clean else None)
            if closing.cancelled_caught:
                log.error(
                    "the disk did not sync the logs in time; the next start recovers them",
                    timeout_ms=self._log_close_timeout_ms,
                )
        except DiskError as error:
            self._logs.forsake()
            log.error(
                "the logs could not be closed in order; the next start recovers them", reason=str(error)
            )
        finally:
            self._logs.abandon()
