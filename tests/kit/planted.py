"""Faults planted in whole simulated clusters, to see that the invariants find them."""

import re
from collections.abc import Callable

import pytest

from quorate.simulation.violations import LivenessViolation, SafetyViolation

Plant = Callable[[pytest.MonkeyPatch], None]


def shown_by_a_seed(
    plant: Plant,
    run: Callable[[int], object],
    *,
    expected: str,
    first: int,
    seeds_max: int,
    violation: type[AssertionError] = SafetyViolation,
) -> None:
    """Fail unless the planted fault shows in one of the seeds, and the code as it is passes under the very
    same faults. `first` is the seed that showed it last, so that the rest are seldom needed."""
    for seed in (first, *(each for each in range(1, seeds_max + 1) if each != first)):
        with pytest.MonkeyPatch.context() as patch:
            plant(patch)
            try:
                run(seed)
            except violation as found:
                assert re.search(expected, str(found)), found
                break
            except LivenessViolation:
                continue  # a consequence, whose cause may show in the next seed
    else:
        pytest.fail(f"not shown by any of {seeds_max} seeds")
    run(seed)
