"""`quorate reassign-partitions` and `quorate brokers` on a cluster of three."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from typer.testing import Result

from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.local_cluster import LocalCluster

pytestmark = pytest.mark.system

Quorate = Callable[..., Result]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    cluster = LocalCluster.plan(tmp_path_factory.mktemp("three") / "cluster", nodes=3, client_port=0)
    try:
        cluster.prepare()
        cluster.start()
        cluster.wait_ready()
        yield cluster
    finally:
        cluster.kill_all()


def replicas(quorate: Quorate, topic: str, *server: str) -> list[list[int]]:
    (described,) = json.loads(quorate("topics", "describe", "-t", topic, "--json", *server).output)
    return [part["replicas"] for part in described["partitions"]]


def plan(path: Path, topic: str, *assignments: list[int]) -> Path:
    path.write_text(
        json.dumps(
            {
                "partitions": [
                    {"topic": topic, "partition": number, "replicas": each}
                    for number, each in enumerate(assignments)
                ]
            }
        )
    )
    return path


def test_partitions_are_moved_by_generate_execute_and_verify(
    quorate: Quorate, three: LocalCluster, tmp_path: Path
) -> None:
    server = ("-b", three.bootstrap)
    quorate("topics", "create", "-t", "orders", "--replica-assignment", "1,1,1", *server)
    topics = tmp_path / "topics.json"
    topics.write_text('{"topics": [{"topic": "orders"}]}')
    generated = quorate(
        "reassign-partitions",
        "generate",
        "--topics-to-move-json-file",
        topics,
        "--broker-list",
        "1,2,3",
        *server,
    )
    assert generated.exit_code == 0, generated.output
    current, proposed = (json.loads(line) for line in generated.output.splitlines() if line.startswith("{"))
    assert [each["replicas"] for each in current["partitions"]] == [[1]] * 3
    assert sorted(each["replicas"] for each in proposed["partitions"]) == [[1], [2], [3]]
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(proposed))
    begun = quorate("reassign-partitions", "execute", "--reassignment-json-file", file, *server)
    assert begun.exit_code == 0, begun.output
    assert "Successfully started partition reassignments for orders-0,orders-1,orders-2" in begun.output
    done = quorate("reassign-partitions", "verify", "--reassignment-json-file", file, "--watch", *server)
    assert done.exit_code == 0, done.output
    assert "Reassignment of partition orders-2 is completed." in done.output
    assert replicas(quorate, "orders", *server) == [each["replicas"] for each in proposed["partitions"]]
    assert json.loads(quorate("reassign-partitions", "list", "--json", *server).output) == []
    cancelled = quorate("reassign-partitions", "cancel", "--reassignment-json-file", file, *server)
    assert (cancelled.exit_code, cancelled.output) == (0, "None of the file's partitions is being moved\n")
    other = plan(tmp_path / "other.json", "orders", [3, 2, 1])
    checked = quorate("reassign-partitions", "verify", "--reassignment-json-file", other, "--json", *server)
    assert checked.exit_code == ExitCode.FAILED
    assert json.loads(checked.stdout)["different"] == [
        {"topic": "orders", "partition": 0, "replicas": proposed["partitions"][0]["replicas"]}
    ]


@pytest.mark.parametrize(
    ("assignment", "says"),
    [([9], "which is not registered"), ([1, 9], "which is not registered")],
)
def test_the_clusters_refusal_names_the_partition(
    quorate: Quorate, three: LocalCluster, tmp_path: Path, assignment: list[int], says: str
) -> None:
    server = ("-b", three.bootstrap)
    quorate("topics", "create", "-t", "refused", "--replica-assignment", "1", *server)
    file = plan(tmp_path / "plan.json", "refused", assignment)
    refused = quorate("reassign-partitions", "execute", "--reassignment-json-file", file, *server)
    assert refused.exit_code == ExitCode.FAILED
    assert "refused-0" in refused.stderr and says in refused.stderr
    assert replicas(quorate, "refused", *server) == [[1]]


def test_what_does_not_exist_is_named(quorate: Quorate, three: LocalCluster, tmp_path: Path) -> None:
    server = ("-b", three.bootstrap)
    file = plan(tmp_path / "plan.json", "nope", [1])
    missing = quorate("reassign-partitions", "execute", "--reassignment-json-file", file, *server)
    assert missing.exit_code == ExitCode.FAILED
    assert "partition 0 of topic nope does not exist" in missing.stderr
    topics = tmp_path / "topics.json"
    topics.write_text('{"topics": [{"topic": "nope"}]}')
    for brokers, says in (("1,2", "topic nope does not exist"), ("1,x", "is not of the form 1,2,3")):
        result = quorate(
            "reassign-partitions",
            "generate",
            "--topics-to-move-json-file",
            topics,
            "--broker-list",
            brokers,
            *server,
        )
        assert says in result.stderr


def test_a_broker_is_drained_and_a_killed_one_is_moved_away_from(
    quorate: Quorate, three: LocalCluster, tmp_path: Path
) -> None:
    server = ("-b", three.bootstrap)

    def brokers() -> dict[int, Any]:
        return {each["id"]: each for each in json.loads(quorate("brokers", "list", "--json", *server).output)}

    quorate("topics", "create", "-t", "kept", "--replica-assignment", "1:3,3:2,2:1,3:1", *server)
    full = quorate("topics", "create", "-t", "full", "--replica-assignment", "1:2:3", *server)
    assert full.exit_code == 0
    before = replicas(quorate, "kept", *server)
    nowhere = quorate("brokers", "drain", 3, *server)
    assert nowhere.exit_code == ExitCode.FAILED
    assert "partition 0 of topic full has replicas on [1, 2, 3]" in nowhere.stderr
    assert replicas(quorate, "kept", *server) == before, "nothing is half done"
    quorate("topics", "delete", "-t", "full", *server)
    drained = quorate("brokers", "drain", 3, *server)
    assert drained.exit_code == 0, drained.output
    assert drained.output.endswith("Broker 3 has no replicas\n")
    assert replicas(quorate, "kept", *server) == [[1, 2], [1, 2], [2, 1], [2, 1]]
    assert (brokers()[3]["replicas"], brokers()[3]["leads"]) == (0, 0)
    assert {each["state"] for each in brokers().values()} == {"live"}
    again = quorate("brokers", "drain", 3, *server)
    assert (again.exit_code, again.output) == (0, "Broker 3 has no replicas\n")
    mistyped = quorate("brokers", "drain", 33, *server)
    assert mistyped.exit_code == ExitCode.FAILED
    assert "no broker 33 is registered" in mistyped.stderr
    assert "the brokers are 1, 2, 3" in mistyped.stderr


THROTTLE = 1_000_000
"""Bytes per second. A fetch takes as much of a partition at most, and the bytes of a second pass at once."""
RATES = {f"{side}.replication.throttled.rate": str(THROTTLE) for side in ("leader", "follower")}


def own_configs(quorate: Quorate, kind: str, name: object, *server: str) -> dict[str, str]:
    described = quorate(
        "configs", "describe", "--entity-type", kind, "--entity-name", name, "--json", *server
    )
    assert described.exit_code == 0, described.output
    (entity,) = json.loads(described.output)
    return {each["name"]: each["value"] for each in entity["configs"]}


def test_a_throttled_move_takes_its_time_and_verify_clears_the_throttle(
    quorate: Quorate, three: LocalCluster, tmp_path: Path
) -> None:
    server = ("-b", three.bootstrap)
    quorate("topics", "create", "-t", "heavy", "--replica-assignment", "1", *server)
    producer = Producer({"bootstrap.servers": three.bootstrap, "linger.ms": 0})
    for _ in range(60):
        producer.produce("heavy", b"x" * 100_000)
    assert producer.flush(20) == 0
    file = plan(tmp_path / "plan.json", "heavy", [2])
    began = time.monotonic()
    begun = quorate(
        "reassign-partitions",
        "execute",
        "--reassignment-json-file",
        file,
        "--throttle",
        THROTTLE,
        *server,
    )
    assert begun.exit_code == 0, begun.output
    for broker in (1, 2, 3):
        assert own_configs(quorate, "brokers", broker, *server) == RATES
    assert own_configs(quorate, "topics", "heavy", *server) == {
        "leader.replication.throttled.replicas": "0:1",
        "follower.replication.throttled.replicas": "0:2",
    }
    waits = quorate("reassign-partitions", "verify", "--reassignment-json-file", file, "--json", *server)
    (under_way,) = json.loads(waits.stdout)["underWay"]
    assert under_way["bytesLeft"] > THROTTLE, f"{under_way} {time.monotonic() - began:.1f} s after the start"
    assert own_configs(quorate, "brokers", 1, *server) == RATES, "a move that is not done keeps its throttle"
    done = quorate("reassign-partitions", "verify", "--reassignment-json-file", file, "--watch", *server)
    took = time.monotonic() - began
    assert done.exit_code == 0, done.output
    assert "Removed the throttles" in done.output
    assert 3.5 < took < 30, f"6 MB at 1 MB/s took {took:.1f} s"
    assert replicas(quorate, "heavy", *server) == [[2]]
    for broker in (1, 2, 3):
        assert own_configs(quorate, "brokers", broker, *server) == {}
    assert own_configs(quorate, "topics", "heavy", *server) == {}


def test_a_move_to_a_broker_that_died_waits_and_is_cancelled(
    quorate: Quorate, three: LocalCluster, tmp_path: Path
) -> None:
    quorate("topics", "create", "-t", "waits", "--replica-assignment", "1:2", "-b", three.bootstrap)
    bootstrap = ("-b", f"{three.host}:{three.nodes[0].client_port}")
    three.kill(3)
    deadline = time.monotonic() + 30
    while brokers_live(quorate, *bootstrap) != {1, 2}:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    file = plan(tmp_path / "plan.json", "waits", [1, 3])
    assert (
        quorate("reassign-partitions", "execute", "--reassignment-json-file", file, *bootstrap).exit_code == 0
    )
    waits = quorate("reassign-partitions", "verify", "--reassignment-json-file", file, *bootstrap)
    assert "Reassignment of partition waits-0 is still in progress" in waits.output
    (listed,) = json.loads(quorate("reassign-partitions", "list", "--json", *bootstrap).output)
    assert (listed["adding"], listed["removing"]) == ([3], [2])
    assert "waits" in quorate("reassign-partitions", "list", *bootstrap).output
    more = quorate("reassign-partitions", "execute", "--reassignment-json-file", file, *bootstrap)
    assert more.exit_code == ExitCode.FAILED
    assert "1 partitions are being moved already" in more.stderr
    ended = quorate("reassign-partitions", "cancel", "--reassignment-json-file", file, *bootstrap)
    assert ended.output == "Successfully cancelled partition reassignments for waits-0\n", ended.stderr
    assert replicas(quorate, "waits", *bootstrap)[0] == [1, 2]
    three.start(3)
    three.wait_ready()


def test_what_only_a_dead_broker_has_ends_the_drain_and_is_named(
    quorate: Quorate, three: LocalCluster
) -> None:
    """It used to wait for ever. What others have is moved all the same, and a second drain says it again."""
    server = ("-b", three.bootstrap)
    live = ("-b", three.bootstrap.rpartition(",")[0])
    for topic, assignment in (("alone", "3"), ("copied", "3:2")):
        created = quorate("topics", "create", "-t", topic, "--replica-assignment", assignment, *server)
        assert created.exit_code == 0, created.stderr
    still = quorate("brokers", "unregister", 3, *server)
    assert (
        still.exit_code == ExitCode.FAILED and "broker 3 is live: drain it and stop it first" in still.stderr
    )
    three.kill(3)
    wait_until(lambda: states(quorate, *live)[3] == "fenced")
    for _ in range(2):
        drained = quorate("brokers", "drain", 3, *live)
        assert drained.exit_code == ExitCode.FAILED, drained.output
        assert "alone-0 can't be moved: nobody leads it: its records are on broker 3, which is down" in (
            drained.stderr
        )
        assert (
            "copied" not in drained.stderr
            and "1 replicas stay on broker 3. Start the brokers" in drained.stderr
        )
        assert replicas(quorate, "copied", *live) == [[1, 2]]
    used = quorate("brokers", "unregister", 3, *live)
    assert used.exit_code == ExitCode.FAILED
    assert "1 partitions have a replica on broker 3, alone-0 for one: move them" in used.stderr
    three.start(3)
    three.wait_ready()
    ended = quorate("brokers", "drain", 3, *server)
    assert (ended.exit_code, ended.output.splitlines()[-1]) == (0, "Broker 3 has no replicas"), ended.stderr
    for topic in ("alone", "copied"):
        quorate("topics", "delete", "-t", topic, *server)


def test_a_new_replica_on_a_dead_broker_is_named_too(
    quorate: Quorate, three: LocalCluster, tmp_path: Path
) -> None:
    server = ("-b", three.bootstrap)
    live = ("-b", three.bootstrap.rpartition(",")[0])
    for topic in quorate("topics", "list", *server).output.split():
        quorate("topics", "delete", "-t", topic, *server)
    quorate("topics", "create", "-t", "goes", "--replica-assignment", "1", *server)
    three.kill(3)
    wait_until(lambda: states(quorate, *live)[3] == "fenced")
    file = plan(tmp_path / "plan.json", "goes", [3])
    begun = quorate("reassign-partitions", "execute", "--reassignment-json-file", file, *live)
    assert begun.exit_code == 0, begun.output
    drained = quorate("brokers", "drain", 1, *live)
    assert drained.exit_code == ExitCode.FAILED
    assert "goes-0 can't be moved: it is to have a replica on broker 3, which is down" in drained.stderr
    three.start(3)
    three.wait_ready()
    assert quorate("brokers", "drain", 1, *server).exit_code == 0
    quorate("topics", "delete", "-t", "goes", *server)


def test_a_broker_that_is_gone_for_good_is_unregistered(quorate: Quorate, three: LocalCluster) -> None:
    server = ("-b", three.bootstrap)
    live = ("-b", three.bootstrap.rpartition(",")[0])
    assert quorate("brokers", "drain", 3, *server).exit_code == 0
    three.kill(3)
    wait_until(lambda: states(quorate, *live)[3] == "fenced")
    gone = quorate("brokers", "unregister", 3, *live)
    assert (gone.exit_code, gone.output) == (0, "Broker 3 is no longer registered\n"), gone.stderr
    assert states(quorate, *live) == {1: "live", 2: "live"}
    unknown = quorate("brokers", "unregister", 3, *live)
    assert unknown.exit_code == ExitCode.FAILED
    assert "broker 3: Broker ID 3 is not currently registered." in unknown.stderr
    three.start(3)
    three.wait_ready()
    assert states(quorate, *server) == {1: "live", 2: "live", 3: "live"}
    forced = quorate("brokers", "unregister", 3, "--force", *server)
    assert forced.exit_code == 0, forced.stderr
    wait_until(lambda: states(quorate, *server).get(3) == "live")


def states(quorate: Quorate, *server: str) -> dict[int, str]:
    listed = json.loads(quorate("brokers", "list", "--json", *server).output)
    return {each["id"]: each["state"] for each in listed}


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, "it did not come to be within 30 s"
        time.sleep(0.2)


def brokers_live(quorate: Quorate, *server: str) -> set[int]:
    listed = json.loads(quorate("brokers", "list", "--json", *server).output)
    return {each["id"] for each in listed if each["address"] is not None}
