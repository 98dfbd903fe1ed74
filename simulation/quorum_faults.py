"""What goes wrong in a simulated quorum beyond what any cluster may suffer: what its operators ask for."""

import random

from quorate.raft.errors import QuorumError
from quorate.simulation.faults import Fault, Faults, FaultSettings
from quorate.simulation.quorum_cluster import QuorumCluster, QuorumNode


class QuorumFaults(Faults[QuorumNode]):
    """As `Faults`, with leaders that are asked to hand over to a chosen node."""

    def __init__(self, cluster: QuorumCluster, settings: FaultSettings, source: random.Random) -> None:
        super().__init__(cluster, settings, source)
        self._quorum = cluster
        self._do[Fault.TRANSFER] = self._transfer

    async def _transfer(self) -> None:
        leader = self._quorum.leader()
        if leader is None:
            return
        successor = self._random.choice(self._quorum.nodes)
        with self._quorum.scheduler.process(leader.name):
            self._quorum.spawn(self._hand_over, leader, successor)

    async def _hand_over(self, leader: QuorumNode, successor: QuorumNode) -> None:
        if leader.quorum is None or not leader.alive:
            return
        try:
            await leader.quorum.transfer_leadership(successor.id, timeout_ms=3000)
        except QuorumError as error:
            self._quorum.trace.add("faults", f"transfer to {successor.name}: {type(error).__name__}")
        else:
            self._quorum.trace.add("faults", f"{leader.name} handed over to {successor.name}")
