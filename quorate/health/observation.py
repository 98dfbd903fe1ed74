"""Observations of a cluster: all that was learnt, from whom, and why the rest is not known.

Times are in ms since the Unix epoch. Those of records are by the controllers' clocks, the others say whose.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from quorate.broker.metadata.metadata_records import ChangeReason
from quorate.health.catalogue import PLANNED_S

Facts = TypeVar("Facts")


class Place(NamedTuple):
    """A partition by the name of its topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(Generic[Facts]):
    """A part of what is known of a cluster, with its source. Exactly one of `facts` and `problem` is None."""

    source: str
    """Who was asked, for people: `broker 2`, `the controllers`."""
    at_ms: int
    """When it was learnt, by the clock of this machine."""
    facts: Facts | None = None
    problem: str | None = None
    """Why nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterFacts:
    """The leader's view of a voter. None: not known."""

    node: int
    directory: str | None = None
    log_end_offset: int | None = None
    last_fetch_ms: int | None = None
    last_caught_up_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerFacts:
    """The answer of one controller to the question who leads."""

    address: str
    node: int | None = None
    leader: int | None = None
    epoch: int | None = None
    problem: str | None = None
    """None: it answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumFacts:
    """The metadata quorum."""

    leader: int | None
    """None: no node says that it leads."""
    epoch: int | None = None
    now_ms: int = 0
    """The leader's clock when it answered; 0 without one."""
    ahead_ms: int = 0
    """How far that clock is ahead of this machine's, at least; 0: not measurably."""
    voters: tuple[VoterFacts, ...] = ()
    observers: tuple[VoterFacts, ...] = ()
    controllers: tuple[ControllerFacts, ...] = ()
    """The answers of controllers that were asked themselves. Empty: a broker answered for the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """A registered broker."""

    broker: int
    fenced: bool = False
    in_controlled_shutdown: bool = False
    reason: ChangeReason | None = None
    """Why it was taken out of service."""
    rack: str | None = None
    address: str | None = None
    """Its first listener."""
    feature_levels: Mapping[str, int] = field(default_factory=dict)
    """The highest level of each feature that it supports."""

    @property
    def active(self) -> bool:
        return not self.fenced and not self.in_controlled_shutdown


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """A partition."""

    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    in_failed_directory: tuple[int, ...] = ()
    """The brokers whose directory of this replica is offline."""
    min_isr: int | None = None
    """The topic's own min.insync.replicas. None: the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerChange:
    """A record that changed the state of a broker."""

    time_ms: int
    offset: int | None = None
    fenced: bool | None = None
    leaves: bool | None = None
    """True: it began its controlled shutdown."""
    registered: bool = False
    reason: ChangeReason | None = None
    last_heard_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeFacts:
    """A record that changed a partition. None: unchanged."""

    time_ms: int
    leader: int | None = None
    """-1: none."""
    isr: tuple[int, ...] | None = None
    reassigns: bool = False
    reason: ChangeReason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentChanges:
    """What the end of the metadata log says: when, and why. Each broker's and partition's, oldest first."""

    since_ms: int
    """It is known from this time on."""
    brokers: Mapping[int, tuple[BrokerChange, ...]] = field(default_factory=dict)
    partitions: Mapping[Place, tuple[PartitionChangeFacts, ...]] = field(default_factory=dict)
    elections: tuple[int, ...] = ()
    """When leaders of the quorum were elected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataFacts:
    """The metadata up to an offset."""

    offset: int
    brokers: Mapping[int, BrokerFacts]
    partitions: Mapping[Place, PartitionFacts]
    features: Mapping[str, int] = field(default_factory=dict)
    """The level of each feature at which the cluster works."""
    default_min_isr: int = 1
    """The min.insync.replicas of topics that have none of their own."""
    recent: RecentChanges = field(default_factory=lambda: RecentChanges(since_ms=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryFacts:
    """A log directory of a broker."""

    path: str
    failed: bool = False
    usable_bytes: int | None = None
    total_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageFacts:
    """A damaged replica of the broker that was asked."""

    place: Place
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingChange:
    """A state change that a broker has begun and not ended."""

    place: Place
    change: str
    received_ms: int
    """By the broker's clock."""
    age_ms: float
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerReport:
    """What a broker says of itself. A part that it could not say is empty."""

    directories: tuple[DirectoryFacts, ...] = ()
    damaged: tuple[DamageFacts, ...] = ()
    pending: tuple[PendingChange, ...] = ()
    ahead_ms: int | None = None
    """How far its clock is ahead of this machine's, at least; 0: not measurably."""
    applied_offset: int | None = None
    """Up to here (inclusive) it has applied the metadata, at least. None: not known."""
    certificate_end_ms: int | None = None
    """When the certificate ends that it shows. None: it shows none."""
    rebalancing: tuple[str, ...] = ()
    """The groups that it coordinates and that rebalance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFacts:
    """A certificate in a file of whoever observes."""

    where: str
    """Whose: `/etc/ca.pem` of a command, `node 2` of itself."""
    what: str
    """Which there."""
    end_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """All that was learnt of a cluster at about one time."""

    now_ms: int
    """By the clock of this machine."""
    reach: str
    """The options that reach the cluster, for commands that ask brokers or controllers."""
    brokers_reach: str
    """The options that reach its brokers."""
    quorum: Part[QuorumFacts] | None
    """None: it was not asked, as of a folder."""
    metadata: Part[MetadataFacts]
    reports: Mapping[int, Part[BrokerReport]] = field(default_factory=dict)
    """By live broker."""
    rebalancing_since_ms: Mapping[str, int] = field(default_factory=dict)
    """Since when each group was rebalancing each time that it was looked at."""
    certificates: tuple[CertificateFacts, ...] = ()
    """Those of whoever observes."""
    took_s: float = 0.0

    @property
    def unknown(self) -> tuple[Part[QuorumFacts] | Part[MetadataFacts] | Part[BrokerReport], ...]:
        """The parts of which nothing is known."""
        parts = ([] if self.quorum is None else [self.quorum]), [self.metadata], self.reports.values()
        unknown = [part for each in parts for part in each if part.facts is None]
        metadata = self.metadata.facts
        if metadata is not None and self.now_ms - metadata.recent.since_ms < PLANNED_S * 1000:
            unknown.append(
                Part(
                    source=f"the changes of the last {PLANNED_S // 60} minutes",
                    at_ms=self.now_ms,
                    problem="there was no time to read all of them",
                )
            )
        return tuple(unknown)
