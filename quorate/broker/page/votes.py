"""The elections of the quorum as this node took part in them, in memory."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from quorate.broker.page.page_state import Json
from quorate.raft import NoTelemetry
from quorate.raft.core import Role
from quorate.types import Epoch, NodeId

KEPT: Final = 30
"""The newest so many lines are kept."""


_SEEKING: Final = MappingProxyType(
    {
        Role.PROSPECTIVE: "asks whether others would vote for it",
        Role.CANDIDATE: "asks for votes",
        Role.RESIGNED: "resigned",
    }
)


@dataclass(frozen=True, slots=True)
class VoteLine:
    """A vote of this node, or what it learnt of a leader."""

    time_ms: int
    """By this node's clock."""
    epoch: Epoch
    what: str


class Votes(NoTelemetry):
    """The `Telemetry` that remembers elections. A leader's record in the log names whoever voted for it; here
    is what this node did, also in elections that nobody won."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lines: deque[VoteLine] = deque(maxlen=KEPT)
        self._role: Role | None = None
        self._led: tuple[Epoch, NodeId | None] | None = None
        self._voted: tuple[Epoch, NodeId] | None = None

    def role_changed(
        self, role: Role, *, is_voter: bool, epoch: Epoch, leader: NodeId | None, voted: NodeId | None
    ) -> None:
        if voted is not None and (epoch, voted) != self._voted:
            self._voted = epoch, voted
            self._add(epoch, f"voted for node {voted}")
        if role is not self._role and role in _SEEKING:
            self._add(epoch, _SEEKING[role])
        self._role = role
        if (epoch, leader) != self._led:
            if leader is not None:
                self._add(epoch, "leads" if role is Role.LEADER else f"follows node {leader}")
            elif self._led is not None and self._led[1] is not None:
                self._add(epoch, f"no longer hears of node {self._led[1]} as the leader")
            self._led = epoch, leader

    def _add(self, epoch: Epoch, what: str) -> None:
        self._lines.append(VoteLine(self._now_ms(), epoch, what))

    def as_list(self) -> list[Json]:
        """Return the lines for JSON, the newest first."""
        return [
            {"time_ms": each.time_ms, "epoch": each.epoch, "what": each.what}
            for each in reversed(self._lines)
        ]
