"""The configuration of one of three nodes on this machine, for the services in this folder."""

from pathlib import Path

from quorate.blocking import format_folder
from quorate.raft import NodeId, QuorumConfig, parse_voters

VOTERS = "1@127.0.0.1:9191,2@127.0.0.1:9192,3@127.0.0.1:9193"


def configured(number: str, folder: str, voters: str = VOTERS) -> QuorumConfig:
    node = NodeId(int(number))
    if not Path(folder, "meta.properties").exists():
        format_folder(folder, cluster_id="three-nodes", node_id=node)
    return QuorumConfig(node_id=node, cluster_id="three-nodes", folder=folder, voters=parse_voters(voters))
