"""A failing seed, shown with as few kinds of faults, and in as little time, as it takes."""

from collections.abc import Callable
from typing import Final, Protocol

from tests.simulator.seeds import FAILURES, Show, Subject, run_of

_NOISE: Final = (" bytes ", " synced ", "log debug ")
"""The lines that a trace does not need."""
_SHARES: Final = (0.1, 0.25, 0.5, 0.75)
"""The shares of the time under faults, tried in this order."""


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
    invariant = _invariant(failure)

    def still_fails(skipped: frozenset[str], share: float) -> bool:
        found = attempt(skipped, share)
        return found is not None and _invariant(found) == invariant

    skipped: frozenset[str] = frozenset()
    for kind in kinds:
        if still_fails(skipped | {kind}, 1.0):
            skipped |= {kind}
            say(f"  and without {kind}")
    share = next((share for share in _SHARES if still_fails(skipped, share)), 1.0)
    if share < 1.0:
        say(f"  and in {share:.0%} of the time")
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


def _invariant(failure: Exception) -> str:
    """Return the broken invariant, without the details."""
    return f"{type(failure).__name__}: {str(failure).partition(':')[0]}"
