"""Whole broker clusters from seeds: producers and consumers under random faults within the budget."""

import pytest
from fresh_processes import same_in_two_processes

from tests.simulator.seeds import Subject, run_seeds

SEEDS = 16
PARTS = 8


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_seed_keeps_what_clients_were_told(part: int) -> None:
    said: list[str] = []
    failed = run_seeds(range(1 + part, 1 + SEEDS, PARTS), what=Subject.BROKER, verbose=False, say=said.append)
    assert not failed, "\n".join(said)


@pytest.mark.slow
def test_a_broker_seed_has_the_same_trace_in_two_fresh_processes() -> None:
    program = "from tests.simulator.seeds import broker_run; print(broker_run(3).execute())"
    assert "digest=" in same_in_two_processes(program)
