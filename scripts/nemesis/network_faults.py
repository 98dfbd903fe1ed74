"""Faults of the network, drawn: the rules of the wire (`wire.py`), and what they are in words."""

import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from machines import OUTSIDE, Machines

Rules = dict[str, list[float]]
LOST = [1.0, 0.0, 0.0, 0.0]
Drawn = tuple[Rules, str]


class Troubled(Protocol):
    """A nemesis: it puts rules on the wire for a while."""

    draw: random.Random

    @property
    def cluster(self) -> Machines: ...

    async def network(self, rules: Rules, what: str) -> None: ...


def network_fault(
    draw_rules: Callable[[random.Random, Sequence[int]], Drawn],
) -> Callable[[Troubled], Awaitable[bool]]:
    """Return the fault that puts such rules on the wire."""

    async def fault(nemesis: Troubled) -> bool:
        await nemesis.network(*draw_rules(nemesis.draw, list(nemesis.cluster.hosts)))
        return True

    return fault


def directions(sources: Sequence[int], destinations: Sequence[int]) -> list[str]:
    return [f"{source}>{other}" for source in sources for other in destinations if source != other]


def cut_off(draw: random.Random, hosts: Sequence[int]) -> Drawn:
    """Cut a node off, from all others and clients, or from the other nodes only."""
    node, others = _one_and_others(draw, hosts)
    both = directions([node], others) + directions(others, [node])
    return dict.fromkeys(both, LOST), f"partition: {node} | {others}"


def mute(draw: random.Random, hosts: Sequence[int]) -> Drawn:
    """Cut one way: a node hears all others. The other nodes, and maybe clients, don't hear it."""
    node, others = _one_and_others(draw, hosts)
    return dict.fromkeys(directions([node], others), LOST), f"one way: {node} is not heard by {others}"


def deafen(draw: random.Random, hosts: Sequence[int]) -> Drawn:
    """Cut the other way: a node hears none of the other nodes, and maybe no client."""
    node, others = _one_and_others(draw, hosts)
    return dict.fromkeys(directions(others, [node]), LOST), f"one way: {node} does not hear {others}"


def _one_and_others(draw: random.Random, hosts: Sequence[int]) -> tuple[int, list[int]]:
    node = draw.choice(hosts)
    others = [other for other in hosts if other != node]
    return node, others + [OUTSIDE] * (draw.random() < 0.5)
