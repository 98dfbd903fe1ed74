"""What is done to brokers: one fault a round, drawn from a seed, and what an operator does about it."""

import random
import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import trio
from broker_cluster import SECOND, TOPIC, BrokerCluster
from machines import DISK, OUTSIDE

from quorate.broker.wire.wire_errors import KafkaError
from quorate.runtime.network import NetworkError

LOST = [1.0, 0.0, 0.0, 0.0]
FOUND_WITHIN_SECONDS = 90.0
"""A damaged segment, by the scrub."""


@dataclass(slots=True)
class BrokerNemesis:
    """Carries out one fault at a time. When a fault returns, what it did to the machines still holds; `heal`
    ends it."""

    cluster: BrokerCluster
    draw: random.Random
    problems: list[str] = field(default_factory=list)
    _restart: list[int] = field(default_factory=list)
    """Nodes that an operator restarts at the end: those with a failed directory."""

    def some(self, count: int) -> list[int]:
        return sorted(self.draw.sample(list(self.cluster.hosts), count))

    async def hold(self, low: float, high: float) -> None:
        await trio.sleep(self.draw.uniform(low, high))

    async def network(
        self, sources: Sequence[int], destinations: Sequence[int], numbers: list[float]
    ) -> None:
        await self.cluster.set_rules(
            {f"{source}>{other}": numbers for source in sources for other in destinations if source != other}
        )

    async def heal(self) -> None:
        cluster = self.cluster
        await cluster.set_rules({})
        for node, host in cluster.hosts.items():
            cluster.go_on(node)
            cluster.make_room(node)
            if node in self._restart:
                await cluster.stop(node)
            if host.process is None:
                await cluster.start(node)
        self._restart.clear()


async def _kill(nemesis: BrokerNemesis, nodes: Sequence[int]) -> bool:
    nemesis.cluster.say(f"kill -9 {list(nodes)}")
    for node in nodes:
        await nemesis.cluster.kill(node)
    await nemesis.hold(0.1, 15)
    return True


async def kill_one(nemesis: BrokerNemesis) -> bool:
    return await _kill(nemesis, nemesis.some(1))


async def kill_the_controller(nemesis: BrokerNemesis) -> bool:
    controller = await nemesis.cluster.controller()
    return controller is not None and await _kill(nemesis, [controller])


async def kill_two(nemesis: BrokerNemesis) -> bool:
    return await _kill(nemesis, nemesis.some(2))


async def kill_three(nemesis: BrokerNemesis) -> bool:
    return await _kill(nemesis, nemesis.some(3))


async def pause(nemesis: BrokerNemesis) -> bool:
    nodes = [node for node in nemesis.some(nemesis.draw.choice((1, 1, 2))) if nemesis.cluster.pause(node)]
    nemesis.cluster.say(f"SIGSTOP {nodes}")
    await nemesis.hold(1, 20)
    return bool(nodes)


async def cut_off(nemesis: BrokerNemesis) -> bool:
    """A node, from everybody or from the other nodes only."""
    (node,) = nemesis.some(1)
    others = [other for other in nemesis.cluster.hosts if other != node]
    if nemesis.draw.random() < 0.5:
        others.append(OUTSIDE)
    nemesis.cluster.say(f"partition: {node} | {others}")
    await nemesis.cluster.set_rules(
        {rule: LOST for other in others for rule in (f"{node}>{other}", f"{other}>{node}")}
    )
    await nemesis.hold(2, 25)
    return True


async def mute(nemesis: BrokerNemesis) -> bool:
    """One way: it hears everybody; the other nodes, or clients too, don't hear it."""
    (node,) = nemesis.some(1)
    others = list(nemesis.cluster.hosts) + ([OUTSIDE] if nemesis.draw.random() < 0.5 else [])
    nemesis.cluster.say(f"one way: {node} is not heard by {others}")
    await nemesis.network([node], others, LOST)
    await nemesis.hold(2, 25)
    return True


async def deafen(nemesis: BrokerNemesis) -> bool:
    """The other way: it hears nobody of the others."""
    (node,) = nemesis.some(1)
    others = list(nemesis.cluster.hosts) + ([OUTSIDE] if nemesis.draw.random() < 0.5 else [])
    nemesis.cluster.say(f"one way: {node} does not hear {others}")
    await nemesis.network(others, [node], LOST)
    await nemesis.hold(2, 25)
    return True


async def bad_links(nemesis: BrokerNemesis) -> bool:
    hosts = [*nemesis.cluster.hosts, OUTSIDE]
    numbers = [nemesis.draw.choice((0.02, 0.1, 0.2)), nemesis.draw.choice((0.0, 5.0, 50.0)), 2.0, 0.1]
    nemesis.cluster.say(f"loss {numbers[0]:.0%}, delay {numbers[1]:g} ms, reordering on all links")
    await nemesis.network(hosts, hosts, numbers)
    await nemesis.hold(3, 15)
    return True


async def full_directory(nemesis: BrokerNemesis) -> bool:
    """The disk of the second directory: its replicas go offline."""
    (node,) = nemesis.some(1)
    nemesis.cluster.say(f"the disk of the second directory of {node} is full")
    nemesis.cluster.fill(node, SECOND)
    nemesis._restart.append(node)
    await nemesis.hold(5, 20)
    return True


async def full_metadata_disk(nemesis: BrokerNemesis) -> bool:
    """The disk of the metadata log: the broker stops."""
    (node,) = nemesis.some(1)
    nemesis.cluster.say(f"the disk of the metadata log of {node} is full")
    nemesis.cluster.fill(node, DISK)
    nemesis._restart.append(node)
    with trio.move_on_after(20):
        await nemesis.cluster.wait_ended(node)
    return True


async def lost_directory(nemesis: BrokerNemesis) -> bool:
    """The second of its directories comes back empty."""
    (node,) = nemesis.some(1)
    nemesis.cluster.say(f"{node} is killed and loses its second directory")
    await nemesis.cluster.kill(node)
    await nemesis.hold(0.1, 12)
    shutil.rmtree(nemesis.cluster.hosts[node].disks[SECOND] / "data")
    return True


async def damaged_segment(nemesis: BrokerNemesis) -> bool:
    """A byte of a closed segment flips; the scrub finds it, and an operator has the replica fetched anew."""
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
    ("kill -9 of one", kill_one, 3),
    ("kill -9 of the active controller", kill_the_controller, 2),
    ("kill -9 of two", kill_two, 2),
    ("kill -9 of three", kill_three, 2),
    ("SIGSTOP of one or two", pause, 3),
    ("partition, both ways", cut_off, 2),
    ("one-way: not heard", mute, 3),
    ("one-way: hears nobody", deafen, 3),
    ("loss, delay, reordering", bad_links, 2),
    ("full disk of a directory", full_directory, 2),
    ("full disk of the metadata log", full_metadata_disk, 2),
    ("lost directory", lost_directory, 2),
    ("damaged segment", damaged_segment, 2),
)
