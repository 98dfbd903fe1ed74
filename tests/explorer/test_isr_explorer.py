"""The explorer of the ISR protocol finds what is wrong, and nothing in the code that ships."""

from dataclasses import replace

import pytest
import trio

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.replication.replica.partition_replica import PartitionReplica
from quorate.broker.replication.replica.roles import IsrProposal, IsrState
from tests.simulator.explorer import counterexample
from tests.simulator.explorer.exploration import Report, Subject, Task, run
from tests.simulator.explorer.isr_model.explored_broker import Process
from tests.simulator.explorer.isr_model.isr_bounds import ISR_SUITES, Budget, IsrBound
from tests.simulator.explorer.isr_model.isr_model import IsrModel
from tests.simulator.explorer.search import explore

SMALL = ISR_SUITES["small"]


def run_small(name: str) -> Report:
    return run(Task(subject=Subject.ISR, suite="small", name=name))


@pytest.mark.costly
@pytest.mark.parametrize("name", SMALL)
def test_the_isr_protocol_keeps_its_invariants_in_every_state_of_the_small_bound(name: str) -> None:
    report = run_small(name)
    assert not report.counterexample, "\n".join(report.counterexample)
    assert report.complete


@pytest.mark.slow
def test_exploring_the_isr_protocol_again_finds_the_same_states() -> None:
    first, second = (run_small("shrink") for _ in range(2))
    assert (first.states, first.transitions, first.depth) == (second.states, second.transitions, second.depth)


def test_every_budget_is_used_by_a_suite() -> None:
    for budget in Budget:
        used = [bound.budgets[budget] for bound in ISR_SUITES["ci"].values()]
        assert any(used), f"no exploration of the ci bound has {budget.name}"


def test_a_member_that_does_not_bind_yet_is_found_and_told_and_its_path_can_be_gone_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The high watermark passes a broker that is being added to the ISR."""

    def propose(self: IsrState, proposal: IsrProposal) -> None:
        self.pending = proposal
        self.maximal = frozenset(self.committed)

    monkeypatch.setattr(IsrState, "propose", propose)
    bound = SMALL["join"]
    model = IsrModel(bound)
    violation = explore(model).violation
    assert violation is not None
    assert "who is in the ISR or the ELR has every committed record: broker 2" in violation.invariant
    lines = list(counterexample.lines_of(model, violation))
    assert lines[0].startswith("BROKEN: ")
    assert len(violation.path) < 20
    assert any("broker 2 fetches" in line for line in lines)
    again = IsrModel(bound)
    repeated = counterexample.replay(again, counterexample.path_of(model, violation))
    assert repeated is not None
    assert list(counterexample.lines_of(again, repeated)) == lines
    with pytest.raises(ValueError, match="nothing called ffffff can happen after 0 steps"):
        counterexample.replay(IsrModel(bound), "ffffff")


def test_a_step_of_a_replica_that_fails_is_told_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(self: PartitionReplica) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(PartitionReplica, "scan_isr", failing)
    violation = explore(IsrModel(SMALL["shrink"])).violation
    assert violation is not None
    assert violation.invariant == "no step fails: KeyError: 'planted'"


def test_a_second_leader_in_an_epoch_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever begins an epoch takes itself for its leader."""
    begin = PartitionReplica._begin_epoch

    def planted(self: PartitionReplica, state: object, now: float) -> object:
        return begin(self, state._replace(leader=self.broker_id), now)  # type: ignore[attr-defined]

    monkeypatch.setattr(PartitionReplica, "_begin_epoch", planted)
    violation = explore(IsrModel(replace(SMALL["fence"], behind=3))).violation
    assert violation is not None
    assert "one leader in an epoch" in violation.invariant


@pytest.mark.slow
def test_an_image_is_never_changed_after_it_has_a_number() -> None:
    """What is decided from it is computed once, however many states have it."""
    model = IsrModel(SMALL["fence"])
    explore(model)
    images = model.tables.images
    for number in range(len(images)):
        assert isinstance(images[number], MetadataImage)
        assert images.number(images[number]) == number


def test_a_process_that_is_copied_is_the_same_to_the_explorer_and_changes_alone() -> None:
    model = IsrModel(IsrBound(records=1))

    async def begin() -> Process:
        process = model.tables.scene(model.begin()).machine(1).process
        assert process is not None
        return process

    process = trio.run(begin)
    before = process.key()
    twin = process.copied()
    assert twin.key() == before
    assert twin.log is not None and twin.role is not None
    twin.log.high_watermark = twin.log.end_offset + 1  # type: ignore[assignment]
    twin.role.leader_epoch = 7  # type: ignore[assignment]
    assert twin.key() != before
    assert process.key() == before
