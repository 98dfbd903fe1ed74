"""SIGSTOP of a leader for longer than every timeout, then SIGCONT (Kafka's zombie leader), real processes."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode

from quorate.broker.admin.quorum import describe_quorum, quorum_as_dict
from quorate.broker.admin.topics import create_topic, describe_topics
from quorate.broker.controller.rpc import CreateTopicsRequest, NewTopic
from quorate.broker.controller.rpc_codec import decode_answer, encode_request
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs.produce_codec import ProducePartition, ProduceRequest, ProduceTopic
from quorate.broker.wire.kafka_client import open_client
from quorate.broker.wire.wire_errors import KafkaError
from quorate.cli.commands.batches import batches_of
from quorate.cli.console.connections import ask_cluster
from quorate.cli.node.free_ports import free_ports
from quorate.cli.node.local_cluster import LocalCluster
from quorate.log.batches.records import build_batch, records_of
from quorate.quorum_state.meta_properties import load_meta_properties
from quorate.raft.quorum_errors import QuorumError
from quorate.raft.transport.channel import Channel
from quorate.runtime.network import Address, NetworkError
from quorate.runtime.real import RealNetwork, SyncStrategy, real_runtime
from tests.kit.clusters import wait_in_sync
from tests.kit.own_thread import running
from tests.kit.waiting import wait_until
from tests.system.loads import Load, freeze, read_partition

pytestmark = [pytest.mark.system, pytest.mark.slow]

PAUSE_SECONDS = 8.0
"""Longer than the fetch timeout (2 s), the broker session (3 s here), an election and clients' timeouts."""

Send = Callable[[int], Awaitable[object]]
"""Send request number n. Return its result if it was acknowledged, or raise."""


@dataclass
class Straight:
    """Sends requests over one connection to one node, every 10 ms whether or not answers come, never again
    and nowhere else: that node made every acknowledgement."""

    connect: Callable[[trio.Nursery], Awaitable[Send]]
    sent_at: dict[int, float] = field(default_factory=dict)
    acknowledged: dict[int, object] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)

    async def run(self, stop: threading.Event) -> None:
        async with trio.open_nursery() as background:
            send = await self.connect(background)

            async def one(number: int) -> None:
                try:
                    self.acknowledged[number] = await send(number)
                except (NetworkError, QuorumError, RefusedError) as error:
                    self.refused[number] = f"{type(error).__name__} {error}"

            async with trio.open_nursery() as requests:
                number = 0
                while not stop.is_set():
                    self.sent_at[number] = time.monotonic()
                    requests.start_soon(one, number)
                    number += 1
                    await trio.sleep(0.01)
                # Answers to all that was sent, in what time it takes.
                requests.cancel_scope.deadline = trio.current_time() + 30
            background.cancel_scope.cancel()

    def wait_acknowledged(self, more: int, *, seconds: float = 20) -> None:
        wanted, deadline = len(self.acknowledged) + more, time.monotonic() + seconds
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < deadline, (len(self.acknowledged), list(self.refused.values())[:2])
            time.sleep(0.01)

    def check_nothing_after(self, moment: float) -> None:
        """Check that requests were sent after `moment`, and that none of them was acknowledged."""
        sent = [number for number, at in self.sent_at.items() if at > moment]
        late = [number for number in sent if number in self.acknowledged]
        reasons = Counter(self.refused[number].split(":")[0] for number in sent if number in self.refused)
        print(f"{len(self.acknowledged)} acknowledged by the node itself; of {len(sent)} sent to it from the "
              f"pause on {len(late)} were; the others: {dict(reasons)}")  # fmt: skip
        assert len(sent) > 300, "clients sent throughout"
        assert not late, f"the woken node acknowledged {len(late)} requests first sent after the pause began"
        assert len(self.refused) >= len(sent), "every one of them was answered or cut off"


class RefusedError(Exception):
    """The node answered with an error."""


def straight_to_broker(address: Address, topic: str) -> Straight:
    async def connect(nursery: trio.Nursery) -> Send:
        started = trio.Event()
        client: Any = None

        async def hold() -> None:
            nonlocal client
            async with open_client(RealNetwork(), address, timeout_s=60) as client:
                started.set()
                await trio.sleep_forever()

        nursery.start_soon(hold)
        await started.wait()
        version = client.version(ApiKey.PRODUCE)

        async def send(number: int) -> object:
            batch = build_batch(base_offset=0, epoch=0, timestamp_ms=0, values=[b"%d" % number])
            request = ProduceRequest(
                version=version, acks=-1, timeout_ms=30_000,
                topics=[ProduceTopic(topic, [ProducePartition(0, memoryview(batch))])],
            )  # fmt: skip
            answer = (await client.produce(request))[0].partitions[0]
            if answer.error is not ErrorCode.none:
                raise RefusedError(answer.error.name)
            return answer.base_offset

        return send

    return Straight(connect)


async def channel_to(address: Address, cluster_id: str) -> Channel:
    return await Channel.connect(
        RealNetwork(), address, cluster_id=cluster_id, max_frame_bytes=64 << 20, max_append_bytes=8 << 20,
        silence_timeout_ms=60_000,
    )  # fmt: skip


def straight_to_controller(address: Address, cluster_id: str) -> Straight:
    async def connect(nursery: trio.Nursery) -> Send:
        channel = await channel_to(address, cluster_id)
        nursery.start_soon(channel.run)

        async def send(number: int) -> object:
            topic = NewTopic(name=f"straight-{number}", num_partitions=1, replication_factor=3)
            request = CreateTopicsRequest(topics=(topic,))
            answer = decode_answer(request, await channel.request(encode_request(request)))
            for error in (answer.error, *(each.error for each in answer.topics)):
                if error:
                    raise RefusedError(error.name)
            return f"straight-{number}"

        return send

    return Straight(connect)


def straight_to_quorum(address: Address, cluster_id: str) -> Straight:
    async def connect(nursery: trio.Nursery) -> Send:
        channel = await channel_to(address, cluster_id)
        nursery.start_soon(channel.run)

        async def send(number: int) -> object:
            offset, _ = await channel.append([b"straight-%d" % number])
            return offset

        return send

    return Straight(connect)


def client_address(cluster: LocalCluster, node: int) -> Address:
    return Address(cluster.host, cluster.node(node).client_port)


def test_a_paused_partition_leader_acknowledges_nothing_that_was_sent_after_the_pause_began(
    make_cluster: Callable[..., LocalCluster],
) -> None:
    cluster = make_cluster(3, min_insync_replicas="2")
    controller = int(str(cluster.describe_quorum()["leaderId"]))
    paused, *others = sorted((1, 2, 3), key=lambda node: node == controller)
    for topic in ("load", "straight"):
        ask_cluster(
            cluster.bootstrap,
            lambda client, topic=topic: create_topic(client, topic, assignment=[[paused, *others]]),
        )
        wait_in_sync(cluster, topic)
    straight = straight_to_broker(client_address(cluster, paused), "straight")
    with Load(cluster.bootstrap, "load", per_second=500.0).running() as load, running(straight.run):
        load.wait_acknowledged(500)
        straight.wait_acknowledged(100)
        paused_at = freeze(cluster, paused)
        try:
            gap = load.gap_after(paused_at)
            print(f"the others acknowledge again {gap:.2f} s after the pause began")
            assert gap < PAUSE_SECONDS, "the others elect and go on while the leader stands still"
            load.wait_acknowledged(500)
            time.sleep(max(0.0, paused_at + PAUSE_SECONDS - time.monotonic()))
        finally:
            cluster.signal(paused, signal.SIGCONT)
        load.wait_acknowledged(500)
    straight.check_nothing_after(paused_at)
    wait_in_sync(cluster, "straight")
    lives_on = dict(read_partition(cluster.bootstrap, "straight", 0))
    for number, offset in straight.acknowledged.items():
        assert lives_on.get(offset) == b"%d" % number, f"{number} was acknowledged at {offset} and is gone"
    load.check()


def test_a_paused_active_controller_acknowledges_nothing_that_was_sent_after_the_pause_began(
    make_cluster: Callable[..., LocalCluster],
) -> None:
    cluster = make_cluster(3)
    described = cluster.describe_quorum()
    paused, epoch = int(str(described["leaderId"])), int(str(described["leaderEpoch"]))
    others = ",".join(str(client_address(cluster, node)) for node in (1, 2, 3) if node != paused)
    folder = str(cluster.node(paused).folder / "data")
    cluster_id = load_meta_properties(real_runtime(sync=SyncStrategy.INLINE).disk, folder).cluster_id
    straight = straight_to_controller(Address(cluster.host, cluster.node(paused).controller_port), cluster_id)
    through_others: list[str] = []
    with running(straight.run):
        straight.wait_acknowledged(50)
        paused_at = freeze(cluster, paused)
        try:
            attempt = 0
            while time.monotonic() < paused_at + PAUSE_SECONDS or len(through_others) <= 3:
                assert time.monotonic() < paused_at + 10 * PAUSE_SECONDS, "the others elect a controller"
                topic, attempt = f"others-{attempt}", attempt + 1
                try:
                    ask_cluster(others, lambda client, topic=topic: create_topic(client, topic, partitions=1))
                except KafkaError as error:
                    print(f"{time.monotonic() - paused_at:.2f} s after the pause began: {error}")
                    continue
                if not through_others:
                    gap = time.monotonic() - paused_at
                    print(f"the others created a topic {gap:.2f} s after the pause began")
                through_others.append(topic)
        finally:
            cluster.signal(paused, signal.SIGCONT)
        time.sleep(1)
    straight.check_nothing_after(paused_at)
    after = quorum_as_dict(ask_cluster(others, describe_quorum))
    assert int(str(after["leaderEpoch"])) > epoch and after["leaderId"] != paused
    for node in (1, 2, 3):
        cluster.wait_ready(seconds=30)
        wait_for_topics(cluster, node, {*through_others, *map(str, straight.acknowledged.values())})


def wait_for_topics(cluster: LocalCluster, node: int, expected: set[str]) -> None:
    def knows_all() -> bool:
        topics = ask_cluster(str(client_address(cluster, node)), lambda client: describe_topics(client, None))
        return expected <= {str(topic.name) for topic in topics}

    wait_until(knows_all, f"node {node} knows all acknowledged topics", seconds=20)


QUORUM_NODE = Path(__file__).parents[2] / "benchmarks" / "quorum_node.py"


def test_a_paused_leader_of_an_embedded_quorum_acknowledges_nothing_sent_after_the_pause_began(
    tmp_path: Path,
) -> None:
    ports = dict(enumerate(free_ports(3), 1))
    voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in ports.items())
    processes = {
        node: subprocess.Popen(
            [sys.executable, str(QUORUM_NODE), str(node), str(tmp_path / str(node)), voters]
        )
        for node in ports
    }
    try:
        leader, _ = find_leader(ports, set())
        straight = straight_to_quorum(Address("127.0.0.1", ports[leader]), "benchmark")
        with running(straight.run):
            straight.wait_acknowledged(200)
            os.kill(processes[leader].pid, signal.SIGSTOP)
            paused_at = time.monotonic() + 0.05
            time.sleep(PAUSE_SECONDS)
            successor, took = find_leader(ports, {leader})
            print(f"node {successor} took over from node {leader}, and answered within {took:.2f} s")
            os.kill(processes[leader].pid, signal.SIGCONT)
            time.sleep(1)
        straight.check_nothing_after(paused_at)
    finally:
        for process in processes.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        codes = [process.wait(30) for process in processes.values()]
    assert codes == [0, 0, 0], "they stop in order"
    logs = {node: read_log(tmp_path / str(node)) for node in ports}
    for node, log in logs.items():
        for number, offset in straight.acknowledged.items():
            assert log.get(offset) == b"straight-%d" % number, (
                f"{number} was acknowledged at {offset}, where node {node} has {log.get(offset)!r}"
            )


def find_leader(ports: dict[int, int], without: set[int]) -> tuple[int, float]:
    """Find the leader: the node that takes an append at once. Return it and the seconds that it took to find
    it."""
    started = time.monotonic()

    async def commits(node: int) -> bool:
        committed = False
        try:
            channel = await channel_to(Address("127.0.0.1", ports[node]), "benchmark")
        except NetworkError:
            return False
        async with trio.open_nursery() as nursery:
            nursery.start_soon(channel.run)
            with trio.move_on_after(1):
                try:
                    await channel.append([b"who leads?"])
                    committed = True
                except QuorumError:
                    pass
            nursery.cancel_scope.cancel()
        return committed

    while True:
        for node in ports:
            if node not in without and trio.run(commits, node):
                return node, time.monotonic() - started
        assert time.monotonic() < started + 20, "nobody leads"


def read_log(folder: Path) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for segment in sorted((folder / "__cluster_metadata-0").glob("*.log")):
        for batch in batches_of(memoryview(segment.read_bytes())):
            found |= {record.offset: record.value or b"" for record in records_of(batch)}
    return found
