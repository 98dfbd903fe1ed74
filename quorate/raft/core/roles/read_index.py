"""Proof that a leader still leads, for reads that must see every earlier commit.

A Fetch that arrives after a read was asked for may have been sent before it, by a follower that has since
helped to elect another leader: it proves nothing. So each round of reads has a number, which the
leader's answers carry and the next Fetch echoes. A follower that echoes it was in this epoch after the read
was asked for. Once a majority was, no other leader can have been elected before.
"""

from dataclasses import dataclass

from quorate.raft.core.cloning import Cloneable
from quorate.raft.core.effects import ReadIndexConfirmed, ReadIndexFailed
from quorate.raft.core.shared_state import NodeState
from quorate.types import NodeId, Offset


@dataclass(frozen=True, slots=True)
class _Round:
    round: int
    read_index: Offset | None
    """The high watermark at the request. None: this epoch had none yet."""


class ReadIndexRounds(Cloneable):
    """The rounds under way in one epoch. A newer one never delays an older one."""

    __slots__ = ("_pending", "_returned")

    def __init__(self) -> None:
        self._pending: list[_Round] = []
        """The rounds, in ascending order."""
        self._returned: dict[NodeId, int] = {}
        """The highest round that each voter has echoed, while any is under way."""

    @property
    def round(self) -> int:
        """The latest round in progress, for the leader's answers; 0 if none is."""
        return self._pending[-1].round if self._pending else 0

    def ask(self, read_round: int, *, high_watermark: Offset | None) -> None:
        self._pending.append(_Round(read_round, high_watermark))

    def count_round(self, voter: NodeId, read_round: int) -> None:
        if self._pending and read_round > self._returned.get(voter, 0):
            self._returned[voter] = read_round

    def check(self, node: NodeState, *, high_watermark: Offset | None) -> None:
        """Confirm rounds by the echoes of the current voters. `high_watermark`: the leader's of this epoch.
        Until it is known, the leader may not know earlier commits (Raft section 8)."""
        if not self._pending or high_watermark is None:
            return
        needed = node.voters.majority - (1 if node.is_voter else 0)
        returned = sorted((self._returned.get(voter.id, 0) for voter in node.others), reverse=True)
        reached = self._pending[-1].round if needed == 0 else returned[needed - 1]
        passed = [each for each in self._pending if each.round <= reached]
        if not passed:
            return
        del self._pending[: len(passed)]
        if not self._pending:
            self._returned.clear()
        self._confirm(node, passed[-1], high_watermark)

    def confirm_all(self, node: NodeState, *, high_watermark: Offset) -> None:
        """Confirm all rounds without echoes: a lease proves that this node leads now."""
        last = self._pending[-1]
        self._pending.clear()
        self._returned.clear()
        self._confirm(node, last, high_watermark)

    def _confirm(self, node: NodeState, last: _Round, high_watermark: Offset) -> None:
        index = last.read_index if last.read_index is not None else high_watermark
        node.out.append(ReadIndexConfirmed(last.round, index))

    def fail(self, node: NodeState) -> None:
        """Fail the rounds, because this node does not lead any more."""
        if self._pending:
            node.out.append(ReadIndexFailed(self._pending[-1].round, node.leader, node.epoch))
            self._pending.clear()
