"""`quorate features` against a cluster of one."""

import pytest

from quorate.cli.console.cli_errors import ExitCode
from tests.cli.command import Quorate


def test_features_are_described_with_the_levels_of_broker_and_cluster(ask: Quorate) -> None:
    shown = ask.output("features", "describe")
    assert "metadata.version" in shown
    assert "1 to 1" in shown
    told = ask.json("features", "describe")
    levels = {each["name"]: each["finalized"] for each in told["features"]}
    assert levels["metadata.version"] == 1
    assert levels["group.version"] == 0
    assert told["epoch"] > 0


def test_a_quorums_voters_move_into_the_log_and_stay_there(ask: Quorate) -> None:
    upgrade = ("features", "upgrade", "--feature", "kraft.version=1")
    assert ask.output(*upgrade, "--dry-run") == "kraft.version can be set to 1\n"
    assert ask.output(*upgrade) == "kraft.version is set to 1\n"
    back = ask.error("features", "downgrade", "--feature", "kraft.version=0", "--unsafe")
    assert "the voters can't leave the log again" in back


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("metadata.version",), "'metadata.version' is not of the form name=level"),
        (("metadata.version=x",), "is not of the form name=level"),
        (("metadata.version=1", "metadata.version=1"), "metadata.version is given twice"),
    ],
)
def test_a_level_that_is_none_is_refused_before_anybody_is_asked(
    quorate: Quorate, words: tuple[str, ...], why: str
) -> None:
    options = [part for word in words for part in ("--feature", word)]
    told = quorate.at("127.0.0.1:1").error("features", "upgrade", *options, code=ExitCode.USAGE)
    assert why in told


def test_a_refused_level_names_who_refuses_it(ask: Quorate) -> None:
    told = ask.error("features", "upgrade", "--feature", "metadata.version=9")
    assert "this controller supports levels 1 to 1 (inclusive)" in told
