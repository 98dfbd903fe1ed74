"""What a lone commit makes three nodes and a client do, counted: on a busy machine times say nothing."""

import random
from collections import Counter

import trio

from quorate.raft.core.core_config import CoreConfig
from quorate.raft.quorum_config import HIGH_WATERMARK_WAIT_MS
from quorate.raft.transport.channel import Channel
from quorate.runtime.network import Address
from quorate.simulation.world.pipes import LinkQuality, NetworkSettings
from quorate.simulation.world.simulated_network import SimulatedNetwork

COMMITS = 200


class Steps(trio.abc.Instrument):
    """How often each method that is a task's beginning went on."""

    def __init__(self):
        self.of_task = Counter()

    def before_task_step(self, task):
        self.of_task[".".join(task.name.split(".")[-2:])] += 1


async def test_a_lone_commit_sends_six_messages_and_wakes_no_task_in_vain(autojump_clock, world, nursery):
    link = LinkQuality(latency_min_s=0.0001, latency_max_s=0.0001)
    world.network = SimulatedNetwork(random.Random(1), NetworkSettings(link=link, short_read_chance=0))
    world.overrides["core"] = CoreConfig(high_watermark_wait_ms=HIGH_WATERMARK_WAIT_MS)
    await world.start(1, 2, 3)
    for host in world.hosts.values():
        host.disk.syncs_at_once = True
    leader = f"node-{(await world.leader()).node_id}"
    channel = await Channel.connect(
        world.network.for_node("client"),
        Address(leader, 9093),
        cluster_id=world.config(1).cluster_id,
        max_frame_bytes=1 << 20,
        max_append_bytes=1 << 20,
    )
    nursery.start_soon(channel.run)
    await channel.append([b"first"])
    received = Counter()
    world.network.on_receive = lambda source, target, data: received.update([(source, target)])
    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    for _ in range(COMMITS):
        await channel.append([bytes(100)])
    trio.lowlevel.remove_instrument(steps)

    others = {f"node-{node}" for node in world.quorums} - {leader} | {"client"}
    assert received == dict.fromkeys(
        [link for other in others for link in ((leader, other), (other, leader))], COMMITS
    )
    # A simulated receive takes three steps, of which the last is the reader's own.
    woken = {
        "Server._serve_connection": 9,
        "Peer.run": 6,
        "Channel.run": 3,
        "Applier.run": 2,
        "Driver._run_syncs": 1,
    }
    for task, count in steps.of_task.items():
        assert count <= (woken.get(task, 0) + 0.1) * COMMITS or task.startswith("<test"), (task, count)
