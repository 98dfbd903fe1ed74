"""Broker clusters whose brokers lose the folder with their vote in it, and join the voters again."""

from dataclasses import replace

import pytest
from planted import shown_by_a_seed

from quorate.raft.core.events import AddVoter, VoterChange
from quorate.raft.core.roles.replica_progress import ReplicaProgress
from quorate.raft.core.roles.tracker import Replicas
from quorate.raft.membership import Membership
from quorate.simulation.faults.faults import Fault, FaultSettings
from quorate.simulation.faults.voter_faults import VotersIn
from quorate.simulation.violations import LivenessViolation
from quorate.types import ReplicaKey, Voter
from tests.simulator.brokers.broker_clients import BrokerClientSettings
from tests.simulator.brokers.broker_run import BrokerRun
from tests.simulator.seeds import broker_run

SEEDS_MAX = 30
FAULTS = (Fault.LOST_DISK, Fault.CRASH, Fault.PARTITION)


def with_lost_disks(
    seed: int,
    *kinds: Fault,
    lines: list[str],
    auto_join: bool = False,
    voters_in: VotersIn = VotersIn.FORMATTED,
) -> BrokerRun:
    run = broker_run(seed, show=lines.append)
    run.settings = replace(
        run.settings,
        cluster=replace(run.settings.cluster, min_isr=2, voters_in=voters_in, auto_join=auto_join),
        clients=BrokerClientSettings(think_max_s=0.2, members=1, churn=True),
        faults=FaultSettings(kinds=(Fault.LOST_DISK, *kinds), mean_interval_s=0.7, mean_duration_s=1.0),
        faults_s=12.0,
    )
    return run


def lost_in(lines: list[str]) -> int:
    return sum(" has an empty data, " in line for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("voters_in", (VotersIn.ADOPTED, VotersIn.FORMATTED))
@pytest.mark.parametrize("auto_join", (False, True))
def test_a_broker_with_an_empty_disk_votes_again(auto_join: bool, voters_in: VotersIn) -> None:
    lines: list[str] = []
    run = with_lost_disks(6, Fault.VOTERS, lines=lines, auto_join=auto_join, voters_in=voters_in)
    result = run.execute()
    assert lost_in(lines) >= 1
    asked = [line for line in lines if "asking for a change of the voters" in line]
    assert bool(asked) == auto_join, "who joins by itself asks, and nobody else"
    assert result.acknowledged > 20


def test_seeds_draw_lost_disks_and_brokers_that_join_by_themselves() -> None:
    settings = [broker_run(seed).settings for seed in range(1, 201)]
    in_the_log = [each for each in settings if each.cluster.voters_in is not VotersIn.CONFIGURATION]
    lose = [each for each in in_the_log if Fault.LOST_DISK in each.faults.kinds]
    join = [each for each in in_the_log if each.cluster.auto_join]
    assert len(in_the_log) / 3 < len(lose) < len(in_the_log)
    assert len(in_the_log) / 3 < len(join) < 2 * len(in_the_log) / 3
    others = [each for each in settings if each not in in_the_log]
    assert not any(Fault.LOST_DISK in each.faults.kinds or each.cluster.auto_join for each in others)


def a_broker_adds_itself_beside_the_vote_of_its_old_disk(self: Membership) -> VoterChange | None:
    """Of `Membership._wanted_change`: the leader refuses it for good."""
    core, endpoint = self._node.driver.core, self._config.own_endpoint
    if not core.has_dynamic_voters or endpoint is None or core.leader is None or core.is_voter:
        return None
    return AddVoter(Voter(self._node.key, endpoint))


@pytest.mark.slow
def test_a_seed_shows_that_a_broker_does_not_take_the_place_of_its_old_disk() -> None:
    shown_by_a_seed(
        lambda patch: patch.setattr(
            Membership, "_wanted_change", a_broker_adds_itself_beside_the_vote_of_its_old_disk
        ),
        lambda seed: with_lost_disks(seed, *FAULTS, lines=[], auto_join=True).execute(),
        expected="ReconfigurationNotStuck",
        violation=LivenessViolation,
        first=12,
        seeds_max=SEEDS_MAX,
    )


def an_empty_disk_acknowledges_for_the_lost_one(
    self: Replicas, key: ReplicaKey
) -> tuple[ReplicaProgress, ReplicaProgress | None]:
    """Of `Replicas.find`: who fetches under a voter's id is taken for that voter, whatever its directory."""
    follower = self.followers.get(key.id)
    return (follower, None) if follower is not None else find(self, key)


find = Replicas.find


@pytest.mark.slow
def test_a_seed_shows_that_an_empty_disk_acknowledges_for_the_lost_one() -> None:
    shown_by_a_seed(
        lambda patch: patch.setattr(Replicas, "find", an_empty_disk_acknowledges_for_the_lost_one),
        lambda seed: with_lost_disks(seed, *FAULTS, lines=[]).execute(),
        expected="CommittedIsDurableOnAMajority",
        first=5,
        seeds_max=SEEDS_MAX,
    )
