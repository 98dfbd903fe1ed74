"""The table of planted faults follows the code, and a handful of them is found. The rest:
`scripts/mutate.py`."""

import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import mutate  # noqa: E402
from mutate_table import MUTATIONS, Finder  # noqa: E402


def test_every_fault_of_the_table_can_be_planted() -> None:
    assert not list(mutate.problems())


def test_there_are_enough_faults_and_the_explorers_find_enough_of_them() -> None:
    assert len({each.name for each in MUTATIONS}) == len(MUTATIONS) >= 40
    for explorer in (Finder.EXPLORER, Finder.ISR_EXPLORER):
        assert sum(each.finder is explorer for each in MUTATIONS) >= 10
    assert {each.finder for each in MUTATIONS} == set(Finder)


@pytest.mark.slow
def test_the_tests_that_must_find_a_fault_can_be_collected_in_the_copy(tmp_path: Path) -> None:
    """A test that fails there before a fault is planted would find every fault, and none."""
    mutate.plant(None, tmp_path)
    assert not mutate.uncollected(tmp_path)


HANDFUL = (
    "a candidate does not store its own vote",
    "the newer epoch wins, however short its log",
    "a read passes without anybody's word",
    "a leader that nobody hears leads on",
    "a version of the future is read as if it were known",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", HANDFUL)
def test_a_planted_fault_is_found_by_its_tests(name: str) -> None:
    mutation = next(each for each in MUTATIONS if each.name == name)
    result = mutate.judge(mutation)
    assert mutation.finder in result.found_by, f"{name} was found by {result.found_by}"
