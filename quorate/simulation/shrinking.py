"""The search for the fewest faults with which a seed still fails."""

from collections.abc import Callable, Sequence
from typing import Final

_SHARES: Final = (0.1, 0.25, 0.5, 0.75, 1.0)
"""The shares of the time under faults, tried in this order: a short run costs little."""


def shrink_faults(
    still_fails: Callable[[frozenset[str], float], bool],
    kinds: Sequence[str],
    *,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[frozenset[str], float]:
    """Return the kinds that may be skipped, all if the seed fails without faults, and the share of the time
    that is enough. `still_fails` runs the seed so. `say` hears of each step."""

    def least(skipped: frozenset[str]) -> float | None:
        return next((share for share in _SHARES if still_fails(skipped, share)), None)

    every = frozenset(kinds)
    found = least(every)
    skipped = every if found is not None else frozenset()
    share = found or least(skipped) or 1.0
    if share < 1.0:
        say(f"  and in {share:.0%} of the time")
    if skipped:
        say(f"  and without {', '.join(kinds)}")
    for kind in kinds:
        if kind not in skipped and still_fails(skipped | {kind}, share):
            skipped |= {kind}
            say(f"  and without {kind}")
    return skipped, share


def invariant_of(failure: Exception) -> str:
    """Return the broken invariant, without the details."""
    return f"{type(failure).__name__}: {str(failure).partition(':')[0]}"
