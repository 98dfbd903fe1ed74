"""`quorate cluster health` names faults of machines, disks, networks and clients; its remedies end them."""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from quorate.cli.commands import health_commands
from quorate.cli.node.local_cluster import LocalCluster
from quorate.health import catalogue
from tests.cli.command import Processes, Quorate
from tests.cli.health_checks import BUDGET_S, follow, health, named, wait_named, wait_well
from tests.kit.clusters import running_cluster
from tests.kit.full_disk import fill
from tests.kit.host_faults import HostFaults
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.system, pytest.mark.slow]

SHORTENED = (
    "from quorate.health import catalogue; catalogue.REBALANCE_S = 6\n"
    "from quorate.cli.main import main; main()"
)
"""The command, for which a rebalance is without end after a tenth of the time."""
NODES = (1, 2, 3, 4, 5)
"""With five voters one may be silent, and no majority is at risk."""


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostFaults]:
    with HostFaults.installed(tmp_path_factory.mktemp("health") / "faults") as installed:
        yield installed


@pytest.fixture(scope="module")
def cluster(faults: HostFaults) -> Iterator[LocalCluster]:
    """A cluster that the tests of this module share. Each leaves it well."""
    with running_cluster(
        faults.folder / "cluster",
        nodes=len(NODES),
        voters=len(NODES),
    ) as started:
        ask = Quorate().at(started)
        ask.output("topics", "create", "-t", "orders", "--partitions", 4, "--replication-factor", 3)
        yield started


@pytest.fixture
def well(cluster: LocalCluster, faults: HostFaults) -> Iterator[LocalCluster]:
    """The same, before and after the test without a problem."""
    wait_well(cluster)
    yield cluster
    for node in NODES:
        faults.shift_clock(node, 0)
        faults.hang(node, None)
    cluster.start()
    cluster.wait_ready(seconds=60)
    wait_well(cluster)


def leader_of(cluster: LocalCluster) -> int:
    return int(str(cluster.describe_quorum()["leaderId"]))


def follower_of(cluster: LocalCluster) -> int:
    leader = leader_of(cluster)
    return next(node for node in NODES if node != leader)


def is_mended(cluster: LocalCluster, name: str) -> None:
    """The problem is gone as soon as its cause is, without a wait for new records."""
    wait_until(lambda: name not in named(cluster), f"{name} is mended", seconds=BUDGET_S)


# Clocks


@pytest.mark.parametrize(("seconds", "words"), [(-5.0, "5.0 s behind"), (5.0, "5.0 s ahead of")])
def test_a_broker_with_another_time_is_named_until_its_clock_is_synchronised(
    well: LocalCluster, faults: HostFaults, seconds: float, words: str
) -> None:
    node = follower_of(well)
    faults.shift_clock(node, seconds)
    found = wait_named(well, "clocks-differ", seconds=BUDGET_S)
    assert found["where"] == f"broker {node}"
    assert found["why"] == f"its clock is {words} the controller's"
    assert "chronyc tracking" in found["remedy"]
    assert set(named(well)) <= {"clocks-differ", "repeated-elections"}
    faults.shift_clock(node, 0)
    is_mended(well, "clocks-differ")


def test_a_controller_with_another_time_than_this_machine_is_named_once(
    well: LocalCluster, faults: HostFaults
) -> None:
    leader = leader_of(well)
    faults.shift_clock(leader, 30)
    found = wait_named(well, "clocks-differ", seconds=BUDGET_S)
    assert found["where"] == f"controller {leader}"
    assert found["why"] == "its clock is 30.0 s ahead of that of this machine"
    problems = [each for each in health(well)["problems"] if each["name"] == "clocks-differ"]
    assert len(problems) == 1, "not each broker beside it"
    faults.shift_clock(leader, 0)
    is_mended(well, "clocks-differ")


# A disk that hangs


def test_a_broker_whose_disk_hangs_is_named_until_it_goes_on(
    well: LocalCluster, faults: HostFaults, quorate: Quorate
) -> None:
    leader = leader_of(well)
    hung = follower_of(well)
    ask = quorate.at(well)
    faults.hang(hung, well.node(hung).folder / "data")
    began = time.monotonic()
    ask.output("topics", "create", "-t", "hung", "--replica-assignment", f"{leader}:{hung}")
    slow = wait_named(well, "slow-state-change", seconds=catalogue.SLOW_CHANGE_S + BUDGET_S)
    assert time.monotonic() - began > catalogue.SLOW_CHANGE_S - 1
    assert slow["where"] == f"broker {hung}"
    assert "hung-0" in slow["why"]
    assert "hung" in follow(slow, "state-changes")

    faults.hang(hung, None)
    is_mended(well, "slow-state-change")
    well.wait_ready(seconds=60)
    ask.output("topics", "delete", "-t", "hung")


# The quorum


def test_a_silent_voter_of_five_is_named_until_it_is_started(well: LocalCluster) -> None:
    node = follower_of(well)
    well.kill(node)
    found = wait_named(well, "voter-silent", seconds=catalogue.SILENT_S + BUDGET_S)
    assert (found["where"], found["why"]) == (f"voter {node}", "4 of 5 voters answer")
    assert found["remedy"].startswith(f"Start voter {node} where it ran")
    assert "majority-at-risk" not in named(well)
    well.start(node)
    well.wait_ready(seconds=60)
    wait_until(lambda: "voter-silent" not in named(well), "the voter is back", seconds=10)


def test_a_voter_that_returns_with_an_empty_disk_votes_again_after_the_commands_of_the_remedy(
    well: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = follower_of(well)
    well.kill(node)
    shutil.rmtree(well.node(node).folder / "data")
    well.prepare()
    well.start(node)
    well.wait_ready(seconds=60)
    found = wait_named(well, "voter-of-another-disk", seconds=BUDGET_S)
    assert found["where"] == f"voter {node}"
    follow(found, "remove-voter")
    monkeypatch.chdir(well.node(node).folder)
    follow(found, "add-voter")
    is_mended(well, "voter-of-another-disk")
    voters: Any = well.describe_quorum()["voters"]
    assert sorted(each["id"] for each in voters) == list(NODES)


def test_a_quorum_that_elects_again_and_again_is_named_for_ten_minutes(
    well: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = Quorate().at(well)
    elections = 0
    while "repeated-elections" not in named(well):
        elections += 1
        assert elections <= catalogue.ELECTIONS
        paused = leader_of(well)
        well.signal(paused, signal.SIGSTOP)
        try:
            others = Quorate(("-b", ",".join(at(well, node) for node in NODES if node != paused)))
            wait_until(
                lambda paused=paused, others=others: leads_other(others, paused), "another leads", seconds=30
            )
        finally:
            well.signal(paused, signal.SIGCONT)
        wait_until(lambda: not health(well)["unknown"], "all answer again", seconds=30)
    found = wait_named(well, "repeated-elections", seconds=BUDGET_S)
    assert found["where"] == "the quorum"
    assert found["why"].endswith(f" elections in {catalogue.ELECTION_MINUTES} minutes")
    follow(found, "describe")
    assert ask.output("quorum", "describe")
    # The elections have ended. The command's clock is put to both sides of the time that it names.
    for later_s, is_named in ((-1.0, True), (1.0, False)):
        monkeypatch.setattr(
            health_commands, "time", SimpleNamespace(time=lambda s=later_s: found["untilMs"] / 1000 + s)
        )
        assert ("repeated-elections" in named(well)) is is_named


def at(cluster: LocalCluster, node: int) -> str:
    return f"{cluster.host}:{cluster.node(node).client_port}"


def leads_other(ask: Quorate, than: int) -> bool:
    answer = ask("quorum", "describe", "--json")
    return answer.exit_code == 0 and f'"leaderId": {than},' not in answer.stdout


@pytest.mark.usefixtures("well")
def test_nodes_of_a_newer_version_are_named_with_the_upgrade_that_is_left(
    well: LocalCluster, faults: HostFaults
) -> None:
    for node in NODES:
        faults.support(node, "transaction.version", 1)
        assert well.stop(node) == {node: 0}
        assert "features-behind" not in named(well), "not before all support it"
        well.start(node)
        well.wait_ready(seconds=60)
    found = wait_named(well, "features-behind", seconds=BUDGET_S)
    assert found["where"] == "transaction.version"
    assert found["why"] == "level 0, and all brokers support 1"
    follow(found, "upgrade")
    is_mended(well, "features-behind")


# Clients


def test_a_group_with_a_member_that_does_not_poll_is_named_by_watch(
    well: LocalCluster, processes: Processes
) -> None:
    shared = {
        "bootstrap.servers": well.bootstrap,
        "group.id": "stuck",
        "max.poll.interval.ms": 600_000,
        "session.timeout.ms": 60_000,
    }
    stuck, other = Consumer(shared), Consumer(shared)
    try:
        stuck.subscribe(["orders"])
        wait_until(lambda: stuck.poll(0.2) is None and stuck.assignment(), "it is a member", seconds=60)
        # It works on a record now, and does not poll: the group waits for it.
        other.subscribe(["orders"])
        other.poll(1)
        with subprocess.Popen(
            [sys.executable, "-c", SHORTENED, "cluster", "health", "--watch", "-b", well.bootstrap],
            stdout=subprocess.PIPE,
            text=True,
        ) as watching:
            assert watching.stdout is not None
            try:
                for line in watching.stdout:
                    other.poll(0.1)
                    if "rebalances without end" in line:
                        break
                assert " warning: group stuck rebalances without end" in line
                assert f"`quorate groups describe --group stuck -b {well.bootstrap}`" in line
                # "max.poll.interval.ms": it polls again, and the group has its members.
                wait_until(
                    lambda: stuck.poll(0.1) is None and other.poll(0.1) is None and other.assignment(),
                    "the group has its members",
                    seconds=60,
                )
                for line in watching.stdout:
                    if "mended: group stuck rebalances without end" in line:
                        break
            finally:
                watching.send_signal(signal.SIGINT)
    finally:
        stuck.close()
        other.close()


# A disk that fills


def test_a_disk_that_records_fill_is_named_and_emptied_by_a_lower_retention(
    quorate: Quorate, tmp_path: Path, small_disk: Callable[[str], Path]
) -> None:
    disk = small_disk("size=64m")

    def second_directory(cluster: LocalCluster) -> None:
        config, data = cluster.node(1).config_file, cluster.node(1).folder / "data"
        text = config.read_text()
        config.write_text(text.replace(f"log.dirs={data}", f"log.dirs={data},{disk / 'logs'}"))

    overrides = {
        "log.retention.check.interval.ms": "1000",
        "log.segment.bytes": "1048576",
        "log.segment.delete.delay.ms": "0",
    }
    with running_cluster(
        tmp_path / "cluster", nodes=1, overrides=overrides, before_start=second_directory
    ) as cluster:
        ask = quorate.at(cluster)
        ask.output("topics", "create", "-t", "t", "--partitions", 4, "--replication-factor", 1)
        filler = fill(disk)
        with filler.open("r+b") as file:
            file.truncate(filler.stat().st_size - 6 * 2**20)
        assert "disk-nearly-full" not in named(cluster)
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        for _ in range(8):
            for partition in range(4):
                producer.produce("t", b"x" * 250_000, partition=partition)
            producer.flush(10)
        found = wait_named(cluster, "disk-nearly-full", seconds=BUDGET_S)
        assert found["where"] == f"directory {disk / 'logs'} of broker 1"
        follow(found, "describe")
        # "lower retention.bytes"
        ask.output("configs", "alter", "--entity-type", "topics", "--entity-name", "t",
                   "--add-config", "retention.bytes=1")  # fmt: skip
        wait_until(lambda: named(cluster) == {}, lambda: f"nothing is named: {named(cluster)}", seconds=60)
