"""The settings that `quorate cluster start --config` hands to nodes."""

from pathlib import Path

import pytest

from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.local_cluster import LocalCluster, parse_settings
from tests.cli.command import Quorate


def test_settings_are_handed_to_every_node_over_the_clusters_own(tmp_path: Path) -> None:
    settings = parse_settings(("num.partitions=4", "broker.session.timeout.ms = 6000"))
    cluster = LocalCluster.plan(tmp_path / "c", nodes=2, overrides=settings)
    cluster.prepare()
    for node in cluster.nodes:
        lines = node.config_file.read_text().splitlines()
        assert "num.partitions=4" in lines
        assert [line for line in lines if line.startswith("broker.session")] == [
            "broker.session.timeout.ms=6000"
        ]


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("num.partitions", "write key=value"),
        ("num.partitions=many", "num.partitions is 'many'; it must be a whole number"),
        ("num.partition=4", "did you mean num.partitions?"),
        ("node.id=4", "--config node.id: each node of a local cluster has its own; --nodes decides it"),
        ("log.dirs=/tmp", "--data decides it"),
        ("advertised.listeners=PLAINTEXT://h:1", "--config advertised.listeners: a local cluster has one"),
        ("zookeeper.connect=h", "--config zookeeper.connect can't be set: there is no ZooKeeper"),
        ("broker.session.timeout.ms=400", "more than broker.heartbeat.interval.ms"),
    ],
)
def test_a_setting_that_nodes_can_not_have_is_named_and_nothing_is_started(
    quorate: Quorate, tmp_path: Path, setting: str, says: str
) -> None:
    start = ("cluster", "start", "--data", tmp_path / "c", "--config", setting)
    refused = quorate.error(*start, code=ExitCode.USAGE)
    assert says in refused
    assert "line 1" not in refused
    assert not (tmp_path / "c").exists()
