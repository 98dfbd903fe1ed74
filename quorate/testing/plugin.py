"""The pytest plugin: the fixtures `kafka_cluster` and `quorum_cluster`, and what a failed test's report says
of its clusters.

pytest loads it wherever quorate is installed, so it imports nothing of ours before a test asks for a cluster.
"""

from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from quorate.testing import (
        ClusterPool,
        KafkaCluster,
        QuorumCluster,
        StartKafkaCluster,
        StartQuorumCluster,
    )

_CLUSTERS: Final = pytest.StashKey["list[KafkaCluster | QuorumCluster]"]()
_LOG_LINES: Final = 200
"""The most lines of each node's log in a report, the last ones."""


@pytest.fixture(scope="session")
def quorate_clusters() -> "Iterator[ClusterPool]":
    """The clusters of this process, kept between tests."""
    from quorate.testing import ClusterPool

    pool = ClusterPool()
    try:
        yield pool
    finally:
        pool.close()


@pytest.fixture
def kafka_cluster(
    request: pytest.FixtureRequest, quorate_clusters: "ClusterPool"
) -> "Iterator[StartKafkaCluster]":
    """Return a function that returns a cluster of real brokers for this test: `kafka_cluster(3)`.

    It has no topics, no groups and no users. The cluster is cleaned or ended after the test.
    """
    lent: list[KafkaCluster] = []
    shown = request.node.stash.setdefault(_CLUSTERS, [])

    def start(
        nodes: int = 3, *, config: Mapping[str, str] | None = None, secure: bool = False
    ) -> "KafkaCluster":
        cluster = quorate_clusters.lend(nodes, config=config, secure=secure)
        lent.append(cluster)
        shown.append(cluster)
        return cluster

    yield start
    for cluster in lent:
        quorate_clusters.take_back(cluster)


@pytest.fixture
def quorum_cluster(
    request: pytest.FixtureRequest, quorate_clusters: "ClusterPool"
) -> "Iterator[StartQuorumCluster]":
    """Return a function that returns a quorum of a state machine for this test: `quorum_cluster(Counter)`.

    It is new, and ends after the test.
    """
    started: list[QuorumCluster] = []
    shown = request.node.stash.setdefault(_CLUSTERS, [])

    def start(
        state_machine: object,
        nodes: int = 3,
        *,
        reads: object = None,
        config: Mapping[str, int] | None = None,
    ) -> "QuorumCluster":
        cluster = quorate_clusters.start_quorum(state_machine, nodes, reads=reads, config=config)
        started.append(cluster)
        shown.append(cluster)
        return cluster

    yield start
    for cluster in started:
        cluster.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the state of a failed test's clusters and the logs of their nodes to its report."""
    report = yield
    if report.when == "call" and report.failed:
        for cluster in item.stash.get(_CLUSTERS, []):
            report.sections.append((f"cluster {cluster.cluster_id}", cluster.describe()))
            for node in cluster.nodes:
                lines = cluster.log(node).splitlines()[-_LOG_LINES:]
                report.sections.append((f"log of node {node}", "\n".join(lines)))
    return report
