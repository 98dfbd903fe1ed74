"""`quorate cluster health` names real faults of real nodes, with remedies that mend them, and no others."""

import json
import re
import shlex
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.free_ports import free_ports
from quorate.cli.node.local_cluster import LocalCluster
from tests.cli.command import Processes, Quorate
from tests.cli.health_checks import BUDGET_S, controllers_of, follow, health, named, wait_named, wait_well
from tests.kit.clusters import running_cluster
from tests.kit.full_disk import fill
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster that the tests of this module share. Each leaves it well."""
    folder = tmp_path_factory.mktemp("health") / "cluster"
    with running_cluster(folder) as started:
        ask = Quorate().at(started)
        ask.output("topics", "create", "-t", "orders", "--partitions", 4, "--replication-factor", 3)
        yield started


@pytest.fixture
def well(cluster: LocalCluster) -> Iterator[LocalCluster]:
    """The same, before and after the test without a problem."""
    wait_well(cluster)
    yield cluster
    cluster.start()
    cluster.wait_ready(seconds=60)
    wait_well(cluster)


def test_a_cluster_that_is_well_is_one_line_from_brokers_controllers_and_a_folder(
    well: LocalCluster, quorate: Quorate
) -> None:
    line = quorate.output("cluster", "health", "-b", well.bootstrap)
    assert re.fullmatch(r"well: 3 voters, 3 brokers, 4 partitions, all in sync; asked in \d\.\d s\n", line), (
        line
    )
    line = quorate.output("cluster", "health", "-C", controllers_of(well))
    assert line.startswith("well: 3 voters, 3 brokers, 4 partitions, all in sync; asked in")
    # A node writes down once a second what is committed.
    wait_until(
        lambda: quorate.output("cluster", "health", "--data", well.folder / "1" / "data").startswith(
            "well: 3 brokers, 4 partitions, all in sync; as of "
        ),
        "the folder has it",
        seconds=5,
    )


def test_nobody_reached_and_wrong_options_have_their_exit_codes(quorate: Quorate, tmp_path: Path) -> None:
    nowhere = f"127.0.0.1:{free_ports(1)[0]}"
    for option in ("-b", "-C"):
        error = quorate.error("cluster", "health", option, nowhere, code=ExitCode.UNAVAILABLE)
        assert nowhere in error
    error = quorate.error("cluster", "health", "--data", tmp_path, "-b", nowhere, code=ExitCode.USAGE)
    assert "not both" in error
    quorate.error("cluster", "health", "--data", tmp_path, code=ExitCode.STORAGE)


def test_a_node_that_accepts_and_says_nothing_does_not_take_the_time_of_the_others(
    well: LocalCluster,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as dead:
        mute = f"127.0.0.1:{dead.getsockname()[1]}"
        for reach in (("-b", f"{mute},{well.bootstrap}"), ("-C", f"{mute},{controllers_of(well)}")):
            found = health(well, *reach)
            assert (found["well"], found["partitions"], found["unknown"]) == (True, 4, [])


def test_a_rolling_restart_is_no_problem(well: LocalCluster) -> None:
    for node in (1, 2, 3):
        assert well.stop(node) == {node: 0}
        assert health(well)["problems"] == []
        well.start(node)
        assert health(well)["problems"] == []
        well.wait_ready(seconds=60)
        wait_well(well)


def test_watch_says_what_changes_and_ends_on_ctrl_c(well: LocalCluster, processes: Processes) -> None:
    watching = processes.start("cluster", "health", "-b", well.bootstrap, "--watch")
    assert watching.stdout is not None
    assert " well: 3 voters" in watching.stdout.readline()
    well.kill(3)
    found = watching.stdout.readline()
    assert " serious: broker 3 is fenced: broker gone; last heard " in found
    well.start(3)
    while "mended: broker 3 is fenced" not in watching.stdout.readline():
        pass
    ended = processes.end(watching, signal.SIGINT)
    assert (ended.code, ended.errors) == (0, "")


def test_a_killed_broker_is_named_before_what_follows_and_is_well_when_it_is_started(
    well: LocalCluster, quorate: Quorate
) -> None:
    ask = quorate.at(well)
    strict = ("--replica-assignment", "1:2:3", "--config", "min.insync.replicas=3")
    ask.output("topics", "create", "-t", "strict", *strict)
    ask.output("topics", "create", "-t", "single", "--replica-assignment", "3")
    well.kill(3)
    problem = wait_named(well, "broker-fenced")
    assert problem["where"] == "broker 3"
    assert time.time() - problem["sinceMs"] / 1000 < BUDGET_S, "named within 3 s of the fence"
    assert problem["why"].startswith("broker gone; last heard ")
    wait_named(well, "offline-partitions")
    problems = health(well)["problems"]
    first, *rest = problems
    assert first["name"] == "broker-fenced"
    by_name = {each["name"]: each for each in rest}
    assert by_name["offline-partitions"]["where"] == "single-0"
    assert by_name["offline-partitions"]["remedy"].startswith("Start broker 3,")
    assert by_name["under-min-isr"]["where"] == "strict-0"
    assert by_name["under-replicated"]["where"] == "orders-0, orders-1, orders-2 and 1 more"
    assert {each["why"] for each in by_name.values() if each["becauseOf"]} == {"because broker 3 is fenced"}
    assert wait_named(well, "majority-at-risk")["where"] == "voter 3"
    # The same by the controllers, and by those that have no majority's help: one folder.
    assert set(named(well, "-C", controllers_of(well))) == {each["name"] for each in health(well)["problems"]}
    text = quorate("cluster", "health", "-b", well.bootstrap)
    assert text.exit_code == ExitCode.FAILED
    assert text.stdout.startswith("serious: broker 3 is fenced\n  why:       since ")

    follow(by_name["under-min-isr"], "configs")
    assert "under-min-isr" not in named(well)
    well.start(3)
    well.wait_ready(seconds=60)
    wait_well(well)
    for topic in ("strict", "single"):
        ask.output("topics", "delete", "-t", topic)


def test_without_a_majority_the_controllers_and_the_last_broker_say_that_there_is_no_leader(
    well: LocalCluster,
) -> None:
    for node in (2, 3):
        well.kill(node)
    problem = wait_named(well, "quorum-without-leader", "-C", controllers_of(well))
    assert problem["severity"] == "critical"
    assert "node 1 at " in problem["why"]
    assert wait_named(well, "quorum-without-leader")["where"] == "the quorum"
    well.start(2)
    well.wait_ready(seconds=60)
    assert "quorum-without-leader" not in named(well)


def test_a_paused_broker_is_not_known_first_and_then_fenced(well: LocalCluster) -> None:
    # Not the active controller: the others would have to elect one first.
    paused = next(each for each in (2, 3) if each != well.describe_quorum()["leaderId"])
    well.signal(paused, signal.SIGSTOP)
    try:
        unknown = health(well)["unknown"]
        assert f"broker {paused}" in [each["source"] for each in unknown]
        problem = wait_named(well, "broker-fenced")
        assert problem["where"] == f"broker {paused}"
        assert wait_named(well, "majority-at-risk")["where"] == f"voter {paused}"
    finally:
        well.signal(paused, signal.SIGCONT)


def test_a_move_to_a_dead_broker_is_named_and_cancelled_by_its_remedy(
    well: LocalCluster, quorate: Quorate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = quorate.at(well)
    ask.output("topics", "create", "-t", "moved", "--replica-assignment", "1:2")
    moves = tmp_path / "moves.json"
    moves.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": "moved", "partition": 0, "replicas": [1, 3]}]})
    )
    well.signal(3, signal.SIGSTOP)
    try:
        ask.output("reassign-partitions", "execute", "--reassignment-json-file", moves)
        problem = wait_named(well, "reassignment-stuck")
        assert (problem["where"], problem["becauseOf"]) == ("moved-0", ["broker 3"])
        wanted, written = re.fullmatch(
            r".*`echo '(.*)' > cancel.json; (quorate reassign-partitions .*)`", problem["remedy"]
        ).groups()  # type: ignore[union-attr]
        monkeypatch.chdir(tmp_path)
        Path("cancel.json").write_text(wanted)
        quorate.output(*shlex.split(written)[1:])
        assert "reassignment-stuck" not in named(well)
    finally:
        well.signal(3, signal.SIGCONT)
    well.wait_ready(seconds=60)
    ask.output("topics", "delete", "-t", "moved")


def replicas_of(ask: Quorate, topic: str) -> list[int]:
    (described,) = ask.json("topics", "describe", "-t", topic)
    found: list[int] = described["partitions"][0]["replicas"]
    return found


def test_a_move_that_only_removes_a_replica_waits_for_a_dead_one_that_stays_until_it_is_started(
    well: LocalCluster, quorate: Quorate, tmp_path: Path
) -> None:
    ask = quorate.at(well)
    ask.output("topics", "create", "-t", "less", "--replica-assignment", "1:2:3")
    moves = tmp_path / "moves.json"
    moves.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": "less", "partition": 0, "replicas": [1, 3]}]})
    )
    well.kill(3)
    wait_named(well, "broker-fenced", where="broker 3")
    ask.output("reassign-partitions", "execute", "--reassignment-json-file", moves)
    problem = wait_named(well, "reassignment-stuck", seconds=BUDGET_S)
    assert (problem["where"], problem["becauseOf"]) == ("less-0", ["broker 3"])
    assert problem["remedy"].startswith("Start broker 3, or cancel the move: `echo ")
    well.start(3)
    well.wait_ready(seconds=60)
    assert "reassignment-stuck" not in named(well)
    wait_until(lambda: replicas_of(ask, "less") == [1, 3], "the move ended", seconds=20)
    ask.output("topics", "delete", "-t", "less")


def test_a_lost_leader_is_replaced_by_the_printed_command_and_the_loss_is_named_afterwards(
    well: LocalCluster, quorate: Quorate
) -> None:
    ask = quorate.at(well)
    # With a min.insync.replicas of 2, broker 3 would be in the ELR, and lose nothing.
    lossy = ("--replica-assignment", "2:3", "--config", "min.insync.replicas=1")
    ask.output("topics", "create", "-t", "risky", *lossy)
    well.kill(3)
    wait_named(well, "broker-fenced", where="broker 3")
    # Only broker 2 has all records now, and it is lost, while 3 comes back.
    well.kill(2)
    well.start(3)
    wait_named(well, "offline-partitions", where="risky-0", seconds=60)
    wait_until(lambda: well.live_brokers() >= {1, 3}, "broker 3 is back", seconds=60)
    offline = wait_named(well, "offline-partitions", where="risky-0")
    assert offline["becauseOf"] == ["broker 2"]
    assert offline["remedy"].startswith("Start broker 2,")
    follow(offline, "leader-election")
    assert "offline-partitions" not in named(well)
    assert wait_named(well, "unclean-election")["where"] == "risky-0"
    well.start(2)
    well.wait_ready(seconds=60)
    ask.output("topics", "delete", "-t", "risky")


def test_a_broker_that_is_killed_again_and_again_flaps(well: LocalCluster) -> None:
    for _ in range(3):
        well.kill(3)
        wait_named(well, "broker-fenced", where="broker 3")
        well.start(3)
        well.wait_ready(seconds=60)
    # Another may flap too, by the tests before.
    wait_named(well, "broker-flapping", where="broker 3")


def test_a_failed_directory_and_a_full_disk_are_named(
    quorate: Quorate, tmp_path: Path, small_disk: Callable[[str], Path]
) -> None:
    disk = small_disk("size=64m")
    folder = tmp_path / "cluster"

    def second_directory(cluster: LocalCluster) -> None:
        config = cluster.node(1).config_file
        text = config.read_text()
        config.write_text(re.sub(r"(?m)^log\.dirs=(.*)$", rf"log.dirs=\1,{disk / 'logs'}", text))

    with running_cluster(folder, nodes=1, before_start=second_directory) as cluster:
        ask = quorate.at(cluster)
        ask.output("topics", "create", "-t", "t", "--partitions", 4, "--replication-factor", 1)
        filler = fill(disk)
        full = wait_named(cluster, "disk-full")
        assert full["where"] == f"directory {disk / 'logs'} of broker 1"
        filler.unlink()
        wait_well(cluster)
        fill(disk)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.timeout.ms": 3000})
        for partition in range(4):
            producer.produce("t", b"x" * 900_000, partition=partition)
        producer.flush(10)
        failed = wait_named(cluster, "directory-failed")
        assert failed["where"] == f"directory {disk / 'logs'} of broker 1"
        assert "offline-partitions" in named(cluster)


def test_a_secured_cluster_is_asked_with_the_clients_own_file(tmp_path: Path, processes: Processes) -> None:
    with running_cluster(tmp_path / "cluster", nodes=3, secure=True) as cluster:
        known = ("--command-config", cluster.secrets.client_file)
        asked = ("cluster", "health", *known, "-b", cluster.bootstrap)
        wait_until(lambda: processes.run(*asked).code == ExitCode.OK, "the cluster is well")
        line = processes.run(*asked).output
        assert line.startswith("well: 3 voters, 3 brokers, 0 partitions, all in sync; asked in"), line
        cluster.kill(3)
        wait_until(lambda: processes.run(*asked).code == ExitCode.FAILED, "the kill is found")
        text = processes.run(*asked).output
        assert "serious: broker 3 is fenced" in text
        assert f"`quorate --command-config {cluster.secrets.client_file} brokers unregister 3 " in text
        open_one = processes.run("cluster", "health", "-b", cluster.bootstrap)
        assert open_one.code == ExitCode.UNAVAILABLE
        assert "Traceback" not in open_one.errors
