"""`python -m quorate.testing` and `quorate cluster start --ephemeral`, as test suites of other languages use
them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.kit.waiting import wait_until

pytestmark = pytest.mark.system

PROGRAM = (sys.executable, "-m", "quorate.testing")
EPHEMERAL = (sys.executable, "-m", "quorate.cli.main", "cluster", "start", "--ephemeral")


@contextmanager
def started(folder: Path, *command: str, stdin: int = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command,
        stdin=stdin,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for each in (process.stdin, process.stdout):
            if each is not None:
                each.close()


def ask(process: subprocess.Popen[str], line: str) -> dict[str, object]:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
    answer: dict[str, object] = json.loads(process.stdout.readline())
    return answer


def ready(process: subprocess.Popen[str]) -> dict[str, object]:
    assert process.stdout is not None
    found: dict[str, object] = json.loads(process.stdout.readline())
    return found


def left_in(folder: Path) -> list[Path]:
    return list(folder.glob("quorate-test-*"))


@pytest.mark.slow
def test_commands_are_answered_and_the_end_of_input_ends_the_cluster(tmp_path: Path) -> None:
    with started(tmp_path, *PROGRAM, "--nodes", "3", "--json") as process:
        nodes = ready(process)["nodes"]
        assert isinstance(nodes, list) and len(nodes) == 3
        assert ask(process, '{"create_topic": {"topic": "orders"}}') == {"result": None}
        leader = ask(process, '{"leader": ["orders"]}')["result"]
        assert isinstance(leader, int)
        others = sorted({1, 2, 3} - {leader})
        assert ask(process, json.dumps({"partition": [[leader], others]})) == {"result": None}
        assert ask(process, '{"leader": {"topic": "orders", "partition": 0}}')["result"] in others
        assert ask(process, json.dumps({"wait_isr": ["orders", 0, others]})) == {"result": None}
        assert ask(process, '{"isr": ["orders"]}') == {"result": others}
        assert left_in(tmp_path)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0
        assert left_in(tmp_path) == []


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("kill 1", "'kill 1' is no JSON"),
        ('{"kill": 1}', "kill: write its arguments as a list or as an object"),
        ('{"kill": [1], "heal": []}', 'write one command, such as {"kill": [1]}'),
        ('{"explode": []}', "there is no command explode; the commands are active_controller"),
        ('{"kill": [7]}', "kill: there is no node 7; the nodes are 1"),
        ('{"leader": []}', "leader: missing a required argument: 'topic'"),
    ],
)
def test_mistakes_are_answered(mistaken: subprocess.Popen[str], line: str, error: str) -> None:
    assert str(ask(mistaken, line)["error"]).startswith(error)


@pytest.fixture(scope="module")
def mistaken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    with started(tmp_path_factory.mktemp("mistaken"), *PROGRAM, "--nodes", "1", "--json") as process:
        ready(process)
        yield process


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_ephemeral_cluster_ends_with_its_program(tmp_path: Path, number: signal.Signals) -> None:
    with started(tmp_path, *EPHEMERAL, "--nodes", "1", "--json", stdin=subprocess.DEVNULL) as process:
        assert set(ready(process)) == {"clusterId", "bootstrapServers", "nodes"}
        assert left_in(tmp_path)
        process.send_signal(number)
        assert process.wait(60) == (0 if number is signal.SIGTERM else -number)
        wait_until(lambda: not left_in(tmp_path), "the folder is removed")


@pytest.mark.slow
def test_an_ephemeral_cluster_ends_with_its_parent(tmp_path: Path) -> None:
    """The parent is killed, and had given no input that could end."""
    code = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen({[*EPHEMERAL, '--nodes', '1', '--json']!r}, stdin=subprocess.DEVNULL)\n"
        "time.sleep(600)\n"
    )
    with started(tmp_path, sys.executable, "-c", code) as parent:
        ready(parent)
        assert left_in(tmp_path)
        parent.kill()
        wait_until(lambda: not left_in(tmp_path), "the folder is removed")


@pytest.mark.slow
@pytest.mark.slow
def test_a_secure_cluster_names_the_settings_of_its_users(tmp_path: Path) -> None:
    with started(tmp_path, *EPHEMERAL, "--nodes", "1", "--secure", "--json") as process:
        cluster = ready(process)
        assert ask(process, '{"create_topic": ["orders"]}') == {"result": None}
        added = ask(process, '{"add_user": ["alice"]}')["result"]
        assert ask(process, '{"allow": {"user": "alice", "topic": "orders"}}').keys() == {"error"}
        for user in (cluster["superUser"], added):
            assert isinstance(user, dict)
            assert user["librdkafka"]["bootstrap.servers"] == cluster["bootstrapServers"]
            found = AdminClient({**user["librdkafka"]}).list_topics(timeout=30).topics
            # To a user who may not describe it, a topic isn't there.
            assert ("orders" in found) == (user is cluster["superUser"])


@pytest.mark.slow
def test_an_ephemeral_cluster_chooses_its_own_folder_and_ports(tmp_path: Path) -> None:
    done = subprocess.run(
        [*EPHEMERAL, "--data", str(tmp_path / "data")], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 2
    assert "--ephemeral chooses its folder and its ports; leave --data out" in done.stderr
    done = subprocess.run(
        [*EPHEMERAL, "--config", "no.such.key=1"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 1
    assert done.stderr.startswith("quorate: --config no.such.key"), done.stderr
