"""`quorate features` against a cluster of one."""

import json
from collections.abc import Callable

import pytest
from typer.testing import Result

from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.local_cluster import LocalCluster

Quorate = Callable[..., Result]


def test_features_are_described_with_the_levels_of_broker_and_cluster(
    quorate: Quorate, one_node: LocalCluster
) -> None:
    shown = quorate("features", "describe", "-b", one_node.bootstrap)
    assert shown.exit_code == 0, shown.output
    assert "metadata.version" in shown.output
    assert "1 to 1" in shown.output
    told = json.loads(quorate("features", "describe", "-b", one_node.bootstrap, "--json").output)
    levels = {each["name"]: each["finalized"] for each in told["features"]}
    assert levels["metadata.version"] == 1
    assert levels["group.version"] == 0
    assert told["epoch"] > 0


def test_a_quorums_voters_move_into_the_log_and_stay_there(quorate: Quorate, one_node: LocalCluster) -> None:
    def features(*words: str) -> Result:
        return quorate("features", *words, "-b", one_node.bootstrap)

    checked = features("upgrade", "--feature", "kraft.version=1", "--dry-run")
    assert checked.output == "kraft.version can be set to 1\n"
    assert features("upgrade", "--feature", "kraft.version=1").output == "kraft.version is set to 1\n"
    back = features("downgrade", "--feature", "kraft.version=0", "--unsafe")
    assert back.exit_code == ExitCode.FAILED
    assert "the voters can't leave the log again" in back.stderr


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
    told = quorate("features", "upgrade", *options, "-b", "127.0.0.1:1")
    assert told.exit_code == ExitCode.USAGE
    assert why in told.stderr


def test_a_refused_level_names_who_refuses_it(quorate: Quorate, one_node: LocalCluster) -> None:
    told = quorate("features", "upgrade", "--feature", "metadata.version=9", "-b", one_node.bootstrap)
    assert told.exit_code == ExitCode.FAILED
    assert "this controller supports levels 1 to 1 (inclusive)" in told.stderr
