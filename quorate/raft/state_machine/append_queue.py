"""Appends on their way: queued, joined into proposals without waiting for more, resolved when applied.

Appends that arrive in the same pass of the event loop become one batch with one header, one write and one
sync. Each stays atomic, because the batch is.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import trio

from quorate.raft.quorum_errors import OutcomeUnknownError, QuorumError, QuorumStoppedError
from quorate.raft.waiters import AppendWaiter
from quorate.types import Epoch, Offset


@dataclass(slots=True)
class QueuedAppend:
    records: Sequence[bytes]
    size: int
    waiter: AppendWaiter
    state_version: int | None = None
    """The state version that this append sets, in a control batch of its own. Its one record stays empty."""


@dataclass(slots=True)
class Proposal:
    """Queued appends that share a batch: proposed to the core, then in the log until they are applied."""

    appends: list[QueuedAppend] = field(default_factory=list)
    size: int = 0
    count: int = 0
    base_offset: Offset = Offset(0)
    end_offset: Offset = Offset(0)
    epoch: Epoch = Epoch(0)
    timestamp_ms: int = 0
    appended_at: float = 0.0
    batch_bytes: int = 0
    """The size of the batch in the log."""

    @property
    def state_version(self) -> int | None:
        return self.appends[0].state_version

    def records(self) -> list[bytes]:
        if len(self.appends) == 1:
            return list(self.appends[0].records)
        return [record for append in self.appends for record in append.records]

    def resolve(self, results: Sequence[object]) -> None:
        position = 0
        for append in self.appends:
            end = position + len(append.records)
            append.waiter.applied(
                Offset(self.base_offset + position), self.epoch, results[position:end], self.end_offset
            )
            position = end

    def fail(self, error: QuorumError) -> None:
        for append in self.appends:
            append.waiter.failed(error)


class AppendQueue:
    """Appends that are queued, proposals that the core has not decided on, and those in the log."""

    __slots__ = (
        "_emptied",
        "_max_batch_bytes",
        "_max_pending_bytes",
        "_next_id",
        "_pending_bytes",
        "_proposed",
        "_room",
        "_waiting",
        "_waiting_records",
        "in_log",
    )

    def __init__(self, *, max_batch_bytes: int, max_pending_bytes: int) -> None:
        self._max_batch_bytes = max_batch_bytes
        self._max_pending_bytes = max_pending_bytes
        self._pending_bytes = 0
        self._room = trio.Event()
        self._emptied = trio.Event()
        self._waiting: deque[QueuedAppend] = deque()
        self._waiting_records = 0
        self._proposed: dict[int, Proposal] = {}
        self._next_id = 0
        self.in_log: deque[Proposal] = deque()
        """The proposals in the log, in offset order and contiguous, all of the epoch that this node leads."""

    def add(self, append: QueuedAppend) -> None:
        """Queue an append. The caller must check that there is room."""
        self._waiting.append(append)
        self._waiting_records += len(append.records)
        self._pending_bytes += append.size

    @property
    def has_room(self) -> bool:
        """True if less than `max_pending_bytes` wait for their commit."""
        return self._pending_bytes < self._max_pending_bytes

    async def wait_room(self) -> None:
        """Return when there is room. No checkpoint if that is so."""
        while not self.has_room:
            await self._room.wait()

    async def wait_empty(self) -> None:
        """Return when no append waits for its commit. No checkpoint if that is so."""
        while self._pending_bytes:
            self._emptied = trio.Event()
            await self._emptied.wait()

    def _release_bytes(self, size: int) -> None:
        full = not self.has_room
        self._pending_bytes -= size
        if not self._pending_bytes:
            self._emptied.set()
        if full and self.has_room:
            self._room.set()
            self._room = trio.Event()

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    @property
    def waiting_records(self) -> int:
        return self._waiting_records

    def next_proposal(self) -> tuple[int, Proposal]:
        """Join waiting appends, at least one, into a proposal that fits a batch."""
        proposal = Proposal()
        while self._waiting:
            append = self._waiting[0]
            if proposal.appends and (
                proposal.size + append.size > self._max_batch_bytes
                or append.state_version is not None
                or proposal.state_version is not None
            ):
                break
            self._waiting.popleft()
            proposal.appends.append(append)
            proposal.size += append.size
            proposal.count += len(append.records)
        self._waiting_records -= proposal.count
        self._next_id += 1
        self._proposed[self._next_id] = proposal
        return self._next_id, proposal

    def take(self, number: int) -> Proposal:
        """Take out the proposal that the core has decided on."""
        return self._proposed.pop(number)

    def resolve_first(self, results: Sequence[object]) -> None:
        """Resolve the first proposal in the log, which is applied."""
        proposal = self.in_log.popleft()
        self._release_bytes(proposal.size)
        proposal.resolve(results)

    def reject(self, number: int, error: QuorumError) -> None:
        """Fail a proposal that the core did not append."""
        proposal = self.take(number)
        self._release_bytes(proposal.size)
        proposal.fail(error)

    def fail_in_log(self, error: QuorumError) -> None:
        proposals, self.in_log = self.in_log, deque()
        for proposal in proposals:
            self._release_bytes(proposal.size)
            proposal.fail(error)

    def fail_all(self, error: QuorumStoppedError) -> None:
        """Fail all appends: with `error` if they are certainly not in the log, else with
        `OutcomeUnknownError`, because they may still be committed."""
        waiting, self._waiting = self._waiting, deque()
        self._waiting_records = 0
        proposed, self._proposed = self._proposed, {}
        for append in waiting:
            self._release_bytes(append.size)
            append.waiter.failed(error)
        for proposal in proposed.values():
            self._release_bytes(proposal.size)
            proposal.fail(error)
        unknown = OutcomeUnknownError(f"{error}; the append is in its log, and may be committed")
        unknown.__cause__ = error.__cause__
        self.fail_in_log(unknown)
