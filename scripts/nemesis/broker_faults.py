"""Faults of brokers: one a round, drawn from a seed, and the work of an operator after it."""

import random
import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import trio
from broker_cluster import SECOND, TOPIC, BrokerCluster
from machines import DISK, OUTSIDE
from network_faults import Drawn, Rules, cut_off, deafen, directions, mute, network_fault

from quorate.broker.wire.wire_errors import KafkaError
from quorate.runtime.network import NetworkError

FOUND_WITHIN_SECONDS = 90.0
"""The time that the scrub has to find a damaged segment."""


@dataclass(slots=True)
class BrokerNemesis:
    """Carries out one fault at a time. When a fault returns, what it did to the machines still holds; `heal`
    ends it."""

    cluster: BrokerCluster
    draw: random.Random
    problems: list[str] = field(default_factory=list)
    _restart: list[int] = field(default_factory=list)
    """Nodes with a failed directory. An operator restarts them at the end."""

    def some(self, count: int) -> list[int]:
        return sorted(self.draw.sample(list(self.cluster.hosts), count))

    async def hold(self, low: float, high: float) -> None:
        await trio.sleep(self.draw.uniform(low, high))

    async def network(self, rules: Rules, what: str) -> None:
        self.cluster.say(what)
        await self.cluster.set_rules(rules)
        await self.hold(2, 25)

    async def heal(self) -> None:
        for node in self._restart:
            self.cluster.make_room(node)
            await self.cluster.stop(node)
        self._restart.clear()
        await self.cluster.heal()


async def _kill(nemesis: BrokerNemesis, nodes: Sequence[int]) -> bool:
    nemesis.cluster.say(f"kill -9 {list(nodes)}")
    for node in nodes:
        await nemesis.cluster.kill(node)
    await nemesis.hold(0.1, 15)
    return True


def kill(count: int) -> "Fault":
    """Return the fault that kills this many nodes."""

    async def fault(nemesis: BrokerNemesis) -> bool:
        return await _kill(nemesis, nemesis.some(count))

    return fault


async def kill_the_controller(nemesis: BrokerNemesis) -> bool:
    controller = await nemesis.cluster.controller()
    return controller is not None and await _kill(nemesis, [controller])


async def pause(nemesis: BrokerNemesis) -> bool:
    nodes = [node for node in nemesis.some(nemesis.draw.choice((1, 1, 2))) if nemesis.cluster.pause(node)]
    nemesis.cluster.say(f"SIGSTOP {nodes}")
    await nemesis.hold(1, 20)
    return bool(nodes)


def bad_links(draw: random.Random, hosts: Sequence[int]) -> Drawn:
    """Draw loss, delay and reordering of packets, the same on all links."""
    every = [*hosts, OUTSIDE]
    numbers = [draw.choice((0.02, 0.1, 0.2)), draw.choice((0.0, 5.0, 50.0)), 2.0, 0.1]
    what = f"loss {numbers[0]:.0%}, delay {numbers[1]:g} ms, reordering on all links"
    return dict.fromkeys(directions(every, every), numbers), what


async def full_directory(nemesis: BrokerNemesis) -> bool:
    """Fill the disk of the second directory: its replicas go offline."""
    (node,) = nemesis.some(1)
    nemesis.cluster.say(f"the disk of the second directory of {node} is full")
    nemesis.cluster.fill(node, SECOND)
    nemesis._restart.append(node)
    await nemesis.hold(5, 20)
    return True


async def full_metadata_disk(nemesis: BrokerNemesis) -> bool:
    """Fill the disk of the metadata log: the broker stops."""
    (node,) = nemesis.some(1)
    nemesis.cluster.say(f"the disk of the metadata log of {node} is full")
    nemesis.cluster.fill(node, DISK)
    nemesis._restart.append(node)
    with trio.move_on_after(20):
        await nemesis.cluster.wait_ended(node)
    return True


async def lost_directory(nemesis: BrokerNemesis) -> bool:
    """Kill a broker and empty its second directory."""
    (node,) = nemesis.some(1)
    nemesis.cluster.say(f"{node} is killed and loses its second directory")
    await nemesis.cluster.kill(node)
    await nemesis.hold(0.1, 12)
    shutil.rmtree(nemesis.cluster.hosts[node].disks[SECOND] / "data")
    return True


async def damaged_segment(nemesis: BrokerNemesis) -> bool:
    """Flip a byte of a closed segment. The scrub finds it, and an operator has the replica fetched anew."""
    cluster = nemesis.cluster
    (node,) = nemesis.some(1)
    partition = nemesis.draw.randrange(cluster.partitions)
    closed = cluster.segments(node, partition)[:-1]
    if not closed:
        return False
    segment = nemesis.draw.choice(closed)
    position, offset = cluster.damage(segment, nemesis.draw.random())
    name = f"{TOPIC}:{partition}:{node}"
    cluster.say(f"{name} is damaged in {segment.name}, byte {position}, offset {offset}")
    deadline = time.monotonic() + FOUND_WITHIN_SECONDS
    while not any(
        (each["partition"], each["broker"]) == (partition, node) for each in await cluster.damaged()
    ):
        if time.monotonic() > deadline:
            nemesis.problems.append(f"nobody has found the damage of {name} in {FOUND_WITHIN_SECONDS} s")
            return True
        await trio.sleep(0.5)
    code, said = await cluster.operate("log-dirs", "refetch", "--replica", name)
    cluster.say(said.strip())
    if code:
        nemesis.problems.append(f"{name} is not fetched anew: {said}")
        return True
    await _in_sync(nemesis, partition, node)
    if any((each["partition"], each["broker"]) == (partition, node) for each in await cluster.damaged()):
        nemesis.problems.append(f"{name} is still said to be damaged after it was fetched anew")
    for disk in cluster.hosts[node].disks.values():
        for folder in (disk / "data").glob("*-damaged"):
            shutil.rmtree(folder)
    return True


async def _in_sync(nemesis: BrokerNemesis, partition: int, node: int) -> None:
    deadline = time.monotonic() + FOUND_WITHIN_SECONDS
    while time.monotonic() < deadline:
        with suppress(NetworkError, KafkaError):
            _, in_sync = await nemesis.cluster.roles(partition)
            if node in in_sync:
                return
        await trio.sleep(0.3)
    nemesis.problems.append(f"{node} is not in sync with partition {partition} after it was fetched anew")


Fault = Callable[[BrokerNemesis], Awaitable[bool]]
BROKER_FAULTS: tuple[tuple[str, Fault, int], ...] = (
    ("kill -9 of one", kill(1), 3),
    ("kill -9 of the active controller", kill_the_controller, 2),
    ("kill -9 of two", kill(2), 2),
    ("kill -9 of three", kill(3), 2),
    ("SIGSTOP of one or two", pause, 3),
    ("partition, both ways", network_fault(cut_off), 2),
    ("one-way: not heard", network_fault(mute), 3),
    ("one-way: hears nobody", network_fault(deafen), 3),
    ("loss, delay, reordering", network_fault(bad_links), 2),
    ("full disk of a directory", full_directory, 2),
    ("full disk of the metadata log", full_metadata_disk, 2),
    ("lost directory", lost_directory, 2),
    ("damaged segment", damaged_segment, 2),
)
