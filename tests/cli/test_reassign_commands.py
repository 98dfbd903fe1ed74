"""`quorate reassign-partitions` and `quorate brokers` on a cluster of three."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.local_cluster import LocalCluster
from tests.cli.command import Quorate
from tests.kit.clusters import running_cluster
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with running_cluster(tmp_path_factory.mktemp("three") / "cluster") as cluster:
        yield cluster


@pytest.fixture
def ask(quorate: Quorate, three: LocalCluster) -> Quorate:
    """Return the command at all three brokers."""
    return quorate.at(three)


@contextmanager
def broker_3_killed(ask: Quorate, three: LocalCluster) -> Iterator[Quorate]:
    """Kill broker 3, and start it again afterwards. Return the command at the other two, which have fenced
    it."""
    live = ask.at(three.bootstrap.rpartition(",")[0])
    three.kill(3)
    wait_until(lambda: states(live)[3] == "fenced", "broker 3 is fenced")
    yield live
    three.start(3)
    three.wait_ready()


def states(ask: Quorate) -> dict[int, str]:
    return {each["id"]: each["state"] for each in ask.json("brokers", "list")}


def create(ask: Quorate, topic: str, assignment: str) -> None:
    ask.output("topics", "create", "-t", topic, "--replica-assignment", assignment)


def replicas(ask: Quorate, topic: str) -> list[list[int]]:
    (described,) = ask.json("topics", "describe", "-t", topic)
    return [part["replicas"] for part in described["partitions"]]


def plan(path: Path, topic: str, *assignments: list[int]) -> tuple[str, Path]:
    """Write a file of moves. Return the option that names it."""
    moves = [
        {"topic": topic, "partition": number, "replicas": each} for number, each in enumerate(assignments)
    ]
    path.write_text(json.dumps({"partitions": moves}))
    return ("--reassignment-json-file", path)


def topics_to_move(path: Path, topic: str) -> tuple[str, Path]:
    path.write_text(json.dumps({"topics": [{"topic": topic}]}))
    return ("--topics-to-move-json-file", path)


def test_partitions_are_moved_by_generate_execute_and_verify(ask: Quorate, tmp_path: Path) -> None:
    create(ask, "orders", "1,1,1")
    topics = topics_to_move(tmp_path / "topics.json", "orders")
    generated = ask.output("reassign-partitions", "generate", *topics, "--broker-list", "1,2,3")
    current, proposed = (json.loads(line) for line in generated.splitlines() if line.startswith("{"))
    assert [each["replicas"] for each in current["partitions"]] == [[1]] * 3
    targets = [each["replicas"] for each in proposed["partitions"]]
    assert sorted(targets) == [[1], [2], [3]]
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(proposed))
    moves = ("--reassignment-json-file", file)
    begun = ask.output("reassign-partitions", "execute", *moves)
    assert "Successfully started partition reassignments for orders-0,orders-1,orders-2" in begun
    done = ask.output("reassign-partitions", "verify", *moves, "--watch")
    assert "Reassignment of partition orders-2 is completed." in done
    assert replicas(ask, "orders") == targets
    assert ask.json("reassign-partitions", "list") == []
    cancelled = ask.output("reassign-partitions", "cancel", *moves)
    assert cancelled == "None of the file's partitions is being moved\n"
    other = plan(tmp_path / "other.json", "orders", [3, 2, 1])
    checked = ask("reassign-partitions", "verify", *other, "--json")
    assert checked.exit_code == ExitCode.FAILED
    assert json.loads(checked.stdout)["different"] == [
        {"topic": "orders", "partition": 0, "replicas": targets[0]}
    ]


@pytest.mark.parametrize(
    ("assignment", "says"),
    [([9], "which is not registered"), ([1, 9], "which is not registered")],
)
def test_the_clusters_refusal_names_the_partition(
    ask: Quorate, tmp_path: Path, assignment: list[int], says: str
) -> None:
    ask("topics", "create", "-t", "refused", "--replica-assignment", "1")
    moves = plan(tmp_path / "plan.json", "refused", assignment)
    refused = ask.error("reassign-partitions", "execute", *moves)
    assert "refused-0" in refused and says in refused
    assert replicas(ask, "refused") == [[1]]


def test_a_partition_or_topic_that_does_not_exist_is_named(ask: Quorate, tmp_path: Path) -> None:
    moves = plan(tmp_path / "plan.json", "nope", [1])
    missing = ask.error("reassign-partitions", "execute", *moves)
    assert "partition 0 of topic nope does not exist" in missing
    topics = topics_to_move(tmp_path / "topics.json", "nope")
    for brokers, says in (("1,2", "topic nope does not exist"), ("1,x", "is not of the form 1,2,3")):
        refused = ask("reassign-partitions", "generate", *topics, "--broker-list", brokers)
        assert says in refused.stderr


def test_a_broker_is_drained_and_a_killed_one_is_moved_away_from(ask: Quorate) -> None:
    create(ask, "kept", "1:3,3:2,2:1,3:1")
    create(ask, "full", "1:2:3")
    before = replicas(ask, "kept")
    assert "partition 0 of topic full has replicas on [1, 2, 3]" in ask.error("brokers", "drain", 3)
    assert replicas(ask, "kept") == before, "nothing is half done"
    ask("topics", "delete", "-t", "full")
    assert ask.output("brokers", "drain", 3).endswith("Broker 3 has no replicas\n")
    assert replicas(ask, "kept") == [[1, 2], [1, 2], [2, 1], [2, 1]]
    (third,) = (each for each in ask.json("brokers", "list") if each["id"] == 3)
    assert (third["replicas"], third["leads"]) == (0, 0)
    assert set(states(ask).values()) == {"live"}
    assert ask.output("brokers", "drain", 3) == "Broker 3 has no replicas\n"
    mistyped = ask.error("brokers", "drain", 33)
    assert "no broker 33 is registered" in mistyped
    assert "the brokers are 1, 2, 3" in mistyped


THROTTLE = 1_000_000
"""The throttle in bytes per second. A fetch takes as much of a partition at most, and the bytes of a second
pass at once."""
RATES = {f"{side}.replication.throttled.rate": str(THROTTLE) for side in ("leader", "follower")}


def own_configs(ask: Quorate, kind: str, name: object) -> dict[str, str]:
    (entity,) = ask.json("configs", "describe", "--entity-type", kind, "--entity-name", name)
    return {each["name"]: each["value"] for each in entity["configs"]}


def test_a_throttled_move_takes_its_time_and_verify_clears_the_throttle(
    ask: Quorate, three: LocalCluster, tmp_path: Path
) -> None:
    create(ask, "heavy", "1")
    producer = Producer({"bootstrap.servers": three.bootstrap, "linger.ms": 0})
    for _ in range(60):
        producer.produce("heavy", b"x" * 100_000)
    assert producer.flush(20) == 0
    moves = plan(tmp_path / "plan.json", "heavy", [2])
    began = time.monotonic()
    ask.output("reassign-partitions", "execute", *moves, "--throttle", THROTTLE)
    for broker in (1, 2, 3):
        assert own_configs(ask, "brokers", broker) == RATES
    assert own_configs(ask, "topics", "heavy") == {
        "leader.replication.throttled.replicas": "0:1",
        "follower.replication.throttled.replicas": "0:2",
    }
    waits = ask("reassign-partitions", "verify", *moves, "--json")
    (under_way,) = json.loads(waits.stdout)["underWay"]
    assert under_way["bytesLeft"] > THROTTLE, f"{under_way} {time.monotonic() - began:.1f} s after the start"
    assert own_configs(ask, "brokers", 1) == RATES, "a move that is not done keeps its throttle"
    done = ask.output("reassign-partitions", "verify", *moves, "--watch")
    took = time.monotonic() - began
    assert "Removed the throttles" in done
    assert 3.5 < took < 30, f"6 MB at 1 MB/s took {took:.1f} s"
    assert replicas(ask, "heavy") == [[2]]
    for broker in (1, 2, 3):
        assert own_configs(ask, "brokers", broker) == {}
    assert own_configs(ask, "topics", "heavy") == {}


def test_a_move_to_a_broker_that_died_waits_and_is_cancelled(
    ask: Quorate, three: LocalCluster, tmp_path: Path
) -> None:
    create(ask, "waits", "1:2")
    with broker_3_killed(ask, three) as live:
        moves = plan(tmp_path / "plan.json", "waits", [1, 3])
        live.output("reassign-partitions", "execute", *moves)
        waits = live("reassign-partitions", "verify", *moves)
        assert "Reassignment of partition waits-0 is still in progress" in waits.output
        (listed,) = live.json("reassign-partitions", "list")
        assert (listed["adding"], listed["removing"]) == ([3], [2])
        assert "waits" in live("reassign-partitions", "list").output
        more = live.error("reassign-partitions", "execute", *moves)
        assert "1 partitions are being moved already" in more
        ended = live.output("reassign-partitions", "cancel", *moves)
        assert ended == "Successfully cancelled partition reassignments for waits-0\n"
        assert replicas(live, "waits")[0] == [1, 2]


def test_replicas_that_only_a_dead_broker_has_end_the_drain_and_are_named(
    ask: Quorate, three: LocalCluster
) -> None:
    """The drain used to wait for ever. Other replicas are moved all the same, and a second drain prints the
    same."""
    create(ask, "alone", "3")
    create(ask, "copied", "3:2")
    assert "broker 3 is live: drain it and stop it first" in ask.error("brokers", "unregister", 3)
    with broker_3_killed(ask, three) as live:
        for _ in range(2):
            refused = live.error("brokers", "drain", 3)
            only = "alone-0 can't be moved: nobody leads it: its records are on broker 3, which is down"
            assert only in refused
            assert "copied" not in refused
            assert "1 replicas stay on broker 3. Start the brokers" in refused
            assert replicas(live, "copied") == [[1, 2]]
        used = live.error("brokers", "unregister", 3)
        assert "1 partitions have a replica on broker 3, alone-0 for one: move them" in used
    assert ask.output("brokers", "drain", 3).splitlines()[-1] == "Broker 3 has no replicas"
    for topic in ("alone", "copied"):
        ask("topics", "delete", "-t", topic)


def test_a_new_replica_on_a_dead_broker_is_named_too(
    ask: Quorate, three: LocalCluster, tmp_path: Path
) -> None:
    for topic in ask("topics", "list").output.split():
        ask("topics", "delete", "-t", topic)
    create(ask, "goes", "1")
    with broker_3_killed(ask, three) as live:
        live.output("reassign-partitions", "execute", *plan(tmp_path / "plan.json", "goes", [3]))
        refused = live.error("brokers", "drain", 1)
        assert "goes-0 can't be moved: it is to have a replica on broker 3, which is down" in refused
    ask.output("brokers", "drain", 1)
    ask("topics", "delete", "-t", "goes")


def test_a_broker_that_is_gone_for_good_is_unregistered(ask: Quorate, three: LocalCluster) -> None:
    ask.output("brokers", "drain", 3)
    with broker_3_killed(ask, three) as live:
        assert live.output("brokers", "unregister", 3) == "Broker 3 is no longer registered\n"
        assert states(live) == {1: "live", 2: "live"}
        unknown = live.error("brokers", "unregister", 3)
        assert "broker 3: Broker ID 3 is not currently registered." in unknown
    assert states(ask) == {1: "live", 2: "live", 3: "live"}
    ask.output("brokers", "unregister", 3, "--force")
    wait_until(lambda: states(ask).get(3) == "live", "broker 3 registers again")


def test_a_cluster_is_balanced_and_a_balance_is_taken_back(
    ask: Quorate, three: LocalCluster, tmp_path: Path
) -> None:
    create(ask, "crowded", ",".join(["1:2"] * 6))
    producer = Producer({"bootstrap.servers": three.bootstrap, "linger.ms": 0})
    for number in range(60):
        producer.produce("crowded", b"x" * 100_000, partition=number % 6)
    assert producer.flush(20) == 0
    before = replicas(ask, "crowded")
    shown = ask.json("cluster", "balance", "--dry-run")
    assert shown["replicasThatMove"] > 0
    assert replicas(ask, "crowded") == before, "a dry run moves nothing"

    saved = tmp_path / "balance.json"
    ask.output("cluster", "balance", "--no-wait", "--throttle", THROTTLE, "--save", saved)
    in_file = json.loads(saved.read_text())["partitions"]
    names = ("topic", "partition", "replicas")
    assert [{name: each[name] for name in names} for each in in_file] == shown["partitions"]
    again = ask("cluster", "balance")
    assert again.exit_code == ExitCode.FAILED
    assert "are being moved already" in again.stderr
    assert "Took back" in ask.output("cluster", "balance", "--cancel")
    assert [sorted(each) for each in replicas(ask, "crowded")] == before, "a new order alone is there at once"
    for broker in (1, 2, 3):
        assert own_configs(ask, "brokers", broker) == {}

    assert "The cluster is balanced" in ask.output("cluster", "balance")
    held = [each["replicas"] for each in ask.json("brokers", "list")]
    assert max(held) - min(held) <= 1
    (described,) = ask.json("topics", "describe", "-t", "crowded")
    assert all(part["leader"] == part["replicas"][0] for part in described["partitions"])
    assert "No replica has to move" in ask.output("cluster", "balance")
    assert "No partition is being moved" in ask.output("cluster", "balance", "--cancel")
