"""Damage to replicas at rest: the scrub that finds it, and the way back to a whole replica."""

from quorate.broker.replication.damage.scrubber import REMEDY, Scrubber

__all__ = ["REMEDY", "Scrubber"]
