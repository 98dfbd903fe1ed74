"""Whole quorums from seeds: the shipped code under random faults, and the simulation's own invariants."""

import pytest
from fresh_processes import same_in_two_processes

from tests.simulator.seeds import quorum_run, run_seeds

SEEDS = 30
PARTS = 10


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_seed_keeps_the_invariants_and_recovers(part: int) -> None:
    said: list[str] = []
    failed = run_seeds(range(1 + part, 1 + SEEDS, PARTS), verbose=False, say=said.append)
    assert not failed, "\n".join(said)


@pytest.mark.slow
def test_a_seed_has_the_same_trace_in_two_fresh_processes() -> None:
    program = (
        "from tests.simulator.seeds import quorum_run\n"
        "for seed in (1, 6, 10): print(quorum_run(seed).execute())"
    )
    assert "digest=" in same_in_two_processes(program)


@pytest.mark.slow
def test_seeds_differ() -> None:
    assert quorum_run(1).execute().digest != quorum_run(2).execute().digest


def test_a_failing_seed_says_how_to_run_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from quorate.log import Log

    async def sync(self: Log) -> int:
        return self.end_offset

    monkeypatch.setattr(Log, "sync", sync)
    said: list[str] = []
    assert run_seeds([3], verbose=False, say=said.append) == [3]
    assert said[0].startswith("seed 3 --quorum")
    assert "python -m tests.simulator --quorum --seed 3 --verbose" in said[-1]
