"""Read leases under all that can happen to a swarm of cores: no read is stale, and no lease is shared.

Beside the faults of a seed, leaders are suspected: they sleep or are cut off, and all the others find their
connections to them broken, or restart. Without leases that costs a leader its place within 100 ms.
"""

import random
from collections.abc import Callable

import pytest

from quorate.raft.core import request_handlers
from quorate.raft.core.events import ReadIndex, Unreachable
from quorate.raft.core.messages import VoteRequest
from quorate.raft.core.role_holder import RoleHolder
from quorate.raft.core.roles import leader as leader_role
from quorate.raft.core.roles import read_lease
from quorate.raft.core.roles.leader import Leader
from quorate.raft.core.roles.read_index import ReadIndexRounds
from quorate.raft.core.roles.tracker import Replicas
from quorate.raft.core.shared_state import NodeState
from quorate.simulation.violations import LivenessViolation, SafetyViolation
from quorate.types import NodeId, Offset
from tests.simulator.core.core_run import CoreRun, CoreRunResult
from tests.simulator.core.core_swarm import CoreSwarm
from tests.simulator.core.core_swarm_settings import CoreFault, CoreSwarmSettings

SEEDS = 60
PARTS = 4
SUSPECTED_EVERY_MS = 700


class LeasedRun(CoreRun):
    """A run whose leaders are suspected while they may have a lease."""

    def _phases(self, swarm: CoreSwarm) -> CoreRunResult:
        self._suspect_soon(swarm)
        return super()._phases(swarm)

    def _suspect_soon(self, swarm: CoreSwarm) -> None:
        swarm.plan(int(swarm.random.expovariate(1 / SUSPECTED_EVERY_MS)), self._suspect, swarm)

    def _suspect(self, swarm: CoreSwarm) -> None:
        if swarm.settings is not self.settings:
            return  # all is healed
        self._suspect_soon(swarm)
        leader, source = swarm.leader(), swarm.random
        if leader is None or leader not in swarm.running:
            return
        others = [node for node in swarm.nodes if node != leader]
        duration_ms = source.randint(50, 2000)
        if source.random() < 0.5:
            swarm.pause(leader)
            swarm.plan(duration_ms, swarm.resume, leader)
        else:
            links = [pair for other in others for pair in ((leader, other), (other, leader))]
            for link in links:
                swarm.cuts[link] = swarm.cuts.get(link, 0) + 1
            swarm.plan(duration_ms, self._mend, swarm, links)
        restart = source.random() < 0.3
        for other in others:
            after_ms = source.randint(0, 30)
            if restart and other in swarm.running:
                swarm.plan(after_ms, swarm.crash, other)
                swarm.start_soon(other, after_ms + source.randint(1, 100))
            else:
                swarm.plan(after_ms, self._break_connection, swarm, other, leader)

    def _mend(self, swarm: CoreSwarm, links: list[tuple[NodeId, NodeId]]) -> None:
        for link in links:
            if swarm.cuts.get(link):
                swarm.cuts[link] -= 1

    def _break_connection(self, swarm: CoreSwarm, node: NodeId, leader: NodeId) -> None:
        swarm._give(node, swarm.nodes[node].incarnation, Unreachable(leader))


def leased_run(seed: int) -> CoreRun:
    """The run of a seed with leases: its cluster and faults, with clocks within the bound."""
    source = random.Random(f"core-settings/{seed}")
    return LeasedRun(seed, CoreSwarmSettings.draw(source).with_leases(source))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_seed_with_leases_keeps_the_invariants_and_recovers(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_lease: list[int] = []
    honest = ReadIndexRounds.confirm_all

    def confirm_all(self: ReadIndexRounds, node: NodeState, *, high_watermark: Offset) -> None:
        by_lease.append(node.id)
        honest(self, node, high_watermark=high_watermark)

    monkeypatch.setattr(ReadIndexRounds, "confirm_all", confirm_all)
    for seed in range(1 + part, 1 + SEEDS, PARTS):
        leased_run(seed).execute()
    assert len(by_lease) > SEEDS / PARTS


# What these seeds are there to find


def the_bound_on_clocks_is_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(read_lease, "LEASE_SHARE", (1, 1))


def a_promise_is_forgotten_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NodeState, "keep_stored_promise", lambda _: None)


def a_promise_is_not_stored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NodeState, "_store_promise", lambda *_: None)


def a_vote_is_given_within_a_promise(patch: pytest.MonkeyPatch) -> None:
    honest = request_handlers.answer_vote

    def answer_vote(roles: RoleHolder, request: VoteRequest) -> None:
        promised, roles.node.promised = roles.node.promised, False
        honest(roles, request)
        roles.node.promised = promised

    patch.setattr("quorate.raft.core.core.answer_vote", answer_vote)


def a_voter_stands_within_its_promise(patch: pytest.MonkeyPatch) -> None:
    honest = NodeState._arm_promise

    def arm_promise(self: NodeState, promise_ms: int) -> None:
        honest(self, promise_ms)
        self.promised = False

    patch.setattr(NodeState, "_arm_promise", arm_promise)


def a_removed_voter_still_counts(patch: pytest.MonkeyPatch) -> None:
    def holds_lease(node: NodeState, replicas: Replicas, *, now_ms: int) -> bool:
        needed = node.voters.majority - (1 if node.is_voter else 0)
        promised = sorted((each.promised_until_ms for each in replicas), reverse=True)
        return 0 < needed <= len(promised) and now_ms < promised[needed - 1]

    patch.setattr(leader_role, "holds_lease", holds_lease)


def a_lease_is_used_before_the_first_commit_of_the_epoch(patch: pytest.MonkeyPatch) -> None:
    honest = Leader.on_read_index

    def on_read_index(self: Leader, node: NodeState, event: ReadIndex) -> None:
        known = self.high_watermark
        self.high_watermark = node.high_watermark if known is None else known
        honest(self, node, event)
        self.high_watermark = known

    patch.setattr(Leader, "on_read_index", on_read_index)


def any_pre_vote_ends_a_promise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(request_handlers, "_is_freed_by", lambda _, request: request.pre_vote)


CLOCKS = (CoreFault.CLOCK_RATE,)
CRASHES = (CoreFault.CLOCK_RATE, CoreFault.CRASH)
VOTERS = (CoreFault.CLOCK_RATE, CoreFault.CRASH, CoreFault.VOTERS)


@pytest.mark.costly
@pytest.mark.parametrize(
    ("plant", "kinds"),
    [
        (the_bound_on_clocks_is_ignored, CLOCKS),
        (a_promise_is_forgotten_at_a_restart, CRASHES),
        (a_promise_is_not_stored, CRASHES),
        (a_vote_is_given_within_a_promise, CRASHES),
        (a_voter_stands_within_its_promise, CRASHES),
        (a_removed_voter_still_counts, VOTERS),
        (a_lease_is_used_before_the_first_commit_of_the_epoch, VOTERS),
        (any_pre_vote_ends_a_promise, CRASHES),
    ],
)
def test_a_broken_rule_of_leases_is_found(
    plant: Callable[[pytest.MonkeyPatch], None],
    kinds: tuple[CoreFault, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    for seed in range(1, 60):
        settings = CoreSwarmSettings(
            voters=3,
            dynamic=True,
            observers=1,
            kinds=kinds,
            fault_every_ms=300,
            latency_ms_max=30 if kinds is VOTERS else 5,
            read_every_ms=20,
            events=800,
        )
        try:
            LeasedRun(seed, settings.with_leases(random.Random(seed))).execute()
        except SafetyViolation as violation:
            said = str(violation)
            assert "a read lease is exclusive" in said or "a read sees" in said or "no order" in said
            return
        except LivenessViolation:
            continue
    pytest.fail("not found by any of these seeds")
