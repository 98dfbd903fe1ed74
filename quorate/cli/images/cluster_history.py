"""The metadata of a live cluster. A broker serves the log, as to any consumer; the controllers' nodes serve
their snapshots. No replica is known by it, and nothing waits for the reader."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from quorate.broker.admin import Controllers
from quorate.broker.admin.quorum import controllers_of
from quorate.cli.console import ExitCode, ask_cluster
from quorate.cli.images.histories import HistoryError, StoredSnapshot, Warn
from quorate.error_code import ErrorCode
from quorate.log.snapshots import SnapshotReader, name_of
from quorate.raft import OutcomeUnknownError, RequestRefusedError
from quorate.raft.storage import SkippedBatches
from quorate.runtime import Address, NetworkError
from quorate.runtime.real import RealNetwork, open_read_only
from quorate.spark_source import ClusterLog
from quorate.types import SnapshotId

if TYPE_CHECKING:
    from quorate.log.batches import Batch

_TIMEOUT_MS: Final = 10_000


@dataclass(slots=True)
class ClusterHistory:
    """The log from where a broker has it on, and the snapshots of all controllers that answer."""

    servers: tuple[Address, ...]
    """Of brokers, or with `controllers` the controller listeners."""
    controllers: bool = False
    _start: int = 0
    _holders: dict[SnapshotId, list[Address]] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return f"the cluster at {','.join(map(str, self.servers))}"

    @property
    def _log(self) -> ClusterLog:
        return ClusterLog(
            bootstrap_servers=self.servers,
            retries=2,
            retry_interval_ms=200,
            request_timeout_ms=_TIMEOUT_MS,
            controllers=self.controllers,
        )

    def bounds(self) -> tuple[int, int]:
        extent = self._log.extent()
        self._start = extent.start_offset
        return extent.start_offset, extent.end_offset

    def snapshots(self, warn: Warn) -> Sequence[StoredSnapshot]:
        try:
            addresses = list(self.servers)
            if not self.controllers:
                addresses = ask_cluster(",".join(map(str, self.servers)), controllers_of)
            controllers = Controllers(RealNetwork(), addresses, timeout_ms=_TIMEOUT_MS)
            listed = trio.run(controllers.list_snapshots)
        except (NetworkError, OutcomeUnknownError):
            if self._start:
                raise
            # The log has it all, only slower.
            return ()
        self._holders.clear()
        found = {}
        for address, snapshots in listed.items():
            for each in snapshots:
                self._holders.setdefault(each.snapshot, []).append(address)
                found[each.snapshot] = StoredSnapshot(each.snapshot, each.last_timestamp_ms)
        return sorted(found.values())

    def chunks(self, snapshot: SnapshotId) -> Iterator[bytes]:
        with tempfile.TemporaryDirectory(prefix="quorate-snapshot-") as folder:
            file = Path(folder) / name_of(snapshot)
            self._download(snapshot, file)
            with SnapshotReader(open_read_only(str(file)), snapshot) as reader:
                yield from reader

    def _download(self, snapshot: SnapshotId, file: Path) -> None:
        problems: list[str] = []
        for address in self._holders.get(snapshot, ()):
            controllers = Controllers(RealNetwork(), [address], timeout_ms=_TIMEOUT_MS)
            try:
                with file.open("wb") as opened:
                    trio.run(controllers.read_snapshot, address, snapshot, opened.write)
            except RequestRefusedError as error:
                if error.code is not ErrorCode.SNAPSHOT_NOT_FOUND:
                    raise
                problems.append(f"{address} has deleted it")
            except (NetworkError, OutcomeUnknownError) as error:
                problems.append(str(error))
            else:
                return
        raise HistoryError(
            f"the snapshot at {snapshot.end_offset} can't be read: {'; '.join(problems)}. Try again",
            ExitCode.UNAVAILABLE,
        )

    def batches(self, start: int, end: int) -> "Iterator[Batch]":
        return self._log.batches(start, end)

    def skipped(self) -> SkippedBatches:
        # A node's own: none is asked, and a batch that the image can't take says so.
        return SkippedBatches()
