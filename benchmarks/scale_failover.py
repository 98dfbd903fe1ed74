"""Three real nodes with the metadata of a large cluster: what kill -9 of the active controller costs.

Each node is broker and controller. The partitions are those of other brokers, which are registered and never
heard of: the session is an hour, so that nobody fences them meanwhile.
"""

import os
import shutil
import signal
import time
from functools import partial
from pathlib import Path

import trio
from clusters import cpu_seconds, resident_mib
from population import EPOCH

from quorate.broker.admin.admin_client import open_admin
from quorate.broker.admin.topics import create_topic
from quorate.broker.wire.wire_errors import KafkaError
from quorate.cli.console.cli_errors import CommandError
from quorate.cli.node.local_cluster import LocalCluster
from quorate.quorum_state import QuorumStateFile
from quorate.raft.storage.storage import LOG_FOLDER
from quorate.runtime import Address, NetworkError
from quorate.runtime.real import RealNetwork, SyncStrategy, real_runtime
from quorate.types import ElectionState, NodeId

OVERRIDES = {
    "broker.session.timeout.ms": "3600000",
    # A large log takes its time on a machine with other work.
    "initial.broker.registration.timeout.ms": "900000",
    "auto.leader.rebalance.enable": "false",
}
_START_S = 900.0


def failovers(folder: Path, log: Path, *, kills: int) -> dict[str, list[float]]:
    """Seconds from each kill to the first answer to a CreateTopics that was sent after it; CPU seconds of a
    node from its start to the metadata applied; resident MiB of a node with it."""
    cluster = LocalCluster.plan(folder, client_port=0, controller_port=0, metrics_port=0, overrides=OVERRIDES)
    cluster_id = cluster.prepare()
    for node in cluster.nodes:
        target = node.folder / "data" / LOG_FOLDER
        shutil.copytree(log, target, dirs_exist_ok=True)
        trio.run(_enter_epoch, target, cluster_id, node.node_id)
    found: dict[str, list[float]] = {"failover_s": [], "start_cpu_s": [], "node_mib": []}
    cluster.start()
    try:
        cluster.wait_ready(seconds=_START_S)
        for node in cluster.nodes:
            found["start_cpu_s"].append(cpu_seconds(cluster.pid(node.node_id)))
            found["node_mib"].append(resident_mib(cluster.pid(node.node_id)))
        for number in range(kills):
            found["failover_s"].append(_kill(cluster, number))
            cluster.start()
            cluster.wait_ready(seconds=_START_S)
    finally:
        cluster.kill_all()
    return found


async def _enter_epoch(folder: Path, cluster_id: str, node_id: int) -> None:
    """Let the node know of the epoch that its log has records of."""
    disk = real_runtime(sync=SyncStrategy.INLINE).disk
    state = QuorumStateFile(disk, str(folder), cluster_id=cluster_id, node=NodeId(node_id))
    await state.store(ElectionState(EPOCH))


def _kill(cluster: LocalCluster, number: int) -> float:
    victim = int(str(cluster.describe_quorum()["leaderId"]))
    survivor = next(node for node in cluster.nodes if node.node_id != victim)
    address = Address(cluster.host, survivor.client_port)
    # What a controller that has just become active has left to look at is not in the way.
    time.sleep(2 + 0.1 * number)
    return trio.run(_time_write, address, survivor.node_id, cluster.pid(victim), f"after-{number}")


async def _time_write(address: Address, survivor: int, victim: int, topic: str) -> float:
    # By hand: the answer waits for the topic's leader, and the other brokers are none.
    create = partial(create_topic, assignment=((survivor,),), if_not_exists=True)
    async with open_admin(RealNetwork(), [address], timeout_s=5) as client:
        await create(client, f"before-{topic}")
        killed = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        with trio.fail_after(60):
            while True:
                try:
                    await create(client, topic)
                except (KafkaError, NetworkError, CommandError):
                    await trio.sleep(0.005)
                else:
                    return time.monotonic() - killed
