"""The faults of a simulated quorum beside those of any cluster, and the requests of its operators."""

import random

import trio

from quorate.raft import Quorum, QuorumError
from quorate.simulation.faults.faults import Fault, Faults, FaultSettings
from quorate.simulation.faults.voter_faults import VoterFaults
from quorate.simulation.quorum.quorum_cluster import PORT, QuorumCluster, QuorumNode


class QuorumFaults(Faults[QuorumNode]):
    """The `Faults`, with leadership transferred, voters that change and disks that are lost."""

    def __init__(self, cluster: QuorumCluster, settings: FaultSettings, source: random.Random) -> None:
        super().__init__(cluster, settings, source)
        self._quorum = cluster
        self._voters = VoterFaults(
            cluster, source, port=PORT, may_go=lambda voters: not self._voter_is_lost and len(voters) >= 2
        )
        self._actions[Fault.TRANSFER] = self._transfer
        self._actions[Fault.SNAPSHOT] = self._snapshot
        if cluster.settings.dynamic:
            self._actions[Fault.VOTERS] = self._voters.change
            self._actions[Fault.LOST_DISK] = self._lost_disk
            self._actions[Fault.DAMAGE] = self._damage_or_nothing

    async def _transfer(self) -> None:
        leader = self._quorum.leader()
        if leader is None or leader.quorum is None or self._voters.changing:
            return
        quorum, to = leader.quorum, self._random.choice(self._quorum.nodes)
        self._voters.ask(
            leader, f"transfer to {to.name}", lambda: quorum.transfer_leadership(to.id, timeout_ms=3000)
        )

    async def _snapshot(self) -> None:
        node = self._draw_node()
        if node.quorum is not None and node.alive:
            quorum = node.quorum
            with self._quorum.scheduler.process(node.name):
                self._quorum.spawn(self._take, node, quorum)

    async def _take(self, node: QuorumNode, quorum: Quorum[object]) -> None:
        try:
            snapshot = await quorum.take_snapshot()
        except QuorumError as error:
            self._quorum.trace.add("operator", f"snapshot of {node.name}: {type(error).__name__}: {error}")
        else:
            if node.quorum is quorum:
                self._quorum.trace.add("operator", f"snapshot of {node.name} ends at {snapshot.end_offset}")

    # --- voters ---

    @property
    def _voter_is_lost(self) -> bool:
        """Return whether a voter has lost its data."""
        leader = self._quorum.leader()
        if leader is None or leader.quorum is None or any(node.damaged for node in self._quorum.nodes):
            return True
        return bool(self._voters.lost_ones(leader))

    async def _lost_disk(self) -> None:
        cluster, node = self._quorum, self._random.choice(self._quorum.nodes)
        leader = cluster.leader()
        if leader is None or leader.quorum is None or self._voters.changing or self._voter_is_lost:
            return
        voters = leader.quorum.voters
        if not self._voters.all_know_the_voters() or (len(voters) < 3 and node.id in voters):
            return
        self._voters.changing = True
        try:
            await cluster.replace_disk(node)
        finally:
            self._voters.changing = False
        await self._sleep_duration()
        self._start(node)

    async def _damage_or_nothing(self) -> None:
        leader = self._quorum.leader()
        if leader is None or leader.quorum is None or self._voters.changing or self._voter_is_lost:
            return
        if self._voters.all_know_the_voters() and len(leader.quorum.voters) >= 3:
            await self._damage()

    async def repair(self) -> None:
        """Remove the voters that are lost for good, once all is healed. Cancel it if it takes too long."""
        while True:
            leader = self._quorum.leader()
            if leader is not None and leader.quorum is not None:
                lost_keys = self._voters.lost_ones(leader)
                if not lost_keys:
                    return
                self._voters.remove(leader, lost_keys[0])
            await trio.sleep(1.0)
