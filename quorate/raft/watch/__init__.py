"""A node's observations of itself and its quorum: health, staleness, wrong configurations."""

from quorate.raft.watch.freshness import Freshness
from quorate.raft.watch.health import Health
from quorate.raft.watch.hearing import Hearing
from quorate.raft.watch.misconfiguration import Misconfiguration

__all__ = ["Freshness", "Health", "Hearing", "Misconfiguration"]
