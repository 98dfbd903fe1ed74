"""A real Prometheus with the rules of `dashboards/alerts.yml`: alerts fire by real faults, and resolve."""

import json
import re
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from quorate.cli.node.local_cluster import LocalCluster
from tests.cli.command import Quorate
from tests.cli.health_checks import wait_named
from tests.kit.clusters import running_cluster
from tests.kit.waiting import wait_until
from tests.metrics.test_prometheus import Prometheus

pytestmark = [pytest.mark.system, pytest.mark.slow]

RULES: Final = Path(__file__).parents[2] / "dashboards" / "alerts.yml"
FOR_S: Final = 2
"""In place of each longer time for which an alert's expression has to hold."""
ENVIRONMENT: Final = {"disk-full", "disk-nearly-full"}
"""These go by the disks of the machine on which the test runs."""

VOTERS: Final = 'count(raft_manager_current_state{raft_manager_current_state=~"leader|follower"} == 1)'


def shortened(rules: str) -> str:
    """Return the rules with short times. An hour is looked at in steps of a second in place of a minute."""
    found, count = re.subn(r"(?m)^( +for: )\d+s$", rf"\g<1>{FOR_S}s", rules)
    assert count > 5
    assert "[1h:1m]" in found
    return found.replace("[1h:1m]", "[1h:1s]")


def firing(prometheus: Prometheus) -> dict[str, dict[str, str]]:
    """Return the alerts that fire, with what their annotations say."""
    with urllib.request.urlopen(f"{prometheus.url}/api/v1/alerts", timeout=5) as response:
        answer: Any = json.load(response)
    return {
        each["labels"]["alertname"]: {**each["labels"], **each["annotations"]}
        for each in answer["data"]["alerts"]
        if each["state"] == "firing"
    }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with running_cluster(tmp_path_factory.mktemp("alerts") / "cluster") as started:
        ask = Quorate().at(started)
        ask.output("topics", "create", "-t", "orders", "--partitions", 3, "--replication-factor", 3)
        yield started


@pytest.fixture(scope="module")
def prometheus(
    cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory, need: Callable[[str], str]
) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "alerts.yml").write_text(shortened(RULES.read_text()))
    targets = {node.node_id: f"{cluster.host}:{node.metrics_port}" for node in cluster.nodes}
    rules = f"rule_files: ['{folder / 'alerts.yml'}']\n"
    started = Prometheus(need("prometheus"), folder, targets, rules=rules)
    try:
        started.scrape()
        # Who is missed is told by the voters that were there at some full second before.
        wait_until(
            lambda: started.query(f"max_over_time(({VOTERS})[1h:1s]) == 3"), "Prometheus has seen all voters"
        )
        yield started
    finally:
        started.stop()


@pytest.fixture
def quiet(cluster: LocalCluster, prometheus: Prometheus) -> Iterator[None]:
    """Before and after the test no alert fires but those that remember."""
    wait_quiet(prometheus)
    yield
    cluster.start()
    cluster.wait_ready(seconds=60)
    wait_quiet(prometheus)


def wait_quiet(prometheus: Prometheus) -> None:
    found: dict[str, dict[str, str]] = {}

    def is_quiet() -> bool:
        found.clear()
        found.update(firing(prometheus))
        return found.keys() <= ENVIRONMENT | {"broker-flapping", "repeated-elections"}

    wait_until(is_quiet, lambda: f"no alert fires: {sorted(found)}", seconds=60)


def wait_firing(prometheus: Prometheus, *names: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}

    def all_fire() -> bool:
        found.clear()
        found.update(firing(prometheus))
        return found.keys() >= set(names)

    wait_until(all_fire, lambda: f"{names} fire, in place of {sorted(found)}", seconds=60)
    return found


def test_the_rules_are_loaded_and_none_fires_on_a_well_cluster(prometheus: Prometheus, quiet: None) -> None:
    with urllib.request.urlopen(f"{prometheus.url}/api/v1/rules", timeout=5) as response:
        (group,) = json.load(response)["data"]["groups"]
    assert len(group["rules"]) == RULES.read_text().count("- alert:")
    wait_until(
        lambda: all(each["health"] == "ok" for each in rules_of(prometheus)), "each rule was evaluated"
    )
    assert firing(prometheus).keys() <= ENVIRONMENT


def rules_of(prometheus: Prometheus) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{prometheus.url}/api/v1/rules", timeout=5) as response:
        (group,) = json.load(response)["data"]["groups"]
    return list(group["rules"])


def test_a_killed_node_fires_what_follows_from_it_and_its_start_resolves_it(
    cluster: LocalCluster, prometheus: Prometheus, quiet: None
) -> None:
    ask = Quorate().at(cluster)
    strict = ("--replica-assignment", "1:2:3", "--config", "min.insync.replicas=3")
    ask.output("topics", "create", "-t", "strict", *strict)
    ask.output("topics", "create", "-t", "single", "--replica-assignment", "3")
    cluster.kill(3)
    found = wait_firing(
        prometheus, "broker-fenced", "under-replicated", "under-min-isr", "offline-partitions",
        "majority-at-risk",
    )  # fmt: skip
    assert found["offline-partitions"]["severity"] == "critical"
    assert found["broker-fenced"]["remedy"].startswith("Start it again where it ran: `quorate server start")
    assert "voter-silent" not in found
    panels = json.loads((RULES.parent / "controller-and-replication.json").read_text())["panels"]
    (panel,) = [each for each in panels if each["title"] == "Problems"]
    shown = {
        each["legendFormat"]: float(prometheus.query(each["expr"])[0]["value"][1])
        for each in panel["targets"]
    }
    assert shown["broker-fenced"] == 1
    assert shown["offline-partitions"] == 1
    assert shown["damaged-replica"] == shown["certificate-ends"] == 0
    cluster.start(3)
    cluster.wait_ready(seconds=60)
    wait_quiet(prometheus)
    for topic in ("strict", "single"):
        ask.output("topics", "delete", "-t", topic)


def test_a_quorum_without_a_majority_fires_and_resolves(
    cluster: LocalCluster, prometheus: Prometheus, quiet: None
) -> None:
    for node in (2, 3):
        cluster.kill(node)
    found = wait_firing(prometheus, "quorum-without-leader")
    assert found["quorum-without-leader"]["severity"] == "critical"
    for node in (2, 3):
        cluster.start(node)
    cluster.wait_ready(seconds=60)
    wait_quiet(prometheus)


def test_a_broker_that_is_paused_again_and_again_fires_as_flapping(
    cluster: LocalCluster, prometheus: Prometheus, quiet: None
) -> None:
    pauses = 0
    while "broker-flapping" not in firing(prometheus):
        # An election or a scrape that is late on a busy machine hides one.
        assert pauses < 6
        leader = int(str(cluster.describe_quorum()["leaderId"]))
        paused = next(node for node in (1, 2, 3) if node != leader)
        cluster.signal(paused, signal.SIGSTOP)
        try:
            wait_named(cluster, "broker-fenced", where=f"broker {paused}")
            time.sleep(1.2)  # a scrape sees each
        finally:
            cluster.signal(paused, signal.SIGCONT)
        cluster.wait_ready(seconds=60)
        pauses += 1
        time.sleep(3)  # it is evaluated
    assert pauses >= 3
