"""The comparison of this node's state with that of the voters, at snapshots of one id.

Each node asks the voters for the digests of their latest snapshots, and judges itself alone: it stops if a
majority of the voters has one other state. So no node can stop another one, and the leader's state counts no
more than any other. Without such a majority, each node names those that differ, and continues.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import trio

from quorate.log.snapshots.snapshot_file import SnapshotContents, name_of
from quorate.raft.quorum_description import StateAt
from quorate.raft.quorum_errors import QuorumError, StatesDifferError
from quorate.raft.telemetry import Telemetry
from quorate.raft.transport.description_frames import STATES_MAX, QuorumView
from quorate.runtime import Address, Entropy, NetworkError, get_logger
from quorate.types import NodeId, ReplicaKey, SnapshotId, StateDigest, Voter, VoterSet

log = get_logger(__name__)

_ROUNDS: Final = 7
"""The number of times that voters without an answer are asked about a snapshot, each after twice the time. A
voter that starts later asks by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCheck:
    """The comparison of a node's state with those of the other voters, after the same records."""

    snapshot: SnapshotId
    """The states are those after the records below its end offset."""
    equal: tuple[NodeId, ...]
    different: tuple[NodeId, ...]
    unchecked: tuple[NodeId, ...]
    """The voters that have no snapshot of this id, or of another form, or gave no answer."""


class StateComparison:
    """Holds the digests of this node's latest snapshots, and the last check."""

    def __init__(
        self,
        key: ReplicaKey,
        *,
        voters: Callable[[], VoterSet],
        ask: Callable[[Address, NodeId], Awaitable[QuorumView]],
        telemetry: Telemetry,
        entropy: Entropy,
        pause_ms: int,
    ) -> None:
        """`ask`: see `ask_view`. `pause_ms`: the least time from a snapshot to the first question, in which
        the voters take theirs. Up to twice of it is drawn: many observers must not ask at once."""
        self._key = key
        self._voters = voters
        self._ask = ask
        self._telemetry = telemetry
        self._entropy = entropy
        self._pause_s = pause_ms / 1000
        self._own: dict[SnapshotId, StateDigest] = {}
        self._heard: dict[NodeId, dict[SnapshotId, StateDigest]] = {}
        self._noted = trio.Event()
        self._reported: dict[SnapshotId, dict[NodeId, str]] = {}
        """The differences that were logged."""
        self.last_check: StateCheck | None = None

    @property
    def states(self) -> tuple[StateAt, ...]:
        """The digests of this node, for other nodes that compare theirs."""
        return tuple(StateAt(each, state.form, state.digest) for each, state in self._own.items())

    def note(self, contents: SnapshotContents) -> None:
        """Compare this snapshot, which this node has taken or loaded."""
        if contents.state is not None:
            self._own.pop(contents.snapshot, None)
            self._own[contents.snapshot] = contents.state
            while len(self._own) > STATES_MAX:
                oldest = next(iter(self._own))
                del self._own[oldest]
                self._reported.pop(oldest, None)
            self._noted.set()

    async def run(self) -> None:
        """Compare each snapshot. Runs until cancelled. Raises `StatesDifferError`."""
        while True:
            await self._noted.wait()
            self._noted = trio.Event()
            for number in range(_ROUNDS):
                await trio.sleep(self._entropy.between(1, 2) * self._pause_s * 2**number)
                voters = self._voters()
                for voter in voters:
                    if voter.key.id != self._key.id:
                        await self._ask_voter(voter)
                self.last_check = [self._judge(snapshot, voters) for snapshot in self._own][-1]
                check = self.last_check
                self._telemetry.states_compared(
                    equal=len(check.equal), different=len(check.different), unchecked=len(check.unchecked)
                )
                if not check.unchecked:
                    break

    async def _ask_voter(self, voter: Voter) -> None:
        try:
            view = await self._ask(Address(voter.endpoint.host, voter.endpoint.port), voter.key.id)
        except (QuorumError, NetworkError):
            return  # It is down, or of another cluster.
        if view.node is not None and view.node.matches(voter.key):
            states = {each.snapshot: StateDigest(each.form, each.digest) for each in view.states}
            self._heard[voter.key.id] = states

    def _judge(self, snapshot: SnapshotId, voters: VoterSet) -> StateCheck:
        """Compare the states at one snapshot. Raises `StatesDifferError`."""
        mine = self._own[snapshot]
        digests: dict[NodeId, str] = {}
        for voter in voters:
            state = mine if voter.key.id == self._key.id else self._heard_of(voter.key.id, snapshot)
            if state is not None and state.form == mine.form:
                digests[voter.key.id] = state.digest
        common, count = Counter(digests.values()).most_common(1)[0] if digests else (mine.digest, 0)
        if common != mine.digest and count >= voters.majority:
            raise self._differs(snapshot, digests, common)
        others = [each for each in voters.ids if each != self._key.id]
        check = StateCheck(
            snapshot=snapshot,
            equal=tuple(each for each in others if digests.get(each) == mine.digest),
            different=tuple(each for each in others if digests.get(each, mine.digest) != mine.digest),
            unchecked=tuple(each for each in others if each not in digests),
        )
        if check.different and self._reported.get(snapshot) != digests:
            self._reported[snapshot] = digests
            log.error(
                "states differ after the same records; no majority says which is right, or it is this node's",
                node=self._key.id,
                end_offset=snapshot.end_offset,
                epoch=snapshot.epoch,
                digest=mine.digest,
                digests=digests,
                unchecked=check.unchecked,
                remedy="docs/how-to/find-states-that-differ.md",
            )
        return check

    def _heard_of(self, voter: NodeId, snapshot: SnapshotId) -> StateDigest | None:
        return self._heard.get(voter, {}).get(snapshot)

    def _differs(self, snapshot: SnapshotId, digests: dict[NodeId, str], common: str) -> StatesDifferError:
        holders = [voter for voter, digest in digests.items() if digest == common]
        return StatesDifferError(
            f"the state of node {self._key.id} after the records below offset {snapshot.end_offset} (epoch "
            f"{snapshot.epoch}) has the digest {self._own[snapshot].digest}, and that of the voters "
            f"{', '.join(map(str, holders))}, a majority, has {common}; this node stops here. An apply that "
            "is not deterministic does that (a clock, a random number, the order of a set), other code, or "
            f"damaged memory. Compare the {name_of(snapshot)} of both, mend the cause, and give this node an "
            "empty folder: docs/how-to/find-states-that-differ.md",
            snapshot=snapshot,
        )
