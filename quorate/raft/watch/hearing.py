"""The last sign of the quorum: from the leader, or as leader from a majority."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import trio

from quorate.error_code import ErrorCode
from quorate.raft.core import (
    BeginQuorumEpochRequest,
    Core,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Message,
    Role,
)
from quorate.types import Epoch, NodeId

_FETCHES = (FetchRequest, FetchSnapshotRequest)
_ANSWERS = (FetchResponse, FetchSnapshotResponse)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeardLeader:
    """The last sign of a leader that this node heard itself, the end of its process included."""

    node: NodeId
    heard_at: float
    """Seconds on trio's clock."""


class Hearing:
    """Owns the times of these signs. A node without one for the fetch timeout is *silent*: it may know the
    last leader, but not the present one. A leader becomes silent before it resigns, after 1.5 fetch timeouts.

    `now`: a clock in seconds, which other threads may read. `changed`: called when the node becomes silent,
    or hears again.
    """

    __slots__ = (
        "_changed",
        "_core",
        "_followed",
        "_heard_at",
        "_now",
        "_term",
        "_timeout_s",
        "_voters_at",
        "predecessor",
        "silent",
    )

    def __init__(
        self, core: Core, *, timeout_ms: int, now: Callable[[], float], changed: Callable[[], None]
    ) -> None:
        self._core = core
        self._timeout_s = timeout_ms / 1000
        self._now = now
        self._changed = changed
        self._heard_at = now()
        """The time of the leader's last sign, if this node is not it. At first the time of the start."""
        self._followed: HeardLeader | None = None
        """The last leader that answered this node or called on it since this node led."""
        self.predecessor: HeardLeader | None = None
        """The value of `_followed` at this node's last election; see `Quorum.predecessor`."""
        self._voters_at: dict[NodeId, float] = {}
        """As leader: the time of each voter's last Fetch in this epoch."""
        self._term: tuple[Epoch, NodeId | None] = (Epoch(-1), None)
        self.silent = False
        """The value at the last call of `changed`."""

    def note_new_leader(self, epoch: Epoch, leader: NodeId | None) -> None:
        """Note the leader. A new one counts as heard, because another node has heard it. A leader that the
        node returns to after a lost pre-vote does not."""
        if leader is not None and (epoch, leader) != self._term:
            self._term = epoch, leader
            self._voters_at.clear()
            if leader == self._core.node_id:
                self.predecessor, self._followed = self._followed, None
            self._note_heard()

    def note_message(self, message: Message) -> None:
        """Record a message after the core has accepted it."""
        core = self._core
        if core.role is Role.LEADER:
            if isinstance(message, _FETCHES) and message.epoch == core.epoch:
                self._note_fetch(message.source)
        elif isinstance(message, _ANSWERS):
            if message.error is ErrorCode.NONE:
                self._note_leader(message.source, message.epoch)
        elif isinstance(message, BeginQuorumEpochRequest):
            self._note_leader(message.source, message.epoch)

    def note_hung_up(self, node: NodeId) -> None:
        """Record that a node closed its connection to this one. The leader's system does so when the process
        ends, so that the time is exact for one that was idle. It is no sign that it still leads."""
        if self._followed is not None and node == self._followed.node == self._core.leader:
            self._followed = replace(self._followed, heard_at=self._now())

    def _note_fetch(self, source: NodeId) -> None:
        # A voter of this epoch is found at once. The times of a removed one aren't read.
        if source in self._voters_at or source in self._core.voters:
            self._voters_at[source] = self._now()
            if self.silent:
                self._update_silence()

    def _note_leader(self, source: NodeId, epoch: Epoch) -> None:
        if source == self._core.leader and epoch == self._core.epoch:
            self._note_heard()
            self._followed = HeardLeader(node=source, heard_at=self._heard_at)

    def _note_heard(self) -> None:
        self._heard_at = self._now()
        if self.silent:
            self._update_silence()

    @property
    def silence_ms(self) -> int:
        """The time since the last sign of the leader, or as leader of a majority. At first since the
        start."""
        return int((self._now() - self._last_heard()) * 1000)

    @property
    def is_silent(self) -> bool:
        """True if the node is silent now, even if `changed` was not called yet."""
        return self._now() >= self._last_heard() + self._timeout_s

    def _last_heard(self) -> float:
        core = self._core
        if core.role is not Role.LEADER:
            return self._heard_at
        voters = core.voters
        others = sorted(
            (self._voters_at.get(each, self._heard_at) for each in voters.ids if each != core.node_id),
            reverse=True,
        )
        wanted = voters.majority - (core.node_id in voters)
        return self._now() if wanted <= 0 else others[wanted - 1]

    def _update_silence(self) -> None:
        silent = self.is_silent
        if silent != self.silent:
            self.silent = silent
            self._changed()

    async def run(self) -> None:
        """Notice silence. Runs until cancelled."""
        while True:
            self._update_silence()
            rest_s = self._last_heard() + self._timeout_s - self._now()
            await trio.sleep(rest_s if rest_s > 0 else self._timeout_s)
