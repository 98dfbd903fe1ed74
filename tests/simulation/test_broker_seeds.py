"""Whole broker clusters from seeds: producers and consumers under random faults within the budget."""

import os
import subprocess
import sys

import pytest

from tests.simulator.seeds import Subject, run_seeds

SEEDS = 16
PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
def test_every_seed_keeps_what_clients_were_told(part: int) -> None:
    said: list[str] = []
    failed = run_seeds(range(1 + part, 1 + SEEDS, PARTS), what=Subject.BROKER, verbose=False, say=said.append)
    assert not failed, "\n".join(said)


@pytest.mark.slow
def test_a_broker_seed_has_the_same_trace_in_two_fresh_processes() -> None:
    program = "from tests.simulator.seeds import broker_run; print(broker_run(3).execute())"
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert "digest=" in outputs[0]
    assert outputs[0] == outputs[1]
