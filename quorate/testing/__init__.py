"""Real clusters inside tests: for pytest by the fixtures of `quorate.testing.plugin`.

`kafka_cluster` starts brokers, and needs the extra `broker`. `quorum_cluster` starts a quorum of the test's
own state machine. A cluster is processes, in a folder of its own and at free ports. Each test gets one
that is as new. Nodes are killed, paused and restarted, the network between them is cut, their disks are slow
or full, without root, Java or containers. When the test run ends, however it does, no process and no file is
left.
"""

from typing import TYPE_CHECKING

from quorate.lazy_names import lazily

if TYPE_CHECKING:
    from quorate.cli.node.client_login import ClientLogin
    from quorate.testing.cluster_error import ClusterError
    from quorate.testing.kafka_cluster import KafkaCluster
    from quorate.testing.pool import ClusterPool, StartKafkaCluster, StartQuorumCluster
    from quorate.testing.quorum_cluster import QuorumCluster

_HOMES = {
    "ClientLogin": "quorate.cli.node.client_login",
    "ClusterError": "quorate.testing.cluster_error",
    "ClusterPool": "quorate.testing.pool",
    "KafkaCluster": "quorate.testing.kafka_cluster",
    "QuorumCluster": "quorate.testing.quorum_cluster",
    "StartKafkaCluster": "quorate.testing.pool",
    "StartQuorumCluster": "quorate.testing.pool",
}

__getattr__ = lazily(__name__, _HOMES)

__all__ = [
    "ClientLogin",
    "ClusterError",
    "ClusterPool",
    "KafkaCluster",
    "QuorumCluster",
    "StartKafkaCluster",
    "StartQuorumCluster",
]
