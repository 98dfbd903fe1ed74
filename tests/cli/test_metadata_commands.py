"""`quorate metadata`, on a live node, on its folder, and on a snapshot."""

import json
import os
import pty
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.local_cluster import LocalCluster
from tests.cli.command import COMMAND, SECONDS, Quorate
from tests.kit.clusters import running_cluster
from tests.kit.waiting import wait_until


def create(ask: Quorate, topic: str) -> None:
    ask.output("topics", "create", "-t", topic, "--partitions", 8, "--replication-factor", 1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Run a node whose history begins with a snapshot: its log before that is deleted."""
    # A topic fits into a segment, and what is older does not beside it, however few batches hold that.
    small = {
        "broker.rack": "a rack with a long name" * 10,
        "metadata.log.segment.bytes": "1024",
        "metadata.max.retention.bytes": "1024",
    }
    folder = tmp_path_factory.mktemp("metadata") / "cluster"
    with running_cluster(folder, nodes=1, overrides=small) as cluster:
        ask = Quorate().at(cluster)
        ask.output("snapshot", "take")
        create(ask, "early")
        ask.output("snapshot", "take")
        create(ask, "late")
        wait_until(
            lambda: f"{0:020}.log" not in os.listdir(log_of(cluster)),
            "the log no longer starts at 0",
            seconds=SECONDS,
        )
        yield cluster


@pytest.fixture
def live(quorate: Quorate, cluster: LocalCluster) -> Quorate:
    """Return the command at the running node."""
    return quorate.at(cluster)


@pytest.fixture(params=["live", "folder"])
def place(cluster: LocalCluster, request: pytest.FixtureRequest) -> Quorate:
    """Return the command at the running node, and at its folder."""
    return Quorate(("-b", cluster.bootstrap) if request.param == "live" else ("--data", folder_of(cluster)))


def folder_of(cluster: LocalCluster) -> Path:
    return cluster.node(1).folder / "data"


def log_of(cluster: LocalCluster) -> Path:
    return folder_of(cluster) / "__cluster_metadata-0"


def snapshot_of(cluster: LocalCluster) -> Path:
    (file,) = (each for each in log_of(cluster).glob("*.checkpoint") if not each.name.startswith("0" * 20))
    return file


def wait_for(quorate: Quorate, *arguments: object, shows: str) -> None:
    """Ask again until the file of high watermarks is at least this new."""
    wait_until(lambda: shows in quorate(*arguments).output, f"it shows {shows}", seconds=SECONDS)


@pytest.mark.slow
def test_a_live_cluster_is_read_from_its_snapshot_and_log(live: Quorate) -> None:
    assert live.output("metadata", "shell", "ls", "/topics/byName") == "early\nlate\n"
    partition = live("metadata", "shell", "cat", "/topics/byName/late/1")
    assert json.loads(partition.output)["replicas"] == [1]
    # A reader leaves no trace: there is no other replica than the node.
    assert live.json("quorum", "describe")["observers"] == []


@pytest.mark.slow
def test_a_folder_is_read_while_its_node_runs(quorate: Quorate, cluster: LocalCluster) -> None:
    wait_for(quorate, "metadata", "shell", "-d", folder_of(cluster), "ls", "/topics/byName", shows="late\n")
    tree = quorate.output("metadata", "shell", "--data", log_of(cluster), "tree", "/topics/byName/early")
    assert '  0: {"replicas": [1], ' in tree


def test_a_snapshot_is_read_by_itself(quorate: Quorate, cluster: LocalCluster, tmp_path: Path) -> None:
    copied = shutil.copy(snapshot_of(cluster), tmp_path)
    assert quorate.output("metadata", "shell", "--snapshot", copied, "ls", "/topics/byName") == "early\n"


@pytest.mark.costly
def test_the_image_as_it_was_is_shown(place: Quorate, cluster: LocalCluster) -> None:
    wait_for(place, "metadata", "shell", "ls", "/topics/byName", shows="late\n")
    now = place.json("metadata", "at")
    assert (now["topics"], now["partitions"], now["brokers"], now["leaderless"]) == (2, 16, 1, 0)
    end = int(snapshot_of(cluster).name[:20])
    then = place.json("metadata", "at", "--offset", end - 1)
    assert (then["topics"], then["offset"]) == (1, end - 1)
    summary = place("metadata", "at", "-o", end - 1).output.splitlines()
    assert {"topics: 1", f"offset: {end - 1}", "inTransaction: false"} <= set(summary)
    for moment in (then["timestamp"], then["time"]):
        named = place.json("metadata", "at", "--timestamp", moment, "/topics/byName/*/name")
        assert named == {"/topics/byName/early/name": "early"}
    shown = place("metadata", "at", "-o", end - 1, "/topics/byName")
    assert shown.stdout.startswith("byName:\n  early:\n    id: ")
    assert shown.stderr.startswith(f"As of offset {end - 1}, epoch ")


def test_a_moment_that_is_gone_or_not_there_yet_is_refused(place: Quorate, cluster: LocalCluster) -> None:
    end = int(snapshot_of(cluster).name[:20])
    for moment in (("--offset", 2), ("--timestamp", "2020-01-01T00:00:00Z")):
        assert f"the earliest is offset {end - 1}, of 20" in place.error("metadata", "at", *moment)
    late = place.error("metadata", "at", "--offset", 1_000_000)
    assert "offset 1000000 is not there yet: the last" in late


def test_the_difference_of_two_images_is_shown(live: Quorate, cluster: LocalCluster) -> None:
    end = int(snapshot_of(cluster).name[:20])
    setting = ("--entity-type", "topics", "--entity-name", "late", "--add-config", "retention.ms=7")
    live.output("configs", "alter", *setting)
    changes = live("metadata", "diff", end - 1, "--json")
    found = {each["path"]: each for each in map(json.loads, changes.output.splitlines())}
    assert {path for path in found if path.startswith("/topics")} == {
        "/topics/byName/late",
        *(f"/topics/byName/late/{number}" for number in range(8)),
    }
    assert found["/topics/byName/late/0"]["before"] is None
    name = "/configs/topics/late/retention.ms"
    assert found[name] == {"path": name, "before": None, "after": {"value": "7"}}
    lines = live("metadata", "diff", end - 1).output.splitlines()
    assert any(line.startswith("+ /topics/byName/late/0 replicas [1]") for line in lines)
    assert f"+ {name} value 7" in lines
    live.error("metadata", "diff", 2000)
    back = live.error("metadata", "diff", end + 1, end, code=ExitCode.USAGE)
    assert "give the earlier one first" in back


@pytest.mark.slow
def test_commands_come_from_a_pipe(cluster: LocalCluster) -> None:
    def run(lines: str) -> subprocess.CompletedProcess[str]:
        command = [*COMMAND, "metadata", "shell", "--data", str(folder_of(cluster))]
        return subprocess.run(command, input=lines, capture_output=True, text=True, timeout=SECONDS)

    done = run("cd topics/byName/early\npwd\ncat name\nexit\ncat nothing\n")
    assert (done.returncode, done.stdout) == (0, "/topics/byName/early\nearly\n"), done.stderr
    failed = run("cat /nothing\npwd\n")
    assert (failed.returncode, failed.stdout) == (ExitCode.FAILED, "")
    assert "/nothing is not there; / has: acls, brokers, " in failed.stderr


@pytest.mark.slow
def test_commands_are_typed_at_a_terminal(live: Quorate, cluster: LocalCluster) -> None:
    """Names are completed, an error asks for the next command, and topics created meanwhile are listed."""
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
        create(live, "unborn")
        os.write(ours, b"cat unborn/name\n")
        expect("\nunborn\r\n/topics/byName > ")
        os.write(ours, b"exit\n")
        assert process.wait(SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    live.output("topics", "delete", "-t", "unborn")


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
def test_a_place_without_metadata_is_refused(
    quorate: Quorate, tmp_path: Path, arguments: tuple[object, ...], code: ExitCode, problem: str
) -> None:
    (tmp_path / "a.log").write_bytes(b"")
    given = (str(each).replace("EMPTY", str(tmp_path)) for each in arguments)
    said = quorate.error("metadata", *given, code=code)
    assert any(each in said for each in problem.split("|")), said


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
        said = quorate.error("metadata", "shell", "-s", file, "ls", code=ExitCode.STORAGE)
        assert file.name in said and problem in said, said
    text = tmp_path / f"{5:020}-{1:010}.checkpoint"
    text.write_text("what a strange snapshot this is, with no batch at all in its whole long text\n" * 3)
    assert text.name in quorate.error("metadata", "shell", "-s", text, "ls", code=ExitCode.STORAGE)
