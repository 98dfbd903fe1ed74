"""What the broker simulation must find: each test breaks a rule of the shipped code; a seed must show it.

That a broker which lost power stays in the ISR is no scenario here: its fencing takes it out, and its
registration and its unfencing each wait until it is. No single slip does it; tests/broker/controller has each
(test_pieces.py, test_brokers.py).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

import pytest
import trio
from kio.schema.errors import ErrorCode
from planted import Plant, shown_by_a_seed

from quorate.broker.controller.operations.directories import Belongings
from quorate.broker.groups.shards import Shards
from quorate.broker.replication.producing.producer_state import ProducerState
from quorate.broker.replication.replica.roles import IsrProposal, IsrState, LeaderState
from quorate.broker.replication.serving import partition_reader
from quorate.broker.replication.serving.partition_fetch import Readable, readable
from quorate.broker.replication.storage import proofs, startup_scan
from quorate.quorum_state.election_state import QuorumStateFile
from quorate.runtime.disk import read_file
from quorate.simulation.faults.faults import Fault, FaultSettings
from quorate.types import ElectionState
from tests.simulator.brokers.broker_clients import TOPIC, BrokerClientSettings
from tests.simulator.brokers.broker_run import BrokerRun
from tests.simulator.brokers.broker_scenario import BrokerScene, run_scenario
from tests.simulator.seeds import broker_run

SEEDS_MAX = 60
SCENARIO_SEEDS_MAX = 16


def a_smaller_isr_is_used_before_it_is_committed(patch: pytest.MonkeyPatch) -> None:
    def propose(self: IsrState, proposal: IsrProposal) -> None:
        self.pending = proposal
        self.maximal = frozenset(proposal.isr)

    # The replica's own check finds this at once. Here clients have to notice it.
    patch.setattr(LeaderState, "validate", lambda self, *, log_end_offset: None)
    patch.setattr(IsrState, "propose", propose)


def a_broker_that_lost_power_stays_eligible(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Belongings, "lost", lambda self, directory: False)
    patch.setattr(Belongings, "complete", True)


def a_broker_does_not_ask_whether_its_host_has_booted_since(patch: pytest.MonkeyPatch) -> None:
    def load(disk, log_directory: str, *, boot_id: str) -> proofs.Proof | None:
        try:
            fields = proofs._parsed(read_file(disk, f"{log_directory}/{proofs.PAGE_CACHE}"))
        except FileNotFoundError:
            return None
        return proofs._proof(fields)

    patch.setattr(startup_scan, "load_page_cache", load)


def a_leader_commits_while_others_are_eligible(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderState, "under_min_isr", lambda self, min_isr: False)


def a_consumer_reads_up_to_the_log_end(patch: pytest.MonkeyPatch) -> None:
    def wrong(partition, item, **options):
        found = readable(partition, item, **options)
        return Readable(int(partition.log.end_offset), found.diverging)

    patch.setattr(partition_reader, "readable", wrong)


def a_repeated_batch_is_appended_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerState, "check", lambda self, header: None)


def an_append_is_acknowledged_by_the_leader_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeaderState, "high_watermark", lambda self, *, log_end_offset, **_: log_end_offset)


def a_vote_of_the_quorum_is_not_stored(patch: pytest.MonkeyPatch) -> None:
    """The checks of the quorum's steps watch the quorum under the brokers too."""
    honest = QuorumStateFile.store

    async def store(self: QuorumStateFile, state: ElectionState) -> None:
        if state.voted is None:
            await honest(self, state)

    patch.setattr(QuorumStateFile, "store", store)


def a_commit_of_offsets_is_acknowledged_at_once(patch: pytest.MonkeyPatch) -> None:
    honest = Shards.append

    def append(self: Shards, shard, records, done) -> None:
        honest(self, shard, records, lambda error, base_offset: None)
        done(ErrorCode.none, 1 << 60)

    patch.setattr(Shards, "append", append)


MOVES = (Fault.CRASH, Fault.PAUSE, Fault.PARTITION, Fault.POWER_LOSS)

LOSS = "lost|WhatWasRead|Sequences|elsewhere|CommittedOffsetsStay"

PLANTS: Sequence[tuple[Plant, tuple[Fault, ...], str, int]] = (
    (a_consumer_reads_up_to_the_log_end, MOVES, "WhatWasReadStays|NothingAboveTheHighWatermark", 1),
    (a_leader_commits_while_others_are_eligible, MOVES, LOSS, 25),
    (a_repeated_batch_is_appended_again, MOVES, "appended twice", 1),
    (an_append_is_acknowledged_by_the_leader_alone, MOVES, LOSS, 3),
    (a_commit_of_offsets_is_acknowledged_at_once, MOVES, "CommittedOffsetsStay", 1),
    (a_vote_of_the_quorum_is_not_stored, MOVES, "VotesAreDurable", 1),
)


def faulty(seed: int, kinds: tuple[Fault, ...]) -> BrokerRun:
    run = broker_run(seed)
    run.settings = replace(
        run.settings,
        cluster=replace(run.settings.cluster, min_isr=2),
        clients=BrokerClientSettings(think_max_s=0.1, members=2),
        faults=FaultSettings(kinds=kinds, mean_interval_s=0.7, mean_duration_s=3.0),
        faults_s=12.0,
    )
    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "kinds", "expected", "first"), PLANTS, ids=[plant.__name__ for plant, *_ in PLANTS]
)
def test_a_seed_shows_that(plant: Plant, kinds: tuple[Fault, ...], expected: str, first: int) -> None:
    shown_by_a_seed(
        plant, lambda seed: faulty(seed, kinds).execute(), expected=expected, first=first, seeds_max=SEEDS_MAX
    )


# Two that seeds meet seldom: a scenario that leads there is quicker.


async def a_leader_is_cut_off_from_the_others_for_long(scene: BrokerScene) -> None:
    """Its clients still reach it."""
    await trio.sleep(1)
    leader = scene.leader_of(0)
    others = [node.name for node in scene.cluster.nodes if node is not leader]
    scene.cluster.network.partition([leader.name], others)
    await trio.sleep(6)


async def a_follower_loses_power_and_only_it_comes_back_to_be_led(scene: BrokerScene) -> None:
    """The ISR has been too small before: the other member, cut off by then, is eligible, and the third one
    has been away for too long to be."""
    cluster, leader = scene.cluster, scene.leader_of(0)
    follower, third = [node for node in cluster.nodes if node is not leader]
    await cluster.crash(third, power_loss=False)
    await trio.sleep(4)
    assert third.id not in cluster.states(TOPIC)[0].isr
    cluster.network.partition([leader.name], [follower.name, third.name])
    await cluster.crash(follower, power_loss=True)
    cluster.start(follower)
    cluster.start(third)
    await trio.sleep(8)


Scenario = Callable[[BrokerScene], Awaitable[None]]

SCENARIOS: Sequence[tuple[Plant, Scenario, Mapping[str, str], str, int]] = (
    (
        a_smaller_isr_is_used_before_it_is_committed,
        a_leader_is_cut_off_from_the_others_for_long,
        {},
        "lost|WhatWasRead",
        1,
    ),
    (
        a_broker_that_lost_power_stays_eligible,
        a_follower_loses_power_and_only_it_comes_back_to_be_led,
        {},
        "lost|WhatWasRead|Sequences",
        1,
    ),
    (
        a_broker_does_not_ask_whether_its_host_has_booted_since,
        a_follower_loses_power_and_only_it_comes_back_to_be_led,
        {},
        "lost|WhatWasRead|Sequences",
        5,
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "scenario", "values", "expected", "first"),
    SCENARIOS,
    ids=[plant.__name__ for plant, *_ in SCENARIOS],
)
def test_a_scenario_shows_that(
    plant: Plant, scenario: Scenario, values: Mapping[str, str], expected: str, first: int
) -> None:
    clients = BrokerClientSettings(idempotent=2, plain=1, think_max_s=0.1)
    shown_by_a_seed(
        plant,
        lambda seed: run_scenario(seed, scenario, clients=clients, values=values),
        expected=expected,
        first=first,
        seeds_max=SCENARIO_SEEDS_MAX,
    )
