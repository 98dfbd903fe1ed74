"""The settings of a run of simulated cores, with its rates of faults. Each seed draws all of them."""

import enum
import random
from dataclasses import dataclass, replace

from quorate.raft.core import CoreConfig


class CoreFault(enum.Enum):
    """Kinds of faults. Those before `CRASH` touch messages and clocks, the others a node at a time."""

    LOSS = "loss"
    DUPLICATION = "duplication"
    REORDERING = "reordering"
    DELAY = "delay"
    PARTITION = "partition"
    """Two groups that don't hear each other."""
    ONE_WAY = "one-way"
    """Some are not heard by others that they hear."""
    FLAPPING = "flapping"
    """A link goes and comes many times."""
    BROKEN_CONNECTION = "broken-connection"
    """A node learns that another can't be reached, be it true or not."""
    CLOCK_RATE = "clock-rate"
    """Clocks run at half to twice the speed of others."""
    SLOW_NODE = "slow-node"
    PAUSE = "pause"
    """SIGSTOP, and SIGCONT later."""
    CRASH = "crash"
    CRASH_MIDWAY = "crash-midway"
    """A crash between any two effects of one step."""
    POWER_LOSS = "power-loss"
    """The unsynced data is lost, from any point on."""
    BLACKOUT = "blackout"
    """Power loss of all nodes at once."""
    WRITE_ERROR = "write-error"
    """An append fails half-way; the node stops."""
    SYNC_ERROR = "sync-error"
    """A sync fails; the node stops, and then its host may lose power."""
    FULL_DISK = "full-disk"
    """No append succeeds for a while."""
    BIT_FLIP = "bit-flip"
    """Damage at rest: the node refuses to start, for good, or comes back as another replica."""
    LOST_DISK = "lost-disk"
    """A node comes back with an empty disk and a new directory id. Only where voters are dynamic."""
    VOTERS = "voters"
    """Voters are written into the log, added, removed, moved to other endpoints."""
    SNAPSHOT = "snapshot"
    """Snapshots are taken, and the log below them goes."""
    DAMAGED_SNAPSHOT = "damaged-snapshot"
    """The fetched snapshot turns out to be broken."""
    RESIGN = "resign"
    TRANSFER = "transfer"
    """Leadership is transferred to a chosen node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreSwarmSettings:
    """Rates are per message or step, times in ms."""

    voters: int = 3
    observers: int = 0
    dynamic: bool = False
    """The voters are in the log (kraft.version 1)."""
    config: CoreConfig = CoreConfig()
    kinds: tuple[CoreFault, ...] = ()
    skipped: frozenset[CoreFault] = frozenset()
    """The faults drawn but not done, so that the run stays as close to the full one as can be."""
    fault_every_ms: int = 1000
    """Mean time between faults that happen at a moment."""
    duration_ms: int = 1500
    """Mean time that those last that end."""
    latency_ms_max: int = 5
    sync_ms_max: int = 3
    append_every_ms: int = 50
    read_every_ms: int = 200
    records_max: int = 1000
    """The records of one Fetch."""
    chunk_bytes: int = 16
    """The bytes of a snapshot fetched at once."""
    events: int = 500
    """Steps of nodes under faults."""
    clock_rates: tuple[float, ...] = (0.5, 0.8, 1.0, 1.25, 2.0)
    """The ms that clocks take for one of their own, for `CoreFault.CLOCK_RATE`."""

    @classmethod
    def draw(cls, source: random.Random) -> "CoreSwarmSettings":
        """Each kind is on in some seeds and off in others, so that none always hides another (swarm)."""
        share = source.choice((0.15, 0.4, 0.7))
        dynamic = source.random() < 0.5
        kinds = tuple(kind for kind in CoreFault if source.random() < share)
        if not dynamic:
            kinds = tuple(kind for kind in kinds if kind is not CoreFault.LOST_DISK)
        return cls(
            voters=source.choice((1, 2, 3, 3, 3, 4, 5, 5, 7)),
            observers=source.choice((0, 0, 1, 2)),
            dynamic=dynamic,
            config=CoreConfig(
                election_timeout_ms=source.choice((300, 1000)),
                fetch_timeout_ms=source.choice((600, 2000)),
                request_timeout_ms=source.choice((500, 2000)),
                fetch_max_wait_ms=source.choice((100, 500)),
                high_watermark_wait_ms=source.choice((0, 0, 5)),
            ),
            kinds=kinds or (CoreFault.CRASH,),
            fault_every_ms=source.choice((100, 400, 1500, 4000)),
            duration_ms=source.choice((100, 1000, 3000)),
            latency_ms_max=source.choice((2, 5, 30)),
            sync_ms_max=source.choice((1, 5, 100)),
            append_every_ms=source.choice((5, 50, 300)),
            read_every_ms=source.choice((20, 200, 1000)),
            records_max=source.choice((1, 3, 1000)),
            chunk_bytes=source.choice((4, 16, 1000)),
        )

    def with_leases(self, source: random.Random) -> "CoreSwarmSettings":
        """Return the settings with read leases, and clocks whose rates are up to the bound of leases."""
        fetch_timeout_ms = self.config.fetch_timeout_ms
        wait_ms = min(self.config.fetch_max_wait_ms, fetch_timeout_ms // 4)
        config = replace(
            self.config,
            fetch_max_wait_ms=wait_ms,
            read_lease_ms=source.choice((2 * wait_ms, fetch_timeout_ms)),
        )
        return replace(self, config=config, clock_rates=(0.8, 0.9, 1.0))

    @property
    def kind_names(self) -> list[str]:
        return [kind.value for kind in self.kinds]

    def reduced(self, skipped: frozenset[str], share: float) -> "CoreSwarmSettings":
        """Return the settings without some kinds of faults, and for a share of the steps."""
        without = frozenset(kind for kind in self.kinds if kind.value in skipped)
        return replace(self, skipped=without, events=int(share * self.events))

    def healed(self) -> "CoreSwarmSettings":
        """The same cluster, with nothing going wrong any more."""
        return replace(
            self, kinds=(), latency_ms_max=2, sync_ms_max=2, append_every_ms=200, read_every_ms=400
        )
