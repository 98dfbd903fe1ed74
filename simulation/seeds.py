"""Seeds from the command line: run them, say what each one drew, and how to run a failing one again."""

import random
from collections.abc import Callable, Sequence

from quorate.simulation.quorum_run import QuorumRun, QuorumRunSettings, RunResult, describe
from quorate.simulation.scheduler import StuckError
from quorate.simulation.violations import LivenessViolation, SafetyViolation

FAILURES = (SafetyViolation, LivenessViolation, StuckError)
"""What a run raises when a promise was broken. Anything else is a bug of the simulation, or of the code in
a place that no promise covers; it counts as a failure too."""


def quorum_run(seed: int, *, show: Callable[[str], None] | None = None) -> QuorumRun:
    """The run that `seed` means: nothing but the seed and the code decides it."""
    return QuorumRun(seed, QuorumRunSettings.draw(random.Random(f"quorum-settings/{seed}")), show=show)


def run_quorum_seed(seed: int, *, show: Callable[[str], None] | None = None) -> RunResult:
    """Raises one of `FAILURES`."""
    return quorum_run(seed, show=show).execute()


def run_seeds(seeds: Sequence[int], *, verbose: bool, say: Callable[[str], None]) -> list[int]:
    """Those that failed. Says the seed, what it drew, and the result; every event too if `verbose`."""
    failed = []
    for seed in seeds:
        run = quorum_run(seed, show=say if verbose else None)
        say(f"seed {seed} --quorum\n{describe(run.settings)}")
        try:
            say(f"  passed: {run.execute()}")
        except Exception as error:
            failed.append(seed)
            say(f"  FAILED: {type(error).__name__}: {error}")
            say(f"  replay: python -m quorate.simulation --quorum --seed {seed} --verbose")
            if not isinstance(error, FAILURES):
                raise
    return failed
