"""One node's time as the active controller: its image, its sessions and chores, and its appends."""

from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Final

import trio

from quorate.broker.controller.chores import Chores
from quorate.broker.controller.controller_settings import ControllerSettings
from quorate.broker.controller.liveness.sessions import Sessions
from quorate.broker.controller.metadata_log import MetadataLog, Pending
from quorate.broker.controller.operations.outcome import Groups
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    AbortTransaction,
    BeginTransaction,
    EndTransaction,
    FeatureLevel,
    Record,
)
from quorate.broker.metadata.record_codec import RunEncoder
from quorate.broker.metadata.supported_features import LATEST_METADATA_VERSION, METADATA_VERSION
from quorate.present import present
from quorate.raft import HeardLeader, NotLeaderError, OutcomeUnknownError, QuorumStoppedError
from quorate.runtime import WallClock, get_logger
from quorate.types import Epoch

log = get_logger(__name__)

LEADERSHIP_LOST: Final = (NotLeaderError, OutcomeUnknownError, QuorumStoppedError)
_PIECES_ON_THEIR_WAY: Final = 8
"""The number of pieces that are appended and not committed: enough to keep the log busy, in bounded
memory."""
_RECORD_OVERHEAD_BYTES: Final = 24
"""The bytes that a record adds to a batch beside its value, at most."""


class TooLargeError(Exception):
    """An operation that doesn't fit one batch."""


@dataclass(slots=True, kw_only=True)
class Tenure:
    """The state of the active controller. `image` is ahead of the committed one by the records appended here,
    without those of an open transaction."""

    epoch: Epoch
    image: MetadataImage
    metadata_log: MetadataLog
    max_batch_bytes: int
    sessions: Sessions
    chores: Chores
    rebalance_at: float
    """The time of the next return of leaders to their first replicas, on trio's clock."""
    last: Pending | None = None
    """The last append. It commits after everything before it."""
    _last_offset: int = -1
    """The base offset of the last append."""
    _on_their_way: deque[Pending] = field(default_factory=deque)
    """The last append after each of the last pieces."""
    _hidden: MetadataImage | None = None
    """`image` with the open transaction."""
    _alone: trio.Event | None = None
    """Set when the operation that works alone has ended; None: no operation does."""

    @classmethod
    def begin(
        cls,
        image: MetadataImage,
        metadata_log: MetadataLog,
        settings: ControllerSettings,
        *,
        epoch: Epoch,
        wall_clock: WallClock | None,
        predecessor: HeardLeader | None,
    ) -> "Tenure":
        """Begin with `image`, a copy of the committed one. No broker has sent a heartbeat yet. `predecessor`:
        the leader of the quorum before."""
        now = trio.current_time()
        # A controller and a broker with one id are one process.
        heard_at: dict[int, float] = {}
        if predecessor is not None:
            heard_at[predecessor.node] = predecessor.heard_at
        sessions = Sessions(timeout=settings.tuning.broker_session_timeout_ms / 1000, wall_clock=wall_clock)
        for broker_id in image.brokers:
            sessions.begin(broker_id, now=now, heard_at=heard_at.get(broker_id))
        return cls(
            epoch=epoch,
            image=image,
            metadata_log=metadata_log,
            max_batch_bytes=settings.max_batch_bytes,
            sessions=sessions,
            chores=Chores(image, static=settings.static, size=settings.tuning.partitions_per_step),
            rebalance_at=now + settings.balance.leader_imbalance_check_interval_seconds,
        )

    def settle(self, *, in_transaction: bool, first_records: Sequence[Record] = ()) -> None:
        """Begin the work that an earlier controller left undone. A transaction that it left open is aborted.
        `first_records`: written if there was no controller before. Raises as `append`."""
        if in_transaction:
            log.warning("aborting what an earlier controller did not complete", epoch=self.epoch)
            self.append(((AbortTransaction(reason="another controller"),),))
        if METADATA_VERSION not in self.image.features:
            level = FeatureLevel(name=METADATA_VERSION, level=LATEST_METADATA_VERSION)
            self.append(((level, *first_records),))
        self.chores.repair()

    def append(self, groups: Groups) -> None:
        """Apply the groups and append them. Raises `TooLargeError` before anything happened, and as
        `MetadataLog.append_nowait`."""
        if not groups:
            return
        batches = _packed(groups, limit=self.max_batch_bytes)
        # Applied first: a record that doesn't fit the image must not get into the log, where it would stop
        # every node that applies it.
        first: int = self.metadata_log.next_offset
        offset = first
        for group in groups:
            for record in group:
                self._apply(record, offset=offset)
                offset += 1
        for batch in batches:
            self.last = self.metadata_log.append_nowait(batch, epoch=self.epoch)
            self._last_offset = first
            first += len(batch)

    def _apply(self, record: Record, *, offset: int) -> None:
        match record:
            case BeginTransaction():
                self._hidden = self.image.copy()
            case EndTransaction():
                self.image = self.chores.image = present(self._hidden, "the image of the transaction")
                self._hidden = None
            case AbortTransaction():
                self._hidden = None
            case _:
                image = self.image if self._hidden is None else self._hidden
                image.apply(record, offset=offset, epoch=self.epoch)
                self.chores.after(record)
                return
        self.image.offset, self.image.epoch = offset, self.epoch

    # Changes that take more than a step

    async def wait_turn(self) -> None:
        """Return when no operation works alone. No checkpoint if none does."""
        while self._alone is not None:
            await self._alone.wait()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Decide and append in more than one step, while all other operations wait for their turn."""
        await self.wait_turn()
        ended = self._alone = trio.Event()
        try:
            yield
        finally:
            self._alone = None
            ended.set()

    @contextmanager
    def transaction(self, name: str) -> Iterator[None]:
        """Make one change of all appends within the block: it takes effect at the end of the block, or not at
        all if an exception leaves it (KIP-868). Only while working `alone`. Raises as `append`."""
        self.append(((BeginTransaction(name=name),),))
        try:
            yield
        except BaseException as error:
            self.append(((AbortTransaction(reason=type(error).__name__),),))
            raise
        self.append(((EndTransaction(),),))

    async def wait_committed(self) -> bool:
        """Wait until all records appended so far are committed. Return False if they are at another offset
        than promised. Raises as `Pending.wait`."""
        expected = self._last_offset
        if self.last is None:
            return True
        found = (await self.last.wait()).base_offset
        if found != expected:
            log.error("an append went to another offset", expected=expected, found=found)
        return found == expected

    def do_piece(self) -> int:
        """Do a piece of the chores. Return the number of partitions examined. Raises as `append`."""
        looked_at = 0
        for groups, looked in self.chores.piece():
            self.append(groups)
            looked_at += looked
        return looked_at

    async def keep_up(self) -> None:
        """Return when no more than a few pieces wait for their commit. Call it after each. Raises as
        `Pending.wait`."""
        on_their_way = self._on_their_way
        if self.last is not None and (not on_their_way or on_their_way[-1] is not self.last):
            on_their_way.append(self.last)
        while len(on_their_way) > _PIECES_ON_THEIR_WAY:
            await on_their_way.popleft().wait()


def _packed(groups: Groups, *, limit: int) -> list[list[bytes]]:
    """Return the encoded records of each batch. Whole groups share batches as far as these have room (`limit`
    bytes). Raises `TooLargeError`."""
    batches: list[list[bytes]] = []
    room = 0
    encoder = RunEncoder()
    for group in groups:
        encoded = [encoder.encode(record) for record in group]
        size = sum(map(len, encoded)) + _RECORD_OVERHEAD_BYTES * len(encoded)
        if size > limit:
            raise TooLargeError(
                f"Unable to perform excessively large batch operation: it needs {size} bytes in one batch, "
                f"and {limit} are allowed."
            )
        if not batches or size > room:
            batches.append([])
            room = limit
        batches[-1] += encoded
        room -= size
    return batches
