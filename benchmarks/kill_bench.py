"""What kill -9 of a partition's leader costs its producers: `python benchmarks/kill_bench.py --kills 10`.

Three real nodes, each broker and controller, with the default session of 9 s. Before each kill a new topic is
led by the victim; stock producers (librdkafka by confluent-kafka, aiokafka) with acks=all and otherwise their
own defaults send to it. Seconds from the kill until the survivors' metadata has another leader, and until the
first acknowledgement of a record that was sent after the kill. In turn the victim is the active controller
too, and isn't.
"""

import argparse
import asyncio
import json
import os
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import trio
from aiokafka import AIOKafkaProducer
from brokers import planned, serving
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from quorate.broker.admin.admin_client import open_admin
from quorate.broker.admin.topics import describe_topics
from quorate.cli.node.local_cluster import LocalCluster
from quorate.runtime import Address
from quorate.runtime.real import RealNetwork

DEFAULT_TIMES = {"broker.heartbeat.interval.ms": "2000", "broker.session.timeout.ms": "9000"}
"""`LocalCluster` has shorter ones."""
PAUSE_S = 0.005
WARM_S = 1.5
PATIENCE_S = 60.0


class Sender:
    """One producer, which sends a record every few ms until it is stopped."""

    def __init__(self) -> None:
        self.acknowledged: list[tuple[float, float]] = []
        """When each acknowledged record was sent, and when it was acknowledged."""
        self.stopped = threading.Event()

    def acknowledged_after(self, moment: float) -> float | None:
        """When the first record that was sent after `moment` was acknowledged."""
        return min((at for sent, at in list(self.acknowledged) if sent > moment), default=None)


class Librdkafka(Sender):
    def run(self, bootstrap: str, topic: str) -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})

        def acknowledge(sent: float) -> Callable[[object, object], None]:
            def delivered(error: object, _: object) -> None:
                if error is None:
                    self.acknowledged.append((sent, time.monotonic()))

            return delivered

        while not self.stopped.is_set():
            producer.produce(topic, b"x" * 100, partition=0, on_delivery=acknowledge(time.monotonic()))
            producer.poll(PAUSE_S)
        producer.flush(10)


class Aiokafka(Sender):
    def run(self, bootstrap: str, topic: str) -> None:
        asyncio.run(self._run(bootstrap, topic))

    async def _run(self, bootstrap: str, topic: str) -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all") as producer:
            under_way: set[asyncio.Task[None]] = set()
            while not self.stopped.is_set():
                task = asyncio.create_task(self._send(producer, topic))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
                await asyncio.sleep(PAUSE_S)

    async def _send(self, producer: AIOKafkaProducer, topic: str) -> None:
        sent = time.monotonic()
        await producer.send_and_wait(topic, b"x" * 100, partition=0)
        self.acknowledged.append((sent, time.monotonic()))


async def _leader_by(address: Address, topic: str, old: int) -> float:
    """When that broker first named another leader than `old`."""
    async with open_admin(RealNetwork(), [address], timeout_s=5) as client:
        while True:
            (described,) = await describe_topics(client, topic)
            leader = described.partitions[0].leader_id
            if leader not in (-1, old):
                return time.monotonic()
            await trio.sleep(0.005)


async def _new_leader(addresses: list[Address], topic: str, old: int) -> float:
    """When all of them did."""
    seen: list[float] = []

    async def ask(address: Address) -> None:
        seen.append(await _leader_by(address, topic, old))

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            for address in addresses:
                nursery.start_soon(ask, address)
    return max(seen)


def _one_kill(cluster: LocalCluster, number: int, *, with_controller: bool) -> dict[str, float]:
    controller = int(str(cluster.describe_quorum()["leaderId"]))
    ids = [node.node_id for node in cluster.nodes]
    victim = controller if with_controller else next(each for each in ids if each != controller)
    others = [each for each in ids if each != victim]
    topic = f"kill-{number}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(topic, num_partitions=1, replica_assignment=[[victim, *others]])])[
        topic
    ].result(30)
    senders = {"librdkafka": Librdkafka(), "aiokafka": Aiokafka()}
    threads = [
        threading.Thread(target=sender.run, args=(cluster.bootstrap, topic)) for sender in senders.values()
    ]
    for thread in threads:
        thread.start()
    try:
        _wait(lambda: all(len(sender.acknowledged) > 10 for sender in senders.values()))
        time.sleep(WARM_S + 0.037 * number)
        addresses = [Address(cluster.host, cluster.node(each).client_port) for each in others]
        killed = time.monotonic()
        os.kill(cluster.pid(victim), signal.SIGKILL)
        leader = trio.run(_new_leader, addresses, topic, victim)
        _wait(lambda: all(sender.acknowledged_after(killed) is not None for sender in senders.values()))
    finally:
        for sender in senders.values():
            sender.stopped.set()
        for thread in threads:
            thread.join()
        cluster.kill(victim)
        cluster.start(victim)
        cluster.wait_ready()
    found = {"new leader": leader - killed}
    for name, sender in senders.items():
        acknowledged = sender.acknowledged_after(killed)
        assert acknowledged is not None
        found[name] = acknowledged - killed
    return found


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {PATIENCE_S:g} s")
        time.sleep(0.01)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10, help="of each kind")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {"leader": [], "leader and controller": []}
    with tempfile.TemporaryDirectory(prefix="quorate-kill-") as folder:
        cluster = planned(Path(folder) / "cluster", overrides=DEFAULT_TIMES)
        with serving(cluster):
            for number in range(2 * options.kills):
                kind = "leader and controller" if number % 2 else "leader"
                found[kind].append(_one_kill(cluster, number, with_controller=bool(number % 2)))
                print(f"{kind}: {', '.join(f'{k} {v:.3f}' for k, v in found[kind][-1].items())}", flush=True)
    print(f"\n{'s from the kill (median, worst)':34}" + "".join(f"{kind:>26}" for kind in found))
    for measure in ("new leader", "librdkafka", "aiokafka"):
        cells = []
        for kills in found.values():
            seconds = [each[measure] for each in kills]
            cells.append(f"{statistics.median(seconds):.3f}, {max(seconds):.3f}")
        print(f"{measure:34}" + "".join(f"{cell:>26}" for cell in cells))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
