"""Operators at work in every run: seeds in which planted faults of administration must show."""

from dataclasses import replace

import pytest

from quorate.broker.metadata import BrokerRegistrationChange
from quorate.simulation.brokers.broker_clients import BrokerClientSettings
from quorate.simulation.brokers.broker_run import BrokerRun, BrokerRunResult
from quorate.simulation.brokers.metadata_invariants import MetadataChangesAreLegal
from quorate.simulation.brokers.operating.operators import OperatorSettings
from quorate.simulation.seeds import broker_run
from quorate.simulation.violations import SafetyViolation

FIRST = 20
SEEDS = 20
PARTS = 4


def operated(seed: int) -> BrokerRun:
    """Busy operators, and hardly anybody else."""
    run = broker_run(seed)
    run.settings = replace(
        run.settings,
        clients=BrokerClientSettings(idempotent=0, plain=0, consumers=0),
        operators=OperatorSettings(count=3, pause_max_s=0.3),
        reassigns=False,
    )
    return run


def executed(seed: int) -> BrokerRunResult:
    try:
        return operated(seed).execute()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("part", range(PARTS))
def test_what_operators_were_answered_is_so(part: int) -> None:
    calls = sum(executed(seed).calls for seed in range(FIRST + part, FIRST + SEEDS, PARTS))
    assert calls > 20 * SEEDS / PARTS


def test_a_run_reads_what_the_cluster_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """For long nobody called the rule about legal changes, so nothing could break it."""
    honest = MetadataChangesAreLegal.take

    def take(self: MetadataChangesAreLegal, record, **where) -> None:
        if isinstance(record, BrokerRegistrationChange):
            raise SafetyViolation("a broker was unfenced")
        honest(self, record, **where)

    monkeypatch.setattr(MetadataChangesAreLegal, "take", take)
    with pytest.raises(SafetyViolation, match="MetadataChangesAreLegal: a broker was unfenced"):
        operated(FIRST).execute()
