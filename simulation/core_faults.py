"""How much goes wrong in a `CoreCluster`."""

import random as random_module
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How much goes wrong. Rates are per message, or per fault drawn; times are in ms."""

    loss: float
    duplication: float
    latency_ms_max: int
    sync_ms_max: int
    fault_every_ms: int
    """Mean time between crashes, partitions, resignations and broken connections."""
    crash: float
    power_cut: float
    """Of crashes, those that lose what was not synced."""
    partition: float
    propose_every_ms: int
    records_max: int
    administer_every_ms: int
    """Mean time between snapshots, log starts that move, voters added or removed, read barriers and
    hand-overs; 0 for none."""
    wipe: float
    """Of crashes, those that cost the node its disk; only where voters are dynamic."""

    @staticmethod
    def draw(random: random_module.Random) -> "Faults":
        """Each setting is drawn too, so that runs differ in kind (swarm testing)."""
        return Faults(
            loss=random.choice((0.0, 0.02, 0.1, 0.3)),
            duplication=random.choice((0.0, 0.05, 0.2)),
            latency_ms_max=random.choice((2, 20, 300)),
            sync_ms_max=random.choice((1, 20, 400)),
            fault_every_ms=random.choice((300, 1500, 6000)),
            crash=random.choice((0.2, 0.5, 0.8)),
            power_cut=random.choice((0.0, 0.5, 1.0)),
            partition=random.choice((0.0, 0.3)),
            propose_every_ms=random.choice((5, 50, 400)),
            records_max=random.choice((1, 3, 1000)),
            administer_every_ms=random.choice((0, 100, 1000)),
            wipe=random.choice((0.0, 0.1)),
        )

    @staticmethod
    def none() -> "Faults":
        return Faults(
            loss=0.0,
            duplication=0.0,
            latency_ms_max=2,
            sync_ms_max=2,
            fault_every_ms=0,
            crash=0.0,
            power_cut=0.0,
            partition=0.0,
            propose_every_ms=50,
            records_max=1000,
            administer_every_ms=0,
            wipe=0.0,
        )
