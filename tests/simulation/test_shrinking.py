"""A failing seed shown with as few kinds of faults as it takes."""

import pytest

from quorate.raft import leadership
from tests.simulator.seeds import Subject
from tests.simulator.shrinking import shrink

FIRST_SEED, SEEDS_MAX = 41, 20


def plant(patch: pytest.MonkeyPatch) -> None:
    """A leader is announced before it has applied what older epochs committed: an election shows it."""

    def announce(self: leadership.Announcer) -> None:
        role = self._role
        self._view.set(role.role, leadership.Leadership(role.epoch, role.leader))

    patch.setattr(leadership.Announcer, "_announce", announce)


@pytest.mark.slow
def test_a_failing_seed_is_told_without_the_faults_that_it_does_not_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS_MAX):
        said: list[str] = []
        if shrink(seed, what=Subject.QUORUM, say=said.append) and any("and without" in line for line in said):
            break
    else:
        pytest.fail(f"none of {SEEDS_MAX} seeds fails and needs less than it draws")
    dropped = {line.removeprefix("  and without ") for line in said if "and without" in line}
    drawn = set(said[0].partition(" fails with ")[2].split(", "))
    needed = next(line for line in said if line.startswith("needed: ")).removeprefix("needed: ")
    assert dropped <= drawn
    assert not dropped & set(needed.split(", "))
    happened = {line.split(" faults ")[1] for line in said if " faults " in line}
    assert not happened & dropped, "what is not needed does not happen in the scenario"
    assert said[-1].startswith("SafetyViolation: LeaderIsCurrent")


@pytest.mark.slow
def test_there_is_nothing_to_shrink_in_a_seed_that_passes() -> None:
    said: list[str] = []
    assert not shrink(2, what=Subject.BROKER, say=said.append)
    assert said == ["seed 2 --broker passes: there is nothing to shrink"]
