"""Operators at work in every run: seeds in which planted faults of administration must show."""

import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode

from quorate.broker.metadata.metadata_records import BrokerRegistrationChange, ConfigType
from quorate.broker.metadata.states import ConfigResource
from quorate.simulation.violations import SafetyViolation
from tests.simulator.administration.admin_history import AdminHistory, Answer
from tests.simulator.administration.intents import alter_config, unregister_broker
from tests.simulator.brokers.broker_clients import BrokerClientSettings
from tests.simulator.brokers.broker_run import BrokerRun, BrokerRunResult
from tests.simulator.brokers.metadata_invariants import MetadataChangesAreLegal
from tests.simulator.brokers.operating.operator_client import OperatorClient
from tests.simulator.brokers.operating.operators import OperatorSettings
from tests.simulator.seeds import broker_run

SEEDS = (*range(19, 40), 45)
"""Each planted fault of administration shows in at least one of them."""
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


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_answers_to_operators_are_true(part: int) -> None:
    seeds = SEEDS[part::PARTS]
    assert sum(executed(seed).calls for seed in seeds) > 20 * len(seeds)


def test_a_run_reads_what_the_cluster_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """For long nobody called the rule about legal changes, so nothing could break it."""
    honest = MetadataChangesAreLegal.take

    def take(self: MetadataChangesAreLegal, record, **where) -> None:
        if isinstance(record, BrokerRegistrationChange):
            raise SafetyViolation("a broker was unfenced")
        honest(self, record, **where)

    monkeypatch.setattr(MetadataChangesAreLegal, "take", take)
    with pytest.raises(SafetyViolation, match="MetadataChangesAreLegal: a broker was unfenced"):
        operated(SEEDS[0]).execute()


def test_a_missing_registration_ends_its_removal_and_no_change_of_its_settings() -> None:
    """A change whose first attempt was lost, and whose second came after the removal, was taken for done
    (seeds 9316998 and 9318329)."""
    budget: Any = SimpleNamespace(is_one_unregistered=True)
    cluster: Any = None
    history = AdminHistory(owned=lambda name: True)
    operator = OperatorClient(cluster, history, 1, random.Random(1), trio.Event(), budget)
    resource = ConfigResource(ConfigType.BROKER, "3")
    code = ErrorCode.broker_id_not_registered
    assert operator._answer_of(unregister_broker(3), code) is Answer.ALREADY
    changed = alter_config(resource, {"producer.id.expiration.ms": "1"})
    assert operator._answer_of(changed, code) is Answer.UNKNOWN
