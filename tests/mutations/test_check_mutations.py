"""Every check of who may do what is found in the code, and a few are taken out of it. The rest:
`scripts/mutate_checks.py`."""

import ast
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import mutate
import mutate_checks

HANDFUL = (
    "broker/apis/produce.py _refused: ",
    "broker/controller/performer.py perform: permit.check()",
    "raft/transport/quorum_server.py _handle_frame: check_claims(",
)


@pytest.mark.slow
def test_checks_of_all_kinds_are_found_and_can_be_taken_out() -> None:
    found = list(mutate_checks.checks())
    assert len(found) >= 65
    for check in found:
        assert ast.dump(ast.parse(check.without)) != ast.dump(
            ast.parse((mutate.PACKAGE / check.file).read_text())
        ), check.name
    names = {each.name for each in found}
    assert mutate_checks.EQUIVALENT.keys() <= names
    for beginning in HANDFUL:
        assert sum(each.startswith(beginning) for each in names) == 1, beginning


def test_every_place_has_modules_and_tests() -> None:
    for place in mutate_checks.PLACES:
        assert list(mutate.PACKAGE.glob(place.pattern)), place.pattern
        assert all((mutate.ROOT / each).exists() for each in place.tests), place.tests


@pytest.mark.slow
@pytest.mark.parametrize("beginning", HANDFUL)
def test_a_check_that_is_left_out_is_found(beginning: str, tmp_path: Path) -> None:
    (check,) = [each for each in mutate_checks.checks() if each.name.startswith(beginning)]
    mutate.plant(None, tmp_path)
    assert mutate_checks.failure_without(check, tmp_path)
