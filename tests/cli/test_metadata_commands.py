"""`quorate metadata`, on a live node, on its folder, and on a snapshot."""

import json
import os
import pty
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from quorate.cli.all_commands import every_command
from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.local_cluster import LocalCluster
from tests.cli.conftest import COMMAND, SECONDS

Quorate = Callable[..., Result]


def create(quorate: Quorate, cluster: LocalCluster, topic: str) -> None:
    options = ("--partitions", 8, "--replication-factor", 1, "-b", cluster.bootstrap)
    result = quorate("topics", "create", "-t", topic, *options)
    assert result.exit_code == 0, result.stderr


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A node whose history begins with a snapshot: its log before that is gone."""
    small = {"metadata.log.segment.bytes": "1024", "metadata.max.retention.bytes": "1024"}
    folder = tmp_path_factory.mktemp("metadata") / "cluster"
    cluster = LocalCluster.plan(folder, nodes=1, client_port=0, overrides=small)

    def quorate(*arguments: object) -> Result:
        return CliRunner().invoke(every_command(), [str(each) for each in arguments])

    try:
        cluster.prepare()
        cluster.start()
        cluster.wait_ready()
        for topic in (None, "early"):
            if topic is not None:
                create(quorate, cluster, topic)
            taken = quorate("snapshot", "take", "-b", cluster.bootstrap)
            assert taken.exit_code == 0, taken.stderr
        create(quorate, cluster, "late")
        deadline = time.monotonic() + SECONDS
        while f"{0:020}.log" in os.listdir(log_of(cluster)):
            assert time.monotonic() < deadline, f"the log still starts at 0: {os.listdir(log_of(cluster))}"
            time.sleep(0.1)
        yield cluster
    finally:
        cluster.kill_all()


def folder_of(cluster: LocalCluster) -> Path:
    return cluster.node(1).folder / "data"


def log_of(cluster: LocalCluster) -> Path:
    return folder_of(cluster) / "__cluster_metadata-0"


def snapshot_of(cluster: LocalCluster) -> Path:
    (file,) = (each for each in log_of(cluster).glob("*.checkpoint") if not each.name.startswith("0" * 20))
    return file


def wait_for(quorate: Quorate, *arguments: object, shows: str) -> Result:
    """Ask again until the file of high watermarks is as new as that."""
    deadline = time.monotonic() + SECONDS
    while True:
        result = quorate(*arguments)
        if shows in result.output:
            return result
        assert time.monotonic() < deadline, f"{result.output}{result.stderr} has no {shows}"
        time.sleep(0.2)


def test_a_live_cluster_is_read_from_its_snapshot_and_log(quorate: Quorate, cluster: LocalCluster) -> None:
    listed = quorate("metadata", "shell", "-b", cluster.bootstrap, "ls", "/topics/byName")
    assert (listed.exit_code, listed.output) == (0, "early\nlate\n"), listed.stderr
    partition = quorate("metadata", "shell", "-b", cluster.bootstrap, "cat", "/topics/byName/late/1")
    assert json.loads(partition.output)["replicas"] == [1]
    # What is read leaves no trace: there is no other replica than the node.
    described = quorate("quorum", "describe", "-b", cluster.bootstrap, "--json")
    assert json.loads(described.output)["observers"] == []


def test_a_folder_is_read_while_its_node_runs(quorate: Quorate, cluster: LocalCluster) -> None:
    wait_for(quorate, "metadata", "shell", "-d", folder_of(cluster), "ls", "/topics/byName", shows="late\n")
    tree = quorate("metadata", "shell", "--data", log_of(cluster), "tree", "/topics/byName/early")
    assert tree.exit_code == 0 and '  0: {"replicas": [1], ' in tree.output


def test_a_snapshot_is_read_by_itself(quorate: Quorate, cluster: LocalCluster, tmp_path: Path) -> None:
    copied = shutil.copy(snapshot_of(cluster), tmp_path)
    result = quorate("metadata", "shell", "--snapshot", copied, "ls", "/topics/byName")
    assert (result.exit_code, result.output) == (0, "early\n")


@pytest.mark.parametrize("live", [True, False], ids=["live", "folder"])
def test_the_image_as_it_was_is_shown(quorate: Quorate, cluster: LocalCluster, live: bool) -> None:
    place = ("-b", cluster.bootstrap) if live else ("--data", folder_of(cluster))
    wait_for(quorate, "metadata", "shell", *place, "ls", "/topics/byName", shows="late\n")
    now = json.loads(quorate("metadata", "at", *place, "--json").output)
    assert (now["topics"], now["partitions"], now["brokers"], now["leaderless"]) == (2, 16, 1, 0)
    end = int(snapshot_of(cluster).name[:20])
    then = quorate("metadata", "at", "--offset", end - 1, *place, "--json")
    assert json.loads(then.output) | {"topics": 1, "offset": end - 1} == json.loads(then.output)
    summary = quorate("metadata", "at", "-o", end - 1, *place).output.splitlines()
    assert {"topics: 1", f"offset: {end - 1}", "inTransaction: false"} <= set(summary)
    at = json.loads(then.output)["timestamp"]
    for moment in (at, json.loads(then.output)["time"]):
        result = quorate("metadata", "at", "--timestamp", moment, *place, "--json", "/topics/byName/*/name")
        assert json.loads(result.output) == {"/topics/byName/early/name": "early"}, result.stderr
    shown = quorate("metadata", "at", "-o", end - 1, *place, "/topics/byName")
    assert shown.stdout.startswith("byName:\n  early:\n    id: ")
    assert shown.stderr.startswith(f"As of offset {end - 1}, epoch ")


@pytest.mark.parametrize("live", [True, False], ids=["live", "folder"])
def test_what_is_gone_or_not_there_yet_is_refused(
    quorate: Quorate, cluster: LocalCluster, live: bool
) -> None:
    place = ("-b", cluster.bootstrap) if live else ("--data", folder_of(cluster))
    end = int(snapshot_of(cluster).name[:20])
    for moment in (("--offset", 2), ("--timestamp", "2020-01-01T00:00:00Z")):
        early = quorate("metadata", "at", *moment, *place)
        assert early.exit_code == ExitCode.FAILED
        assert f"the earliest is offset {end - 1}, of 20" in early.stderr, early.stderr
    late = quorate("metadata", "at", "--offset", 1_000_000, *place)
    assert late.exit_code == ExitCode.FAILED
    assert "offset 1000000 is not there yet: the last" in late.stderr


def test_the_difference_of_two_images_is_shown(quorate: Quorate, cluster: LocalCluster) -> None:
    end = int(snapshot_of(cluster).name[:20])
    setting = ("--entity-type", "topics", "--entity-name", "late", "--add-config", "retention.ms=7")
    altered = quorate("configs", "alter", *setting, "-b", cluster.bootstrap)
    assert altered.exit_code == 0, altered.stderr
    changes = quorate("metadata", "diff", end - 1, "-b", cluster.bootstrap, "--json")
    found = {each["path"]: each for each in map(json.loads, changes.output.splitlines())}
    assert {path for path in found if path.startswith("/topics")} == {
        "/topics/byName/late",
        *(f"/topics/byName/late/{number}" for number in range(8)),
    }
    assert found["/topics/byName/late/0"]["before"] is None
    name = "/configs/topics/late/retention.ms"
    assert found[name] == {"path": name, "before": None, "after": {"value": "7"}}
    lines = quorate("metadata", "diff", end - 1, "-b", cluster.bootstrap).output.splitlines()
    assert any(line.startswith("+ /topics/byName/late/0 replicas [1]") for line in lines)
    assert f"+ {name} value 7" in lines
    assert quorate("metadata", "diff", 2000, "-b", cluster.bootstrap).exit_code == ExitCode.FAILED
    back = quorate("metadata", "diff", end + 1, end, "-b", cluster.bootstrap)
    assert back.exit_code == ExitCode.USAGE and "give the earlier one first" in back.stderr


def test_commands_come_from_a_pipe(cluster: LocalCluster) -> None:
    done = subprocess.run(
        [*COMMAND, "metadata", "shell", "--data", str(folder_of(cluster))],
        input="cd topics/byName/early\npwd\ncat name\nexit\ncat nothing\n",
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (done.returncode, done.stdout) == (0, "/topics/byName/early\nearly\n"), done.stderr
    failed = subprocess.run(
        [*COMMAND, "metadata", "shell", "--data", str(folder_of(cluster))],
        input="cat /nothing\npwd\n",
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (failed.returncode, failed.stdout) == (ExitCode.FAILED, "")
    assert "/nothing is not there; / has: brokers, " in failed.stderr


def test_commands_are_typed_at_a_terminal(quorate: Quorate, cluster: LocalCluster) -> None:
    """Names are completed, an error asks for the next command, and what was created meanwhile is there."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "metadata", "shell", "-b", cluster.bootstrap],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "dumb", "NO_COLOR": "1"},
        close_fds=True,
    )
    os.close(theirs)
    seen = ""

    def expect(text: str) -> None:
        nonlocal seen
        deadline = time.monotonic() + SECONDS
        while text not in seen:
            assert time.monotonic() < deadline, f"{text!r} did not come: {seen!r}"
            if select.select([ours], [], [], 0.2)[0]:
                seen += os.read(ours, 4096).decode()
        seen = seen.partition(text)[2]

    try:
        expect("/ > ")
        os.write(ours, b"cd topics/byN\t\n")
        expect("/topics/byName > ")
        os.write(ours, b"cat unborn/id\n")
        expect("/topics/byName/unborn is not there")
        expect("/topics/byName > ")
        create(quorate, cluster, "unborn")
        os.write(ours, b"cat unborn/name\n")
        expect("\nunborn\r\n/topics/byName > ")
        os.write(ours, b"exit\n")
        assert process.wait(SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert quorate("topics", "delete", "-t", "unborn", "-b", cluster.bootstrap).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (("shell", "-b", "x:1", "--data", "."), ExitCode.USAGE, "give one place to read from|not both"),
        (("at", "-b", "x:1", "--data", "."), ExitCode.USAGE, "give --bootstrap-server or --data, not both"),
        (("at", "-o", 1, "-t", 1), ExitCode.USAGE, "give --offset or --timestamp, not both"),
        (("at", "-t", "noon"), ExitCode.USAGE, "--timestamp: 'noon' is no time; write 2026-"),
        (("diff", "noon"), ExitCode.USAGE, "BEFORE and AFTER: 'noon' is no time"),
        (("shell", "--data", "EMPTY", "ls"), ExitCode.STORAGE, "has no segment of a metadata log"),
        (("shell", "--snapshot", "EMPTY/a.log", "ls"), ExitCode.USAGE, "a.log is no snapshot; give a file"),
        (("shell", "-b", "127.0.0.1:1", "ls"), ExitCode.UNAVAILABLE, "no broker could serve"),
    ],
)
def test_what_is_not_metadata_is_refused(
    quorate: Quorate, tmp_path: Path, arguments: tuple[object, ...], code: ExitCode, problem: str
) -> None:
    (tmp_path / "a.log").write_bytes(b"")
    result = quorate("metadata", *(str(each).replace("EMPTY", str(tmp_path)) for each in arguments))
    assert result.exit_code == code, result.output
    assert any(each in result.stderr for each in problem.split("|")), result.stderr


def test_a_damaged_snapshot_and_one_of_something_else_are_refused(
    quorate: Quorate, cluster: LocalCluster, tmp_path: Path
) -> None:
    whole = snapshot_of(cluster)
    data = bytearray(whole.read_bytes())
    for position, problem in ((len(data) // 2, "CRC"), (None, "cut off")):
        file = tmp_path / whole.name
        spoiled = data.copy()
        if position is None:
            del spoiled[-5:]
        else:
            spoiled[position] ^= 1
        file.write_bytes(spoiled)
        result = quorate("metadata", "shell", "-s", file, "ls")
        assert result.exit_code == ExitCode.STORAGE, result.output
        assert file.name in result.stderr and problem in result.stderr, result.stderr
    text = tmp_path / f"{5:020}-{1:010}.checkpoint"
    text.write_text("what a strange snapshot this is, with no batch at all in its whole long text\n" * 3)
    result = quorate("metadata", "shell", "-s", text, "ls")
    assert result.exit_code == ExitCode.STORAGE and text.name in result.stderr
