"""The comparison of replicas: the state after the same records must be the same on every node."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from quorate.raft import CommittedBatch, SnapshotId, SnapshotLoader, StateMachine
from quorate.simulation.quorum.quorum_cluster import WatchedLoader
from quorate.simulation.violations import SafetyViolation
from quorate.simulation.world.step_costs import uncounted

_SHOWN_BYTES: Final = 100


class ReplicaStates:
    """The state after each batch, as the first node had it that got there."""

    def __init__(self) -> None:
        self._ends: list[int] = []
        self._known: dict[int, tuple[str, bytes]] = {}

    def compare(self, node: str, machine: StateMachine[object], end_offset: int, how: str) -> None:
        """Raise `SafetyViolation` if another node's state was another one after the records below
        `end_offset`. `how`: the way in which this node got there."""
        with uncounted():
            state = b"".join(machine.take_snapshot())
        place = bisect_right(self._ends, end_offset)
        # A snapshot may end behind records of the quorum's own, which change no state.
        end = self._ends[place - 1] if how and place else end_offset
        first, expected = self._known.setdefault(end, (node, state))
        if first == node and expected is state:
            self._ends.insert(place, end)
        elif expected != state:
            raise SafetyViolation(
                f"after the records below offset {end}, {node}{how} has the state {_shown(state)}, and "
                f"{first} had {_shown(expected)}, by take_snapshot. An apply that is not deterministic does "
                "that (a clock, a random number, the order of a set), or a snapshot that is not whole"
            )


def _shown(state: bytes) -> str:
    rest = len(state) - _SHOWN_BYTES
    return f"{state[:_SHOWN_BYTES]!r}" + (f" and {rest} bytes more" if rest > 0 else "")


class WatchedMachine:
    """A node's state machine. Its steps are reported when they are done."""

    def __init__(
        self,
        machine: StateMachine[object],
        *,
        applied: Callable[[CommittedBatch], None],
        loaded: Callable[[SnapshotId], None],
    ) -> None:
        self._machine = machine
        self._applied = applied
        self._loaded = loaded
        for name in ("check", "code_version", "needed_version"):
            if getattr(machine, name, None) is not None:
                setattr(self, name, getattr(machine, name))

    def apply(self, batch: CommittedBatch) -> Sequence[object]:
        results = self._machine.apply(batch)
        self._applied(batch)
        return results

    def take_snapshot(self) -> Iterator[bytes]:
        return self._machine.take_snapshot()

    def load_snapshot(self, snapshot: SnapshotId) -> SnapshotLoader:
        return WatchedLoader(self._machine.load_snapshot(snapshot), lambda: self._loaded(snapshot))
