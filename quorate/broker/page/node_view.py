"""The knowledge of a running node: its log for the past, its quorum and its disks for the present."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

import trio

from quorate.broker.metadata_cache import MetadataCache
from quorate.broker.page.moves import moves
from quorate.broker.page.page_state import Json, Seen
from quorate.broker.page.recent import Recent
from quorate.broker.page.recent_groups import RecentGroups
from quorate.broker.page.replayed import Reach
from quorate.broker.page.votes import Votes
from quorate.broker.replication.wiring import ReplicaServices
from quorate.log.batches.batch import Batch, read_batches
from quorate.log.snapshots.snapshot_file import SnapshotReader
from quorate.metrics import RaftMetrics
from quorate.raft import NotLeaderError, Quorum, QuorumDescription, QuorumStoppedError
from quorate.runtime import CertificateEnd
from quorate.types import SnapshotId

_READ_BYTES = 128 * 1024
"""Its batches are found in one piece."""
_ANSWER_MS = 800
_MOVED_AWAY: Final = "moved away bytes/s"
_AGAIN_MS = 900
"""The leader is not asked again sooner, however many look."""


class NodeLog:
    """The `PageLog` of a running node."""

    def __init__(self, quorum: Quorum[None]) -> None:
        self._quorum = quorum

    def reach(self) -> Reach:
        return Reach(self._quorum.log.log_start_offset, self._quorum.applied_offset)

    def snapshots(self) -> Sequence[SnapshotId]:
        end = self._quorum.applied_offset
        return [each for each in self._quorum.snapshots() if 0 < each.end_offset <= end]

    def open(self, snapshot: SnapshotId) -> AbstractContextManager[SnapshotReader]:
        return self._quorum.read_snapshot(snapshot)

    async def read(self, start: int, end: int) -> Sequence[Batch]:
        log = self._quorum.log
        # Where a batch reaches beyond `end` all of it is read: no record of it is used that should not be.
        data = await log.read(start, _READ_BYTES, end_offset=self._quorum.applied_offset)
        # The caller may have used up its slice, and the read may not have waited.
        await trio.lowlevel.checkpoint()
        return [each for each in read_batches(data) if each.header.base_offset < end]

    def skips(self, batch: Batch) -> bool:
        header = batch.header
        return any(
            each.offset == header.base_offset and each.epoch == header.leader_epoch
            for each in self._quorum.skipped
        )

    def epoch_start(self, epoch: int) -> int | None:
        return next((each.start_offset for each in self._quorum.log.epochs if each.epoch == epoch), None)


@dataclass(slots=True, kw_only=True)
class NodeView:
    """The present, as one node knows it."""

    node_id: int
    cluster_id: str
    metadata: MetadataCache
    quorum: Quorum[None]
    replicas: ReplicaServices | None
    recent: Recent
    now_ms: Callable[[], int]
    votes: Votes
    groups: RecentGroups | None = None
    """None: a controller alone coordinates none."""
    certificates: Callable[[], Sequence[CertificateEnd]] = tuple
    """All that the node uses now."""
    described: QuorumDescription | None = None
    """What a leader of the quorum said of it last."""
    asked_ms: int = 0
    described_ms: int = 0
    """When it was asked, and when it had answered, by this node's clock."""
    _tried_ms: int = 0

    def seen(self) -> Seen:
        """Return what this node has applied. The image is the live one: copy it before an `await`."""
        return Seen(
            image=self.metadata.image,
            offset=self.quorum.applied_offset - 1,
            time_ms=self.metadata.last_applied_timestamp_ms or None,
            epoch=self.quorum.epoch,
        )

    async def ask_leader(self) -> None:
        """Let the leader describe the quorum, unless it was asked just before."""
        asked_ms = self.now_ms()
        if 0 <= asked_ms - self._tried_ms < _AGAIN_MS:
            return
        try:
            self.described = await self.quorum.ask_description(timeout_ms=_ANSWER_MS)
            self.asked_ms, self.described_ms = asked_ms, self.now_ms()
        except (NotLeaderError, QuorumStoppedError):
            pass
        self._tried_ms = self.now_ms()

    async def quorum_value(self) -> dict[str, Json]:
        """Return the quorum as this node sees it, and as its leader described it last."""
        quorum = self.quorum
        await self.ask_leader()
        described, now = self.described, self.now_ms()
        voters = [each.key.id for each in quorum.voters]
        told: dict[int, Json] = {}
        if described is not None:
            for each in (*described.voters, *described.observers):
                told[each.key.id] = {
                    "id": each.key.id,
                    "voter": each.key.id in voters,
                    "log_end_offset": each.log_end_offset,
                    "silent_ms": None if each.last_fetch_ms is None else max(0, now - each.last_fetch_ms),
                }
        for voter in voters:
            told.setdefault(voter, {"id": voter, "voter": True, "log_end_offset": None, "silent_ms": None})
        return {
            "leader": quorum.leader,
            "epoch": quorum.epoch,
            "role": quorum.role.value,
            "high_watermark": quorum.high_watermark if described is None else described.high_watermark,
            "log_end_offset": quorum.log.end_offset,
            "told_by": None if described is None else described.leader,
            "told_ms_ago": None if described is None else now - self.described_ms,
            "replicas": [told[each] for each in sorted(told)],
            "votes": self.votes.as_list(),
        }

    async def moves(self) -> dict[str, Json] | None:
        """Return the reassignments that this broker leads, and what is left of them."""
        if self.replicas is None:
            return None
        pace = self.recent.lately(_MOVED_AWAY)
        return await moves(self.replicas.hosted, self.metadata.image, bytes_per_s=pace)

    def directories(self) -> list[Json]:
        """Return this broker's own directories, with the free bytes as far as they are known."""
        if self.replicas is None:
            return []
        unused = self.replicas.directories.unused_dirs
        free = self.replicas.stats.usable_bytes
        return [
            {"path": path, "free_bytes": free.get(path), "failed": path in unused}
            for path in dict.fromkeys((*free, *unused))
        ]


def recent_of(
    quorum: Quorum[None], raft: RaftMetrics, replicas: ReplicaServices | None, now_ms: Callable[[], int]
) -> Recent:
    """Return the samples of a node, from its own counters."""
    rates: dict[str, Callable[[], float]] = {"metadata records/s": lambda: quorum.high_watermark or 0}
    if replicas is not None:
        stats = replicas.stats
        rates = {
            "produced bytes/s": lambda: stats.appended_bytes,
            "consumed bytes/s": lambda: stats.bytes_to_consumers,
            "replicated bytes/s": lambda: stats.replicated_bytes,
            "moved here bytes/s": lambda: stats.reassignment_bytes_in,
            _MOVED_AWAY: lambda: stats.reassignment_bytes_out,
            **rates,
        }
    return Recent(rates=rates, gauges={"commit ms": lambda: raft.commit_latency_ms}, now_ms=now_ms)
