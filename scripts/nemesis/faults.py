"""Faults of a quorum, drawn from a seed: kinds, nodes and durations, several at a time."""

import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import trio
from cluster import Cluster
from machines import OUTSIDE
from network_faults import Drawn, Rules, cut_off, deafen, directions, mute, network_fault

AT_ONCE = 2
REST_SECONDS_MAX = 3.0


@dataclass(slots=True)
class Nemesis:
    cluster: Cluster
    draw: random.Random
    done: Counter[str] = field(default_factory=Counter)
    _layers: list[Rules] = field(default_factory=list)
    """The rules of the network faults under way."""
    _claimed: dict[int, None] = field(default_factory=dict)
    """The nodes whose process or disk belongs to a fault under way."""
    _disk_may_be_lost: bool = True
    _voters_may_change: bool = True

    async def run(self, *, seconds: float) -> None:
        """Carry out faults for so long, then wait for those under way to end."""
        # What a lost disk held is replicated again: all have applied everything since. A set from which
        # one more is taken while a voter is gone for good may never commit again, so a round has one or the
        # other.
        self._disk_may_be_lost = self.draw.random() < 0.5
        self._voters_may_change = not self._disk_may_be_lost
        until = time.monotonic() + seconds
        async with trio.open_nursery() as nursery:
            for _ in range(AT_ONCE):
                nursery.start_soon(self._one_after_another, until)

    async def _one_after_another(self, until: float) -> None:
        while time.monotonic() < until:
            name, fault, _ = self.draw.choices(FAULTS, weights=[weight for _, _, weight in FAULTS])[0]
            if await fault(self):
                self.done[name] += 1
                await trio.sleep(self.draw.uniform(0.2, REST_SECONDS_MAX))
            else:
                await trio.sleep(0.2)

    async def hold(self, low: float = 1.0, high: float = 7.0) -> None:
        await trio.sleep(self.draw.uniform(low, high))

    @contextmanager
    def claimed(self, *, at_least: int, at_most: int) -> Iterator[list[int]]:
        """Draw nodes that no other fault touches meanwhile. There are none if too few are free."""
        free = [node for node in self.cluster.hosts if node not in self._claimed]
        count = self.draw.randint(at_least, at_most)
        nodes = self.draw.sample(free, count) if len(free) >= count else []
        self._claimed.update(dict.fromkeys(nodes))
        try:
            yield nodes
        finally:
            for node in nodes:
                del self._claimed[node]

    async def network(self, rules: Rules, what: str) -> None:
        """Put these rules on the wire, beside those of other faults, for a while."""
        self.cluster.say(what)
        self._layers.append(rules)
        try:
            await self.cluster.set_rules(self._combined())
            await self.hold()
        finally:
            self._layers.remove(rules)
        await self.cluster.set_rules(self._combined())

    def _combined(self) -> Rules:
        combined: Rules = {}
        for layer in self._layers:
            for direction, numbers in layer.items():
                before = combined.get(direction, [0.0, 0.0, 0.0, 0.0])
                combined[direction] = [max(pair) for pair in zip(before, numbers, strict=True)]
        return combined


def kill(count: int | None) -> "Fault":
    """Return the fault that kills this many nodes, and starts them again. None: all."""

    async def fault(nemesis: Nemesis) -> bool:
        number = len(nemesis.cluster.hosts) if count is None else count
        with nemesis.claimed(at_least=number, at_most=number) as nodes:
            await _kill(nemesis, nodes)
            return bool(nodes)

    return fault


async def _kill(nemesis: Nemesis, nodes: Sequence[int]) -> None:
    nemesis.cluster.say(f"kill -9 {nodes}")
    for node in nodes:
        await nemesis.cluster.kill(node)
    await nemesis.hold(0.1, 4)
    for node in nodes:
        await nemesis.cluster.start(node)


async def kill_the_leader(nemesis: Nemesis) -> bool:
    leader = await nemesis.cluster.leader()
    if leader is None or leader in nemesis._claimed:
        return False
    nemesis._claimed[leader] = None
    try:
        await _kill(nemesis, [leader])
    finally:
        del nemesis._claimed[leader]
    return True


async def pause(nemesis: Nemesis) -> bool:
    with nemesis.claimed(at_least=1, at_most=2) as nodes:
        paused = [node for node in nodes if nemesis.cluster.pause(node)]
        if paused:
            nemesis.cluster.say(f"SIGSTOP {paused}")
            await nemesis.hold(0.5, 8)
        for node in paused:
            nemesis.cluster.go_on(node)
        return bool(paused)


def bad_links(draw: random.Random, hosts: Sequence[int]) -> Drawn:
    """Draw loss, delay and reordering of packets between some hosts, each direction by itself."""
    every = [*hosts, OUTSIDE]
    rules = {
        direction: [
            draw.choice((0.0, 0.02, 0.1, 0.3)),
            draw.choice((0.0, 5.0, 50.0, 200.0)),
            draw.choice((0.0, 2.0, 40.0)),
            draw.choice((0.0, 0.1, 0.5)),
        ]
        for direction in directions(every, every)
        if draw.random() < 0.6
    }
    return rules, f"loss, delay, reordering on {len(rules)} links"


async def netem(nemesis: Nemesis) -> bool:
    """Have the kernel lose, delay and reorder all packets that one node sends, where it can."""
    cluster = nemesis.cluster
    node = nemesis.draw.choice(list(cluster.hosts))
    how = ["delay", f"{nemesis.draw.choice((5, 50, 200))}ms", f"{nemesis.draw.choice((1, 20))}ms",
           "loss", f"{nemesis.draw.choice((0, 5, 30))}%", "reorder", "25%"]  # fmt: skip
    if not cluster.has_netem or not cluster.set_netem(node, *how):
        return False
    cluster.say(f"netem on {node}: {' '.join(how)}")
    try:
        await nemesis.hold()
    finally:
        cluster.clear_netem(node)
    return True


async def full_disk(nemesis: Nemesis) -> bool:
    with nemesis.claimed(at_least=1, at_most=1) as nodes:
        for node in nodes:
            if nemesis.cluster.hosts[node].process is None:
                return False
            nemesis.cluster.say(f"the disk of {node} is full")
            nemesis.cluster.fill(node)
            with trio.move_on_after(12):
                # Sooner or later it needs a new segment, or a vote on disk.
                await nemesis.cluster.wait_ended(node)
            nemesis.cluster.make_room(node)
            if nemesis.cluster.hosts[node].process is None:
                await nemesis.cluster.start(node)
        return bool(nodes)


async def lost_disk(nemesis: Nemesis) -> bool:
    """Replace one disk, until all nodes have caught up: a record may be on two disks only."""
    if not nemesis._disk_may_be_lost:
        return False
    with nemesis.claimed(at_least=1, at_most=1) as nodes:
        for node in nodes:
            nemesis._disk_may_be_lost = False
            nemesis.cluster.say(f"{node} loses its disk and comes back with an empty one")
            await nemesis.cluster.replace_disk(node)
        return bool(nodes)


async def transfer(nemesis: Nemesis) -> bool:
    to = nemesis.draw.choice(list(nemesis.cluster.hosts))
    nemesis.cluster.say(f"leadership goes to {to}")
    return await nemesis.cluster.transfer(to)


async def snapshot(nemesis: Nemesis) -> bool:
    return await nemesis.cluster.take_snapshot(nemesis.draw.choice(list(nemesis.cluster.hosts)))


async def change_voters(nemesis: Nemesis) -> bool:
    if not nemesis._voters_may_change:
        return False
    node = nemesis.draw.choice(list(nemesis.cluster.hosts))
    nemesis.cluster.say(f"{node} votes no more")
    removed = await nemesis.cluster.remove_voter(node)
    await nemesis.hold(0.1, 3)
    nemesis.cluster.say(f"{node} votes again")
    added = await nemesis.cluster.add_voter(node)
    return removed and added


Fault = Callable[[Nemesis], Awaitable[bool]]
FAULTS: tuple[tuple[str, Fault, int], ...] = (
    ("kill -9 of one", kill(1), 3),
    ("kill -9 of the leader", kill_the_leader, 3),
    ("kill -9 of two", kill(2), 2),
    ("kill -9 of all", kill(None), 1),
    ("SIGSTOP", pause, 4),
    ("partition", network_fault(cut_off), 4),
    ("one-way: not heard", network_fault(mute), 3),
    ("one-way: hears nobody", network_fault(deafen), 3),
    ("loss, delay, reordering", network_fault(bad_links), 4),
    ("tc netem", netem, 3),
    ("full disk", full_disk, 2),
    ("lost disk", lost_disk, 1),
    ("leadership transferred", transfer, 3),
    ("snapshot asked for", snapshot, 2),
    ("voter removed and added", change_voters, 2),
)
