"""The end of the folder that a replica was moved from: first its records go, then the folder itself."""

import uuid
from collections.abc import Callable

import trio

from quorate.broker.metadata import is_reserved
from quorate.broker.replication.storage.future_logs import FutureLogs
from quorate.log import TopicPartition
from quorate.runtime import DiskError


class Retirement:
    """The folder with its mark stays until metadata names another directory (`recorded`): a broker that finds
    nothing where metadata says that its replica is would begin an empty log there."""

    def __init__(
        self,
        key: TopicPartition,
        source: uuid.UUID,
        futures: FutureLogs,
        *,
        kept_s: float,
        failed: Callable[[uuid.UUID, Exception], None],
    ) -> None:
        """`kept_s`: for how long whoever reads the old log may go on reading."""
        self.key = key
        self.source = source
        self.ended = trio.Event()
        self._futures = futures
        self._kept_s = kept_s
        self._failed = failed
        self._recorded = trio.Event()
        self._scope = trio.CancelScope()

    def recorded(self, directory: uuid.UUID) -> None:
        """Metadata names this directory for the replica."""
        if directory != self.source and not is_reserved(directory):
            self._recorded.set()

    def drop(self) -> None:
        """Stop: the whole replica is being removed."""
        self._scope.cancel()

    async def run(self) -> None:
        """Run until nothing is left, or `drop`."""
        try:
            with self._scope:
                await trio.sleep(self._kept_s)
                await self._futures.empty_departed(self.key)
                await self._recorded.wait()
                await self._futures.forget_departed(self.key)
        except DiskError as error:
            self._failed(self.source, error)
        finally:
            self.ended.set()
