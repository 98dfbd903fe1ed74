"""Seeds from the command line: run them, print the settings that each one drew, and the command that repeats
a failing one."""

import enum
import gc
import multiprocessing
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Protocol

from quorate.simulation.violations import LivenessViolation, SafetyViolation, StuckError
from tests.simulator.core.core_run import CoreRun
from tests.simulator.core.core_swarm_settings import CoreSwarmSettings

# What a core needs to run starts in a fifth of the time of the rest.
if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from quorate.simulation.quorum.quorum_run import QuorumRun
    from tests.simulator.access.access_run import AccessRun
    from tests.simulator.brokers.broker_run import BrokerRun

    Run = CoreRun | QuorumRun | BrokerRun | AccessRun


class Counted(Protocol):
    """The result of a run that passed, as far as it is counted."""

    @property
    def events(self) -> int:
        """Return the steps of cores, or the events in the trace."""
        ...

    @property
    def virtual_s(self) -> float: ...

    @property
    def committed(self) -> int:
        """Return the number of records; of brokers, those acknowledged to producers."""
        ...

    @property
    def faults(self) -> dict[str, int]: ...

    @property
    def seen(self) -> dict[str, int]:
        """Return what the clients did and saw, by its name."""
        ...


@dataclass(slots=True)
class Totals:
    """The totals of many runs."""

    runs: int = 0
    events: int = 0
    """Steps of cores, or events in traces."""
    virtual_s: float = 0.0
    committed: int = 0
    """Records; of brokers, those acknowledged to producers."""
    faults: dict[str, int] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    """The failures by seed."""

    def count(self, result: Counted) -> None:
        """Add the counts of one more run."""
        self._sum(result)

    def add(self, other: "Totals") -> None:
        self.runs += other.runs
        self._sum(other)
        self.failures |= other.failures

    def _sum(self, other: "Counted | Totals") -> None:
        self.events += other.events
        self.virtual_s += other.virtual_s
        self.committed += other.committed
        for ours, theirs in ((self.faults, other.faults), (self.seen, other.seen)):
            for name, count in theirs.items():
                ours[name] = ours.get(name, 0) + count

    @property
    def faults_by_kind(self) -> str:
        """Return the number of faults of each kind, by name; empty for none."""
        return ", ".join(f"{kind} {count:,}" for kind, count in sorted(self.faults.items()))

    @property
    def seen_by_name(self) -> str:
        """Return what the clients did and saw."""
        return ", ".join(f"{count:,} {name}" for name, count in self.seen.items())

    def __str__(self) -> str:
        kinds = len(self.faults)
        return (
            f"{self.runs:,} runs, {len(self.failures)} failed: {self.events:,} events, "
            f"{self.virtual_s / 3600:,.1f} hours of virtual time, {self.committed:,} committed, "
            f"{sum(self.faults.values()):,} faults of {kinds} kinds"
        )


_COLLECT_EVERY = 20
"""Runs between two garbage collections: a run makes little garbage, and looking for it takes a tenth."""


class Subject(enum.Enum):
    """The system that a seed breaks."""

    CORE = "core"
    """The protocol alone, without disks, sockets or trio: quick."""
    QUORUM = "quorum"
    SESSIONS = "sessions"
    """Short runs of three voters, whose clients append in sessions, read and watch."""
    BROKER = "broker"
    ACCESS = "access"
    """Short runs of secured broker clusters, whose users' rights change."""


FAILURES = (SafetyViolation, LivenessViolation, StuckError)
"""The errors that a run raises at a violation. Any other error is a bug of the simulation, or of code that no
invariant covers; it counts as a failure too."""

Show = Callable[[str], None]


def core_run(seed: int, *, show: Show | None = None) -> CoreRun:
    """The run that `seed` means: nothing but the seed and the code decides it."""
    return CoreRun(seed, CoreSwarmSettings.draw(random.Random(f"core-settings/{seed}")), show=show)


def quorum_run(seed: int, *, show: Show | None = None) -> "QuorumRun":
    """Prepare a run as `core_run`, of the whole quorum."""
    from quorate.simulation.quorum.quorum_run import QuorumRun, QuorumRunSettings

    return QuorumRun(seed, QuorumRunSettings.draw(random.Random(f"quorum-settings/{seed}")), show=show)


def session_run(seed: int, *, show: Show | None = None) -> "QuorumRun":
    """Prepare a run as `core_run`, of three voters that have a fault all the time, for a short time. Their
    clients use all that clients have: sessions, every kind of read, watches."""
    from quorate.raft import SessionLimits
    from quorate.simulation.quorum.quorum_clients import ClientSettings
    from quorate.simulation.quorum.quorum_run import QuorumRun, QuorumRunSettings

    source = random.Random(f"session-settings/{seed}")
    drawn = QuorumRunSettings.draw(source)
    core = replace(
        drawn.cluster.core,
        election_timeout_ms=300,
        fetch_timeout_ms=600,
        request_timeout_ms=600,
        fetch_max_wait_ms=300,
    )
    cluster = replace(
        drawn.cluster,
        voters=3,
        observers=0,
        core=core,
        snapshot_bytes=source.choice((2000, 8000)),
        retention_bytes=1,
        segment_bytes=2048,
    )
    clients = ClientSettings(
        in_process=1,
        remote=1,
        readers=1,
        remote_readers=1,
        bounded_readers=0 if cluster.clock_rates else 1,
        watchers=1,
        think_max_s=0.4,
        padding_max=100,
        sessions=True,
        session_limits=SessionLimits(
            sessions_max=source.choice((1, 10_000, 10_000, 10_000)),
            window=source.choice((1, 64)),
            idle_ms=source.choice((4000, 3_600_000)),
        ),
    )
    faults = replace(drawn.faults, mean_interval_s=0.25, mean_duration_s=0.4)
    settings = replace(
        drawn, cluster=cluster, clients=clients, faults=faults, faults_s=1.5, blackout_at_end=False
    )
    return QuorumRun(seed, settings, show=show)


def broker_run(seed: int, *, show: Show | None = None) -> "BrokerRun":
    """Prepare a run as `core_run`, of a broker cluster."""
    from tests.simulator.brokers.broker_run import BrokerRun, BrokerRunSettings

    return BrokerRun(seed, BrokerRunSettings.draw(random.Random(f"broker-settings/{seed}")), show=show)


def access_run(seed: int, *, show: Show | None = None) -> "AccessRun":
    """Prepare a run as `core_run`, of a secured broker cluster and its users."""
    from tests.simulator.access.access_run import AccessRun, AccessRunSettings

    return AccessRun(seed, AccessRunSettings.draw(random.Random(f"access-settings/{seed}")), show=show)


def run_of(what: Subject, seed: int, *, show: Show | None = None) -> "Run":
    match what:
        case Subject.CORE:
            return core_run(seed, show=show)
        case Subject.QUORUM:
            return quorum_run(seed, show=show)
        case Subject.SESSIONS:
            return session_run(seed, show=show)
        case Subject.BROKER:
            return broker_run(seed, show=show)
        case Subject.ACCESS:
            return access_run(seed, show=show)


def run_seeds(
    seeds: Sequence[int], *, what: Subject = Subject.QUORUM, verbose: bool, say: Callable[[str], None]
) -> list[int]:
    """Run the seeds and return those that failed. Says the seed, its draws, and the result; every event too
    if `verbose`."""
    failed = []
    for seed in seeds:
        run = run_of(what, seed, show=say if verbose else None)
        say(f"seed {seed} --{what.value}\n{describe(run.settings)}")
        try:
            say(f"  passed: {run.execute()}")
        except Exception as error:
            failed.append(seed)
            say(f"  FAILED: {type(error).__name__}: {error}")
            say(f"  replay: {replay_of(what, seed)}")
            if not isinstance(error, FAILURES):
                raise
    return failed


def describe(settings: "DataclassInstance") -> str:
    """Describe a run's settings, one line per part."""
    return "\n".join(f"  {part.name}: {getattr(settings, part.name)}" for part in fields(settings))


def replay_of(what: Subject, seed: int) -> str:
    return f"python -m tests.simulator --{what.value} --seed {seed} --verbose"


def run_quietly(what: Subject, seeds: Iterable[int]) -> Totals:
    """Run seeds. Return their counts and failures."""
    totals = Totals()
    collecting = gc.isenabled()
    gc.disable()
    try:
        for seed in seeds:
            if totals.runs % _COLLECT_EVERY == 0:
                gc.collect()
            totals.runs += 1
            try:
                totals.count(run_of(what, seed).execute())
            except Exception as error:
                totals.failures[seed] = f"{type(error).__name__}: {error}"
    finally:
        if collecting:
            gc.enable()
    return totals


def run_many(seeds: Sequence[int], *, what: Subject, jobs: int, say: Callable[[str], None]) -> Totals:
    """Run seeds in `jobs` processes. Says each failure with how to replay it; now and then how far it is,
    with the counts up to there; and at last all counts: how often each kind of fault was done, and in the
    last line what the clients did and saw."""
    began = time.monotonic()
    size = max(1, min(200, len(seeds) // (4 * jobs)))
    chunks = [(what, seeds[start : start + size]) for start in range(0, len(seeds), size)]
    totals = Totals()
    said = 0
    # A forked child has the locks that other threads of this process held, and waits for them for ever.
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for part in pool.imap(_chunk, chunks):
            totals.add(part)
            for seed, failure in part.failures.items():
                say(f"seed {seed} FAILED: {failure[:500]}\n  replay: {replay_of(what, seed)}")
            if totals.runs >= said + len(seeds) // 20 and totals.runs < len(seeds):
                said = totals.runs
                say(
                    f"  {totals.runs:,} runs after {time.monotonic() - began:.0f} s, up to seed "
                    f"{seeds[totals.runs - 1]}: {totals.seen_by_name}"
                )
    took = time.monotonic() - began
    say(
        f"--{what.value} seeds {seeds[0]} to {seeds[-1]}: {totals}; {took:.0f} s, "
        f"{totals.runs / took:.1f} runs/s with {jobs} processes"
    )
    say(f"  faults: {totals.faults_by_kind or 'none'}")
    say(f"  {totals.seen_by_name}")
    return totals


def _chunk(work: tuple[Subject, Sequence[int]]) -> Totals:
    return run_quietly(*work)
