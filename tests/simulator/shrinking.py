"""A failing seed, shown with as few kinds of faults, and in as little time, as it takes."""

from collections.abc import Callable
from typing import Final, Protocol

from quorate.simulation.shrinking import invariant_of, shrink_faults
from tests.simulator.seeds import FAILURES, Show, Subject, run_of

_NOISE: Final = (" bytes ", " synced ", "log debug ")
"""The lines that a trace does not need."""


class Attempt(Protocol):
    """Runs a seed without some kinds of faults, and only for a share of the time. Returns the failure."""

    def __call__(
        self, skipped: frozenset[str], share: float, show: Show | None = None
    ) -> Exception | None: ...


def shrink(seed: int, *, what: Subject, say: Callable[[str], None]) -> bool:
    """Return whether the seed fails. If so, say which faults it takes, and the events that follow, one by
    one."""
    attempt, kinds = _attempts(seed, what)
    failure = attempt(frozenset(), 1.0)
    if failure is None:
        say(f"seed {seed} --{what.value} passes: there is nothing to shrink")
        return False
    say(f"seed {seed} --{what.value} fails with {', '.join(kinds)}")
    invariant = invariant_of(failure)

    def still_fails(skipped: frozenset[str], share: float) -> bool:
        found = attempt(skipped, share)
        return found is not None and invariant_of(found) == invariant

    skipped, share = shrink_faults(still_fails, kinds, say=say)
    needed = [kind for kind in kinds if kind not in skipped]
    say(f"needed: {', '.join(needed) or 'no faults at all'}")

    def tell(line: str) -> None:
        if not any(noise in line for noise in _NOISE):
            say(f"  {line}")

    last = attempt(skipped, share, tell)
    say(f"{type(last).__name__}: {last}")
    return True


def _attempts(seed: int, what: Subject) -> tuple[Attempt, list[str]]:
    """Return the function that runs the seed with less, and the kinds of faults that it drew."""

    def attempt(skipped: frozenset[str], share: float, show: Show | None = None) -> Exception | None:
        run = run_of(what, seed, show=show)
        run.reduce(skipped, share)
        try:
            run.execute()
        except FAILURES as failure:
            return failure
        return None

    return attempt, run_of(what, seed).settings.kind_names
