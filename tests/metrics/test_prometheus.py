"""A real Prometheus scrapes three real nodes: each of the sixteen metrics, moved by what the test does."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from quorate.broker.admin.topics import create_topic
from quorate.certs import CertificateFolder
from quorate.cli.console.connections import ask_cluster
from quorate.cli.node.free_ports import free_ports
from quorate.cli.node.local_cluster import LocalCluster
from quorate.metrics.declarations import RAFT
from quorate.metrics.raft_metrics import STATES
from tests.kit.clusters import running_cluster

pytestmark = pytest.mark.system

TOPICS, PARTITIONS = 30, 4
NODES = (1, 2, 3)
WINDOW_SECONDS = 30.0
"""Rates are per second over at least so long (Kafka's `metrics.sample.window.ms`)."""

Scrape = dict[int, dict[str, float]]
"""By node and by Kafka's attribute name (`log-end-offset`), in Kafka's units; beside them `state`, an index
into `STATES`, and the two totals."""


class Prometheus:
    """The server from Debian, asked over its HTTP API."""

    def __init__(
        self, program: str, folder: Path, targets: dict[int, str], more: str = "", *, rules: str = ""
    ) -> None:
        """`more`: other keys of the one job. `rules`: keys of the file; they are evaluated each second."""
        port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{port}"
        config = folder / "prometheus.yml"
        jobs = "".join(
            f"      - targets: ['{target}']\n        labels: {{node: '{node}'}}\n"
            for node, target in targets.items()
        )
        config.write_text(
            "global:\n  scrape_interval: 1s\n  scrape_timeout: 1s\n  evaluation_interval: 1s\n"
            f"{rules}scrape_configs:\n"
            f"  - job_name: quorate\n{more}    static_configs:\n{jobs}"
        )
        self.log = folder / "prometheus.log"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [program, f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
                 f"--web.listen-address=127.0.0.1:{port}"],
                stdout=output, stderr=output,
            )  # fmt: skip

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)

    def query(self, expression: str) -> list[Any]:
        asked = urllib.parse.urlencode({"query": expression})
        with urllib.request.urlopen(f"{self.url}/api/v1/query?{asked}", timeout=5) as response:
            answer = json.load(response)
        assert answer["status"] == "success", answer
        return list(answer["data"]["result"])

    def scrape(self, nodes: tuple[int, ...] = NODES, *, seconds: float = 30.0) -> Scrape:
        """The values that Prometheus has of these nodes from scrapes that began after this call."""
        asked_at, deadline = time.time(), time.monotonic() + seconds
        while True:
            try:
                times = self.query("timestamp(raft_manager_current_epoch)")
            except (urllib.error.URLError, ConnectionError):
                times = []  # it is starting
            fresh = {int(each["metric"]["node"]) for each in times if float(each["value"][1]) > asked_at}
            if fresh >= set(nodes):
                break
            assert time.monotonic() < deadline, f"{self.log.read_text()[-2000:]}"
            time.sleep(0.1)
        found: dict[int, dict[str, float]] = {node: {} for node in nodes}
        states: dict[int, list[str]] = {node: [] for node in nodes}
        for series in self.query('{__name__=~"(raft_manager|kafka_server_raftmetrics)_.*"}'):
            labels, node = series["metric"], int(series["metric"]["node"])
            if node not in found:
                continue
            name, value = labels["__name__"], float(series["value"][1])
            if name == "raft_manager_current_state":
                if value:
                    states[node].append(labels[name])
            elif name == "kafka_server_raftmetrics_current_state":
                # The series of an earlier state is stale from the next scrape on.
                states[node].append(labels["current_state"])
            else:
                found[node][name] = value
        return {node: as_attributes(found[node], states[node]) for node in nodes}


def as_attributes(values: dict[str, float], states: list[str]) -> dict[str, float]:
    """Both spellings must be there, and say the same."""
    attributes: dict[str, float] = {
        "fetch-records-total": values["raft_manager_fetch_records_total"],
        "append-records-total": values["raft_manager_append_records_total"],
    }
    for declaration in RAFT:
        if declaration.bean == "current-state":
            assert len(states) == 2 and states[0] == states[1], f"two spellings of one state: {states}"
            attributes["state"] = STATES.index(states[0])
            continue
        kafka = values[declaration.kafkas]
        ours = values[declaration.ours]
        assert ours == pytest.approx(kafka * declaration.scale), declaration.bean
        attributes[declaration.bean] = kafka
    assert len(RAFT) == 16
    return attributes


@pytest.fixture
def watch(tmp_path: Path, need: Callable[..., str]) -> Iterator[Callable[[LocalCluster], Prometheus]]:
    running: list[Prometheus] = []

    def start(cluster: LocalCluster) -> Prometheus:
        targets = {node.node_id: f"{cluster.host}:{node.metrics_port}" for node in cluster.nodes}
        prometheus = Prometheus(need("prometheus"), tmp_path, targets)
        running.append(prometheus)
        return prometheus

    yield start
    for prometheus in running:
        prometheus.stop()


@pytest.mark.slow
def test_a_secured_node_is_scraped_with_the_token_alone(tmp_path: Path, need: Callable[..., str]) -> None:
    """The keys are those of docs/how-to/prometheus.md."""
    program = need("prometheus")
    with running_cluster(tmp_path / "cluster", nodes=1, secure=True) as cluster:
        wrong = tmp_path / "wrong"
        wrong.write_text("0123456789abcdef0123456789abcdef")

        def up(token: Path, authorities: Path) -> float:
            more = (
                "    scheme: https\n"
                f"    authorization: {{credentials_file: {token}}}\n"
                f"    tls_config: {{ca_file: {authorities}}}\n"
            )
            target = f"{cluster.host}:{cluster.node(1).metrics_port}"
            (folder := tmp_path / uuid.uuid4().hex).mkdir()
            prometheus = Prometheus(program, folder, {1: target}, more)
            deadline = time.monotonic() + 30
            try:
                while True:
                    with suppress(urllib.error.URLError, ConnectionError):
                        if found := prometheus.query("up"):
                            break
                    assert time.monotonic() < deadline, prometheus.log.read_text()[-2000:]
                    time.sleep(0.1)
                if float(found[0]["value"][1]):
                    assert prometheus.query("raft_manager_current_leader")[0]["value"][1] == "1"
                return float(found[0]["value"][1])
            finally:
                prometheus.stop()

        secrets = cluster.secrets
        assert up(secrets.metrics_token, secrets.authorities) == 1
        assert up(wrong, secrets.authorities) == 0
        other = CertificateFolder(tmp_path / "other", now=datetime.now(UTC)).create_authority("c")
        assert up(secrets.metrics_token, other) == 0, "its token is not sent to who is not the node"


def command(*arguments: str) -> list[Any]:
    """Lines of JSON that a command of ours prints."""
    done = subprocess.run(
        [sys.executable, "-m", "quorate.cli.main", *arguments, "--json"],
        stdout=subprocess.PIPE, check=True, timeout=30,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


def dump(cluster: LocalCluster, node: int) -> list[Any]:
    folder = cluster.node(node).folder / "data" / "__cluster_metadata-0"
    return [batch for file in sorted(folder.glob("*.log")) for batch in command("log", "dump", str(file))]


def scrape_at_rest(cluster: LocalCluster, prometheus: Prometheus) -> tuple[Scrape, dict[str, Any]]:
    """The metrics, and what `quorate quorum describe` says before and after that scrape alike."""
    bootstrap = ",".join(f"{cluster.host}:{cluster.node(node).client_port}" for node in cluster.running())
    for _ in range(20):
        before = command("quorum", "describe", "-b", bootstrap)[0]
        scrape = prometheus.scrape()
        after = command("quorum", "describe", "-b", bootstrap)[0]
        if offsets(before) == offsets(after):
            return scrape, after
    raise AssertionError("the metadata log does not come to rest")


def offsets(described: dict[str, Any]) -> object:
    return (
        described["leaderId"], described["leaderEpoch"], described["highWatermark"],
        [(voter["id"], voter["logEndOffset"]) for voter in described["voters"]],
    )  # fmt: skip


def check_described(scrape: Scrape, described: dict[str, Any]) -> None:
    """The output of `quorum describe` and the metrics of all nodes agree."""
    ends = {voter["id"]: voter["logEndOffset"] for voter in described["voters"]}
    for node, values in scrape.items():
        assert values["current-leader"] == described["leaderId"], node
        assert values["current-epoch"] == described["leaderEpoch"], node
        assert values["high-watermark"] == described["highWatermark"], node
        assert values["log-end-offset"] == ends[node], node
        assert values["log-end-epoch"] == described["leaderEpoch"], "its first record is of its epoch"
        expected = "leader" if node == described["leaderId"] else "follower"
        assert STATES[int(values["state"])] == expected, node
        assert values["number-unknown-voter-connections"] == 0, "all voters are in the configuration"
        assert 0 < values["poll-idle-ratio-avg"] < 1, node
    voted = {node: values["current-vote"] for node, values in scrape.items()}
    for node, candidate in voted.items():
        # Two may stand in one epoch, and the one that is not elected goes on having voted for itself.
        assert candidate in (described["leaderId"], node, -1), (node, voted)
    assert list(voted.values()).count(described["leaderId"]) >= 2, "a majority voted for the leader"


def create_topics(cluster: LocalCluster, count: int, prefix: str) -> float:
    """The longest that one took, in ms."""
    longest = 0.0
    for number in range(count):
        started = time.monotonic()
        ask_cluster(
            cluster.bootstrap,
            lambda client, name=f"{prefix}-{number}": create_topic(client, name, partitions=PARTITIONS),
        )
        longest = max(longest, (time.monotonic() - started) * 1000)
    return longest


@pytest.mark.slow
def test_all_sixteen_metrics_of_three_nodes_move_with_what_happens_and_by_as_much(
    make_cluster: Callable[..., LocalCluster], watch: Callable[[LocalCluster], Prometheus]
) -> None:
    began = time.time()
    cluster = make_cluster(3)
    prometheus = watch(cluster)
    before, described = scrape_at_rest(cluster, prometheus)
    check_described(before, described)
    leader = int(described["leaderId"])
    followers = [node for node in NODES if node != leader]
    assert before[leader]["election-latency-max"] > 0, "it was a candidate"
    for node in NODES:
        assert began * 1000 <= before[node]["boot-timestamp"] <= time.time() * 1000, node
    totals_say(before)

    # Records, their commits, and what they cost.
    longest_ms = create_topics(cluster, TOPICS, "t")
    after, described = scrape_at_rest(cluster, prometheus)
    check_described(after, described)
    assert described["leaderId"] == leader
    new = [
        batch for batch in dump(cluster, leader) if batch["baseOffset"] >= before[leader]["log-end-offset"]
    ]
    types = [record["type"] for batch in new for record in batch["records"]]
    added = sum(batch["count"] for batch in new)
    print(
        f"{TOPICS} topics are {added} records: { {each: types.count(each) for each in sorted(set(types))} }"
    )
    assert sum("Partition" in each for each in types) == TOPICS * PARTITIONS
    for node in NODES:
        for name in ("log-end-offset", "high-watermark"):
            assert after[node][name] - before[node][name] == added, (node, name)
        for name in ("current-epoch", "current-leader", "current-vote", "state", "boot-timestamp",
                     "election-latency-max", "election-latency-avg"):  # fmt: skip
            assert after[node][name] == before[node][name], (node, name)
    moved(before, after, leader, appended=added, fetched=0)
    for node in followers:
        moved(before, after, node, appended=0, fetched=added)
        assert after[node]["commit-latency-max"] == 0, "only the leader sees commits"
    assert 0 < after[leader]["commit-latency-avg"] <= after[leader]["commit-latency-max"]
    assert after[leader]["commit-latency-max"] <= max(longest_ms, before[leader]["commit-latency-max"])
    assert after[leader]["poll-idle-ratio-avg"] != before[leader]["poll-idle-ratio-avg"]

    # Another leader, elected by the other two.
    stopped_at = time.monotonic()
    cluster.stop(leader)
    prometheus.scrape(tuple(followers))
    bootstrap = ",".join(f"{cluster.host}:{cluster.node(node).client_port}" for node in followers)
    ask_cluster(bootstrap, lambda client: create_topic(client, "after", partitions=1))
    took_ms = (time.monotonic() - stopped_at) * 1000
    restarted_at = time.time()
    cluster.start(leader)
    cluster.wait_ready()
    changed, described = scrape_at_rest(cluster, prometheus)
    check_described(changed, described)
    successor = int(described["leaderId"])
    other = next(node for node in followers if node != successor)
    assert successor in followers
    for node in NODES:
        assert before[node]["current-epoch"] < changed[node]["current-epoch"] == described["leaderEpoch"], (
            node
        )
        assert changed[node]["current-leader"] == successor, node
    control = [batch for batch in dump(cluster, successor) if batch["isControl"]]
    assert changed[successor]["log-end-epoch"] == control[-1]["leaderEpoch"] == described["leaderEpoch"]
    assert changed[successor]["election-latency-avg"] != before[successor]["election-latency-avg"], (
        "it was a candidate again; faster or slower than before"
    )
    assert 0 < changed[successor]["election-latency-avg"] <= changed[successor]["election-latency-max"]
    assert changed[successor]["election-latency-max"] < took_ms, (
        "an election is part of the time without leader"
    )
    assert changed[successor]["current-vote"] == changed[other]["current-vote"] == successor
    assert changed[successor]["append-records-total"] > before[successor]["append-records-total"]
    assert changed[successor]["commit-latency-max"] > 0, "it leads now, and sees commits"

    # The one that was started again has begun anew; the others have not.
    assert restarted_at * 1000 <= changed[leader]["boot-timestamp"] <= time.time() * 1000
    assert changed[leader]["append-records-total"] == 0
    for node in followers:
        assert changed[node]["boot-timestamp"] == before[node]["boot-timestamp"]


def totals_say(scrape: Scrape) -> None:
    """The records appended as leader or fetched as follower since the start are the whole log, and those
    truncated again if the first elections took more than one round."""
    for node, values in scrape.items():
        total = values["append-records-total"] + values["fetch-records-total"]
        if values["current-epoch"] == 1:
            assert total == values["log-end-offset"], node
        else:
            assert values["log-end-offset"] <= total < values["log-end-offset"] + values["current-epoch"], (
                node
            )


def moved(before: Scrape, after: Scrape, node: int, *, appended: float, fetched: float) -> None:
    """Totals by exactly as many records, rates by as many in the window."""
    for name, records in (("append-records", appended), ("fetch-records", fetched)):
        assert after[node][f"{name}-total"] - before[node][f"{name}-total"] == records, (node, name)
        rate = after[node][f"{name}-rate"]
        if not records:
            continue
        total = after[node][f"{name}-total"]
        assert records / (2 * WINDOW_SECONDS) <= rate <= total / WINDOW_SECONDS * 1.001, (node, name, rate)
        if time.time() * 1000 - after[node]["boot-timestamp"] < WINDOW_SECONDS * 1000:
            grown = rate - before[node][f"{name}-rate"]
            assert grown == pytest.approx(records / WINDOW_SECONDS), (node, name)


DASHBOARDS = sorted((Path(__file__).parents[2] / "dashboards").glob("*.json"))


@pytest.mark.slow
def test_a_real_prometheus_has_an_answer_for_every_panel_of_the_dashboards(
    make_cluster: Callable[..., LocalCluster], watch: Callable[[LocalCluster], Prometheus]
) -> None:
    cluster = make_cluster(3)
    prometheus = watch(cluster)
    create_topics(cluster, 2, "t")
    prometheus.scrape()
    prometheus.scrape()  # rates take two
    asked = [
        (panel["title"], target["expr"].replace("$instance", ".*"))
        for path in DASHBOARDS
        for panel in json.loads(path.read_text())["panels"]
        for target in panel["targets"]
    ]
    assert len(asked) > 50

    def unanswered() -> list[tuple[str, str]]:
        # What is compared with 0 shows nothing while it is.
        return [each for each in asked if "> 0" not in each[1] and not prometheus.query(each[1])]

    deadline = time.monotonic() + 30
    while missing := unanswered():
        assert time.monotonic() < deadline, f"Prometheus has nothing for {missing}"
        time.sleep(0.5)
