"""Swarms of cores from seeds: the protocol under all that can happen to it, and what such swarms find."""

import random
import subprocess
import sys
from collections.abc import Callable

import pytest
from fresh_processes import same_in_two_processes

from quorate.raft.core.core import Core
from quorate.raft.core.effects import Effect, Persist, Send
from quorate.raft.core.events import Durable, Event
from quorate.raft.core.messages import Request
from quorate.raft.core.roles.read_index import ReadIndexRounds
from quorate.raft.core.roles.voter_changes import VoterChanges
from quorate.raft.core.shared_state import NodeState
from quorate.simulation.violations import LivenessViolation, SafetyViolation
from quorate.types import Offset
from tests.simulator import seeds
from tests.simulator.core.core_node import CoreNode
from tests.simulator.core.core_run import CoreRun
from tests.simulator.core.core_swarm import CoreSwarm
from tests.simulator.core.core_swarm_settings import CoreFault, CoreSwarmSettings
from tests.simulator.seeds import Subject, run_many, run_quietly
from tests.simulator.shrinking import shrink

SEEDS = 200
PARTS = 4


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_seed_keeps_the_invariants_and_recovers(part: int) -> None:
    totals = run_quietly(Subject.CORE, range(1 + part, 1 + SEEDS, PARTS))
    assert not totals.failures
    assert totals.events > 500 * totals.runs
    assert totals.committed > 10 * totals.runs


def test_an_answer_to_an_earlier_process_matches_no_request_of_a_later_one() -> None:
    swarm = CoreSwarm(CoreSwarmSettings(voters=3), random.Random(1))
    asked: list[set[int]] = []

    def note(_: CoreNode, effect: Effect) -> None:
        if isinstance(effect, Send) and isinstance(effect.message, Request):
            asked[-1].add(effect.message.correlation)

    swarm.on_step_effect.append(note)
    for _ in range(2):
        asked.append(set())
        swarm.run_steps(swarm.steps + 100)
        for node in swarm.nodes:
            swarm.crash(node)
            swarm.start(node)
    earlier, later = asked
    assert earlier
    assert later
    assert not earlier & later


@pytest.mark.slow
def test_every_kind_of_trouble_is_drawn_and_happens() -> None:
    totals = run_quietly(Subject.CORE, range(1, 41))
    drawn = {kind for seed in range(1, 41) for kind in seeds.core_run(seed).settings.kinds}
    assert drawn == set(CoreFault)
    ambient = {
        CoreFault.LOSS,
        CoreFault.DUPLICATION,
        CoreFault.REORDERING,
        CoreFault.DELAY,
        CoreFault.CLOCK_RATE,
        CoreFault.CRASH_MIDWAY,
        CoreFault.DAMAGED_SNAPSHOT,
    }
    assert {kind.value for kind in set(CoreFault) - ambient} <= set(totals.faults)


@pytest.mark.slow
def test_a_seed_has_the_same_run_in_two_fresh_processes() -> None:
    program = (
        "from tests.simulator.seeds import core_run\nfor seed in range(1, 9): print(core_run(seed).execute())"
    )
    assert "digest=" in same_in_two_processes(program)


def test_a_run_of_cores_loads_neither_brokers_nor_an_event_loop() -> None:
    """Swarms start in processes of their own by the dozen."""
    program = (
        "import sys\n"
        "from tests.simulator.seeds import core_run\n"
        "core_run(1).execute()\n"
        "print([name for name in ('kio', 'trio', 'quorate.broker', 'quorate.log') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.slow
def test_many_seeds_are_counted_and_their_faults_by_kind() -> None:
    said: list[str] = []
    totals = run_many(range(1, 9), what=Subject.CORE, jobs=2, say=said.append)
    assert totals.runs == 8
    assert said[-3].startswith("--core seeds 1 to 8: 8 runs, 0 failed: ")
    alone = run_quietly(Subject.CORE, range(1, 9))
    assert alone.faults, "they break something"
    counts = ", ".join(f"{kind} {alone.faults[kind]:,}" for kind in sorted(alone.faults))
    assert said[-2] == f"  faults: {counts}", "whichever process ran which seed"
    assert alone.seen, "its clients do something"
    assert said[-1] == f"  {alone.seen_by_name}"


# What the swarm is there to find


class ForgetsItsVote(Core):
    """Says a vote that it has not stored."""

    def step(self, event: Event) -> tuple[Effect, ...]:
        effects = super().step(event)
        return tuple(effect for effect in effects if not isinstance(effect, Persist) or effect.state.leader)


class AcknowledgesBeforeDurable(Core):
    """Takes an append for done when it has asked for it."""

    def step(self, event: Event) -> tuple[Effect, ...]:
        effects = super().step(event)
        if self.durable_end_offset < self.log_end_offset:
            effects += super().step(Durable(self.generation, self.log_end_offset))
        return effects


class NeverStandsAgain(Core):
    """Loses interest once it has failed to be elected."""

    def step(self, event: Event) -> tuple[Effect, ...]:
        effects = super().step(event)
        return () if self.epoch > 2 else effects


@pytest.mark.parametrize(
    ("core", "invariant"),
    [
        (ForgetsItsVote, "stored"),
        (AcknowledgesBeforeDurable, "durable"),
        (NeverStandsAgain, "stored|ValidRoles|EventuallyLeaderElected"),
    ],
)
def test_a_broken_core_is_found(core: type[Core], invariant: str) -> None:
    for seed in range(1, 30):
        run = seeds.core_run(seed)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run, "_core", core)
            try:
                run.execute()
            except (SafetyViolation, LivenessViolation) as violation:
                if any(part in str(violation) for part in invariant.split("|")):
                    return
    pytest.fail("not found by any of 30 seeds")


def found(plant: Callable[[pytest.MonkeyPatch], None], *kinds: CoreFault) -> list[str]:
    """What swarms with these faults say of code in which a fault was planted."""
    said = []
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        for seed in range(1, 41):
            settings = CoreSwarmSettings(
                voters=3, dynamic=True, observers=1, kinds=kinds, fault_every_ms=80, read_every_ms=20
            )
            try:
                CoreRun(seed, settings).execute()
            except (SafetyViolation, LivenessViolation) as violation:
                said.append(str(violation))
    return said


@pytest.mark.slow
def test_a_read_that_asks_nobody_whether_this_node_still_leads_is_found() -> None:
    honest = ReadIndexRounds.check

    def check(self: ReadIndexRounds, node: NodeState, *, high_watermark: Offset | None) -> None:
        for voter in node.others:
            self.count_round(voter.id, self.round)
        honest(self, node, high_watermark=high_watermark)

    said = found(
        lambda patch: patch.setattr(ReadIndexRounds, "check", check), CoreFault.PARTITION, CoreFault.PAUSE
    )
    assert any("a read sees" in line or "no order" in line for line in said)


@pytest.mark.slow
def test_two_voter_changes_at_once_are_found() -> None:
    """Each may have a majority of its own set (the bug of Raft's first single-server algorithm, 2015)."""
    said = found(
        lambda patch: patch.setattr(VoterChanges, "_refusal_now", lambda *_, **__: None),
        CoreFault.VOTERS,
        CoreFault.PARTITION,
    )
    assert any("one leader in epoch" in line or "LeaderCompleteness" in line for line in said)


def test_a_failing_seed_is_told_with_few_faults_and_in_little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = seeds.core_run

    def broken(seed: int, *, show: seeds.Show | None = None) -> CoreRun:
        run = honest(seed, show=show)
        monkeypatch.setattr(run, "_core", ForgetsItsVote)
        return run

    monkeypatch.setattr("tests.simulator.seeds.core_run", broken)
    said: list[str] = []
    assert shrink(3, what=Subject.CORE, say=said.append)
    assert any(line.startswith("  and without ") for line in said)
    assert any("of the time" in line for line in said)
    assert any(" starts" in line for line in said)
    assert said[-1].startswith("SafetyViolation: ")
