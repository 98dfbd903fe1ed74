"""The page about a cluster, served from a node's folder or a snapshot alone."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial

import trio
from prometheus_client import CollectorRegistry

from quorate.broker.page.page_server import Page
from quorate.broker.page.replayed import Past, Reach
from quorate.health import PageDiagnosis
from quorate.history import MetadataHistory
from quorate.log.batches.batch import Batch
from quorate.log.snapshots.snapshot_file import SnapshotReader
from quorate.metrics import serve_metrics
from quorate.runtime import Address, Network
from quorate.types import Epoch, Offset, SnapshotId


class FilesLog:
    """The `PageLog` of files, which their node may go on writing."""

    def __init__(self, history: MetadataHistory, warn: Callable[[str], None]) -> None:
        self._history = history
        self._warn = warn
        self._skipped = history.skipped()

    def reach(self) -> Reach:
        extent = self._history.extent()
        return Reach(extent.start_offset, extent.end_offset)

    def snapshots(self) -> Sequence[SnapshotId]:
        return sorted(each.snapshot for each in self._history.snapshots(self._warn))

    def open(self, snapshot: SnapshotId) -> AbstractContextManager[SnapshotReader]:
        return self._history.opened(snapshot)

    async def read(self, start: int, end: int) -> Sequence[Batch]:
        slab = next(iter(self._history.slabs(start, end)), None)
        return [] if slab is None else [each for each in slab.batches() if each.header.base_offset < end]

    def skips(self, batch: Batch) -> bool:
        header = batch.header
        return bool(self._skipped) and self._skipped.skips(
            Offset(header.base_offset), Epoch(header.leader_epoch)
        )

    def epoch_start(self, epoch: int) -> int | None:
        return None


async def serve_files(
    history: MetadataHistory,
    network: Network,
    port: int,
    *,
    warn: Callable[[str], None],
    listening: Callable[[Address], None],
) -> None:
    """Serve the page at a port of this machine until cancelled. Raises `HistoryError`,
    `AddressInUseError`."""
    past = Past(FilesLog(history, warn))
    await past.at(past.latest)
    page = Page(past, live=None, place=history.place, local_only=True, health=PageDiagnosis())
    listener = await network.listen(Address("127.0.0.1", port))
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(page.run)
            nursery.start_soon(partial(serve_metrics, listener, CollectorRegistry(), site=page))
            listening(listener.address)
    finally:
        listener.close()
