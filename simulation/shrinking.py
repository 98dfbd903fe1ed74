"""A failing seed, told with as few kinds of faults as it takes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from quorate.simulation.faults import Fault
from quorate.simulation.seeds import FAILURES, Subject, broker_run, quorum_run

_NOISE: Final = (" bytes ", " synced ", "log debug ")
"""Of these lines a story has no need."""

Attempt = Callable[[frozenset[Fault], Callable[[str], None] | None], Exception | None]
"""Run without these faults; what went wrong."""


def shrink(seed: int, *, what: Subject, say: Callable[[str], None]) -> bool:
    """Whether the seed fails. If so, say which faults it takes, and what happens then, event by event."""
    attempt, kinds = _quorum(seed) if what is Subject.QUORUM else _broker(seed)
    failure = attempt(frozenset(), None)
    if failure is None:
        say(f"seed {seed} --{what.value} passes: there is nothing to shrink")
        return False
    say(f"seed {seed} --{what.value} fails with {', '.join(kind.value for kind in kinds)}")
    skipped: frozenset[Fault] = frozenset()
    for kind in kinds:
        without = attempt(skipped | {kind}, None)
        if without is not None and _promise(without) == _promise(failure):
            skipped |= {kind}
            say(f"  and without {kind.value}")
    needed = [kind.value for kind in kinds if kind not in skipped]
    say(f"needed: {', '.join(needed) or 'no faults at all'}")

    def tell(line: str) -> None:
        if not any(noise in line for noise in _NOISE):
            say(f"  {line}")

    last = attempt(skipped, tell)
    say(f"{type(last).__name__}: {last}")
    return True


def _quorum(seed: int) -> tuple[Attempt, Sequence[Fault]]:
    def attempt(skipped: frozenset[Fault], show: Callable[[str], None] | None) -> Exception | None:
        run = quorum_run(seed, show=show)
        run.settings = replace(run.settings, faults=replace(run.settings.faults, skipped=skipped))
        return _failure(run.execute)

    return attempt, quorum_run(seed).settings.faults.kinds


def _broker(seed: int) -> tuple[Attempt, Sequence[Fault]]:
    def attempt(skipped: frozenset[Fault], show: Callable[[str], None] | None) -> Exception | None:
        run = broker_run(seed, show=show)
        run.settings = replace(run.settings, faults=replace(run.settings.faults, skipped=skipped))
        return _failure(run.execute)

    return attempt, broker_run(seed).settings.faults.kinds


def _promise(failure: Exception) -> str:
    """Which one was broken, without the details."""
    return f"{type(failure).__name__}: {str(failure).partition(':')[0]}"


def _failure(execute: Callable[[], object]) -> Exception | None:
    try:
        execute()
    except FAILURES as failure:
        return failure
    return None
