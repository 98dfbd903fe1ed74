"""`quorate top` beside a load and a death."""

import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.local_cluster import LocalCluster
from tests.cli.command import COMMAND, Quorate
from tests.kit.clusters import running_cluster

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with running_cluster(tmp_path_factory.mktemp("top") / "cluster") as cluster:
        yield cluster


@pytest.fixture
def ask(quorate: Quorate, three: LocalCluster) -> Quorate:
    return quorate.at(three)


def test_throughput_and_a_death_are_seen(ask: Quorate, three: LocalCluster) -> None:
    ask.output("topics", "create", "-t", "busy", "--replica-assignment", "1:2:3")
    stop = threading.Event()

    def load() -> None:
        producer = Producer({"bootstrap.servers": three.bootstrap, "linger.ms": 5})
        while not stop.wait(0.005):
            producer.produce("busy", b"x" * 1000)
            producer.poll(0)
        producer.flush(20)

    loading = threading.Thread(target=load)
    loading.start()
    try:
        seen = ask.json("top", "--once", "--interval", "1")
        busy = next(each for each in seen["topics"] if each["name"] == "busy")
        assert busy["records_per_s"] > 10
        assert busy["bytes_per_s"] > 5000
        leads = next(each for each in seen["brokers"] if each["name"] == "1")
        assert leads["records_per_s"] == busy["records_per_s"]
        assert seen["leader"] in (1, 2, 3)
        assert "busy" in ask.output("top", "--once", "--interval", "0.5")
        watching = subprocess.Popen(
            [*COMMAND, "top", "--json", "--interval", "0.5", "-b", three.bootstrap],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert watching.stdout is not None
        watching.stdout.readline()
        three.kill(3)
        for line in watching.stdout:
            if "broker 3 is fenced" in line:
                break
        watching.send_signal(signal.SIGINT)
        _, errors = watching.communicate(timeout=30)
        assert watching.returncode == 0
        assert "Traceback" not in errors
    finally:
        stop.set()
        loading.join()


def test_a_cluster_that_is_not_there_is_an_error(quorate: Quorate, tmp_path: Path) -> None:
    asked = quorate("top", "--once", "-b", "127.0.0.1:9")
    assert asked.exit_code == ExitCode.UNAVAILABLE
    assert "127.0.0.1:9" in asked.stderr
