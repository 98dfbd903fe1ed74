"""Seeds from the command line: run them, say what each one drew, and how to run a failing one again."""

import enum
import random
from collections.abc import Callable, Sequence

from quorate.simulation.broker_run import BrokerRun, BrokerRunResult, BrokerRunSettings
from quorate.simulation.quorum_run import QuorumRun, QuorumRunSettings, RunResult, describe
from quorate.simulation.scheduler import StuckError
from quorate.simulation.violations import LivenessViolation, SafetyViolation


class Subject(enum.Enum):
    """What a seed breaks."""

    QUORUM = "quorum"
    BROKER = "broker"


FAILURES = (SafetyViolation, LivenessViolation, StuckError)
"""What a run raises when a promise was broken. Anything else is a bug of the simulation, or of the code in
a place that no promise covers; it counts as a failure too."""


def quorum_run(seed: int, *, show: Callable[[str], None] | None = None) -> QuorumRun:
    """The run that `seed` means: nothing but the seed and the code decides it."""
    return QuorumRun(seed, QuorumRunSettings.draw(random.Random(f"quorum-settings/{seed}")), show=show)


def run_quorum_seed(seed: int, *, show: Callable[[str], None] | None = None) -> RunResult:
    """Raises one of `FAILURES`."""
    return quorum_run(seed, show=show).execute()


def broker_run(seed: int, *, show: Callable[[str], None] | None = None) -> BrokerRun:
    """As `quorum_run`, of a broker cluster."""
    return BrokerRun(seed, BrokerRunSettings.draw(random.Random(f"broker-settings/{seed}")), show=show)


def run_broker_seed(seed: int, *, show: Callable[[str], None] | None = None) -> BrokerRunResult:
    """Raises one of `FAILURES`."""
    return broker_run(seed, show=show).execute()


def run_seeds(
    seeds: Sequence[int], *, what: Subject = Subject.QUORUM, verbose: bool, say: Callable[[str], None]
) -> list[int]:
    """Those that failed. Says the seed, what it drew, and the result; every event too if `verbose`."""
    failed = []
    for seed in seeds:
        show = say if verbose else None
        run = quorum_run(seed, show=show) if what is Subject.QUORUM else broker_run(seed, show=show)
        say(f"seed {seed} --{what.value}\n{describe(run.settings)}")
        try:
            say(f"  passed: {run.execute()}")
        except Exception as error:
            failed.append(seed)
            say(f"  FAILED: {type(error).__name__}: {error}")
            say(f"  replay: python -m quorate.simulation --{what.value} --seed {seed} --verbose")
            if not isinstance(error, FAILURES):
                raise
    return failed
