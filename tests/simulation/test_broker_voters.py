"""Broker clusters whose voters are in the log, and are removed and added while clients are busy."""

from dataclasses import replace

import pytest
from planted import shown_by_a_seed

from quorate.raft.core.events import Propose
from quorate.raft.driver.driver import Driver
from quorate.simulation.faults.faults import Fault, FaultSettings
from quorate.simulation.faults.voter_faults import VotersIn
from tests.simulator.brokers.broker_clients import BrokerClientSettings
from tests.simulator.brokers.broker_run import BrokerRun
from tests.simulator.seeds import broker_run

SEEDS_MAX = 30


def with_changing_voters(seed: int, *kinds: Fault, voters_in: VotersIn, lines: list[str]) -> BrokerRun:
    """Topics are created and deleted meanwhile: they make the controller append."""
    run = broker_run(seed, show=lines.append)
    run.settings = replace(
        run.settings,
        cluster=replace(run.settings.cluster, min_isr=2, voters_in=voters_in),
        clients=BrokerClientSettings(think_max_s=0.2, members=1, churn=True),
        faults=FaultSettings(kinds=(Fault.VOTERS, *kinds), mean_interval_s=0.5, mean_duration_s=1.0),
        faults_s=8.0,
    )
    return run


def changes_done(lines: list[str]) -> tuple[int, int]:
    """How many voters were removed and added."""
    done = [line for line in lines if " operator " in line and line.endswith(": done")]
    return sum("remove" in line for line in done), sum(" add " in line for line in done)


@pytest.mark.slow
@pytest.mark.parametrize("voters_in", (VotersIn.ADOPTED, VotersIn.FORMATTED))
@pytest.mark.parametrize("kinds", ((), (Fault.CRASH, Fault.PARTITION, Fault.POWER_LOSS)))
def test_voters_go_and_come_back_while_clients_are_served(
    kinds: tuple[Fault, ...], voters_in: VotersIn
) -> None:
    lines: list[str] = []
    result = with_changing_voters(4, *kinds, voters_in=voters_in, lines=lines).execute()
    removed, added = changes_done(lines)
    # A removal of which nobody knows how it ended may have been carried out.
    unknown = sum(" operator remove" in line and "OutcomeUnknownError" in line for line in lines)
    assert removed <= added <= removed + unknown, "every broker votes again at the end"
    assert removed >= 1
    assert result.acknowledged > 20
    assert result.topics >= 3


def test_half_of_the_seeds_have_their_voters_in_the_log_and_change_them() -> None:
    settings = [broker_run(seed).settings for seed in range(1, 101)]
    changing = [each for each in settings if Fault.VOTERS in each.faults.kinds]
    assert 30 <= len(changing) <= 70
    ways = {each.cluster.voters_in for each in changing}
    assert ways == {VotersIn.ADOPTED, VotersIn.FORMATTED}
    static = [each for each in settings if each not in changing]
    assert {each.cluster.voters_in for each in static} == {VotersIn.CONFIGURATION}


def a_voter_set_goes_before_appends_that_wait(self: Driver) -> None:
    """Of `Driver._step_all`: what `next_offset` promised them is not theirs then."""
    while self._carry_out_all():
        if self._events:
            self._effects.extend(self.core.step(self._events.popleft()))
        elif self.appends.has_waiting and not self.requests.holds_appends_back:
            number, proposal = self.appends.next_proposal()
            self._effects.extend(self.core.step(Propose(number, proposal.count)))
        else:
            return


@pytest.mark.slow
def test_a_seed_shows_that_a_voter_set_takes_the_offset_of_an_append() -> None:
    shown_by_a_seed(
        lambda patch: patch.setattr(Driver, "_step_all", a_voter_set_goes_before_appends_that_wait),
        lambda seed: with_changing_voters(seed, voters_in=VotersIn.FORMATTED, lines=[]).execute(),
        expected="went to another offset",
        first=12,
        seeds_max=SEEDS_MAX,
    )
