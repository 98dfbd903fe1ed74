"""The faults of a run: of processes, hosts, disks, network and voters."""

from quorate.simulation.faults.faults import Fault, Faults, FaultSettings
from quorate.simulation.faults.hosts import FOLDER, SimulatedCluster, SimulatedNode
from quorate.simulation.faults.voter_faults import VoterFaults, VotersIn, VotingNode, adopt_voters

__all__ = [
    "FOLDER",
    "Fault",
    "FaultSettings",
    "Faults",
    "SimulatedCluster",
    "SimulatedNode",
    "VoterFaults",
    "VotersIn",
    "VotingNode",
    "adopt_voters",
]
