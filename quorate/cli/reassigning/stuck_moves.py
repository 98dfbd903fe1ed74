"""Moves that can't end as the cluster is: nobody has the records, or nobody is there to take them."""

from collections.abc import Iterable, Mapping
from typing import Final

from quorate.cli.reassigning.assignment_files import Replica
from quorate.cli.reassigning.cluster_view import ClusterView, Move

_NO_LEADER: Final = -1
STUCK_SECONDS: Final = 5.0
"""How long a move must be stuck before that is believed: an election takes some tenths of a second."""


def stuck_moves(moves: Mapping[Replica, Move], view: ClusterView) -> dict[Replica, str]:
    """Return those of `moves` that can't go on now, each with the reason."""
    reasons = ((key, _obstacle(key, move, view)) for key, move in sorted(moves.items()))
    return {key: reason for key, reason in reasons if reason is not None}


def _obstacle(key: Replica, move: Move, view: ClusterView) -> str | None:
    state = view.partitions[key]
    if int(state.leader_id) == _NO_LEADER:
        sources = [*map(int, state.isr_nodes)] or [*map(int, state.eligible_leader_replicas or ())]
        sources = sources or [*map(int, state.last_known_elr or ())] or list(move.original)
        return f"nobody leads it: its records are on {_brokers(sources)}, which {_are(sources)} down"
    missing = [each for each in move.target if each not in view.brokers]
    if missing:
        return f"it is to have a replica on {_brokers(missing)}, which {_are(missing)} down"
    return None


def _brokers(ids: Iterable[int]) -> str:
    listed = [str(each) for each in ids]
    return f"broker{'s' if len(listed) != 1 else ''} {', '.join(listed)}"


def _are(ids: list[int]) -> str:
    return "are" if len(ids) != 1 else "is"


class StuckWatch:
    """Says which moves have been stuck for `STUCK_SECONDS`."""

    def __init__(self) -> None:
        self._since: dict[Replica, float] = {}

    def look(self, stuck: Mapping[Replica, str], *, now: float) -> dict[Replica, str]:
        """Take in the moves that are stuck at `now`, in seconds. Return those that have been for long enough,
        with the reasons."""
        self._since = {key: self._since.get(key, now) for key in stuck}
        return {key: reason for key, reason in stuck.items() if now - self._since[key] >= STUCK_SECONDS}
