"""Damage to replicas at rest: the scrub that finds it, and the way back to a whole replica."""

from quorate.broker.replication.damage.damage_report import DamageReport
from quorate.broker.replication.damage.disk_failures import DiskFailures
from quorate.broker.replication.damage.refetches import Refetches
from quorate.broker.replication.damage.scrubber import Scrubber, remedy_for
from quorate.broker.replication.damage.space_watch import SpaceWatch

__all__ = ["DamageReport", "DiskFailures", "Refetches", "Scrubber", "SpaceWatch", "remedy_for"]
