"""A node in the foreground: the line that says that it serves, and the reasons why it refuses to."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import trio

from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.free_ports import free_ports
from quorate.cli.node.node_process import LogLevel, NodeStart
from quorate.raft import NodeId, Quorum, QuorumConfig, parse_voters
from quorate.runtime.real import SyncStrategy, real_runtime
from quorate.simulation.quorum.quorum_cluster import Journal
from tests.cli.command import Node, Processes, Quorate, first_line
from tests.kit.full_disk import fill
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.system


def started(processes: Processes, node: Node, *options: str) -> tuple[subprocess.Popen[str], str]:
    process = processes.start("server", "start", node.config, *options)
    return process, first_line(process)


def refused(processes: Processes, node: Node, code: ExitCode) -> str:
    ended = processes.run("server", "start", node.config)
    assert ended.code == code, ended.errors
    assert "Traceback" not in ended.errors
    assert "quorate: " in ended.errors
    return ended.errors


@pytest.mark.slow
def test_a_node_says_where_it_listens_and_stops_in_order(processes: Processes, formatted_node: Node) -> None:
    formatted_node.write(metrics_http_port="0")
    process, line = started(processes, formatted_node, "--log-json")
    assert line.startswith("node 1 of cluster a-cluster listens: clients at 127.0.0.1:")
    assert "metrics at http://127.0.0.1:" in line
    ended = processes.end(process, signal.SIGTERM)
    assert ended.code == 0, ended.errors
    events = [json.loads(logged) for logged in ended.errors.splitlines()]
    assert events[-1]["event"] == "stopped"
    assert {"event", "level", "timestamp"} <= events[0].keys()


@pytest.mark.slow
@pytest.mark.costly
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_it_starts_is_no_crash(
    processes: Processes, formatted_node: Node, number: signal.Signals
) -> None:
    """Signals come as soon as the process has its handlers, and at moments of the start after that."""
    for wait_seconds in (0.0, 0.1, 0.3, 0.6, 1.0):
        process = processes.start("server", "start", formatted_node.config)
        wait_until(partial(has_handler, process.pid, number), "it has its handlers")
        time.sleep(wait_seconds)
        ended = processes.end(process, number)
        assert ended.code == 0, (wait_seconds, ended)
        assert "Traceback" not in ended.errors


def test_collections_are_short_in_a_server(formatted_node: Node) -> None:
    code = (
        "import gc, pathlib, sys, quorate.cli.node.node_process as node\n"
        "async def seen(config):\n"
        "    print(gc.get_freeze_count() > 0)\n"
        "node.run_server = seen\n"
        "node.run_node(node.NodeStart(config=pathlib.Path(sys.argv[1])))\n"
    )
    command = [sys.executable, "-c", code, str(formatted_node.config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    incremental = sys.version_info >= (3, 14)
    assert done.stdout.split() == [str(not incremental)], done.stderr


@pytest.mark.parametrize(("command", "handled"), [("start", True), ("check", False)])
def test_the_handlers_come_before_all_that_takes_time(command: str, handled: bool) -> None:
    code = (
        f"import sys, signal; sys.argv = ['quorate', 'server', {command!r}, 'x']; import quorate.cli; "
        "print(signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL, 'typer' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == [str(handled), "False"], done.stderr


@pytest.mark.slow
def test_a_node_imports_no_codec_no_command_and_nothing_that_reads_them(
    formatted_node: Node, tmp_path: Path
) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "quorate.cli.main"]
    with (tmp_path / "imports").open("w") as errors:
        process = subprocess.Popen(
            [*command, "server", "start", str(formatted_node.config)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            assert process.stdout is not None
            assert "listens" in process.stdout.readline()
        finally:
            process.terminate()
            process.communicate(timeout=60)
    lines = (tmp_path / "imports").read_text().splitlines()
    names = {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}
    assert not [name for name in names if name.startswith("quorate.cli.commands")]
    unused = ("cramjam", "rich", "pygments", "hypothesis", "confluent_kafka", "typer", "pydantic", "click")
    assert not names.intersection(unused)


@pytest.mark.parametrize(
    ("arguments", "level", "as_json"),
    [
        ((), "info", False),
        (("--log-json",), "info", True),
        (("--log-level", "debug"), "debug", False),
        (("--log-level=error", "--log-json"), "error", True),
    ],
)
def test_a_command_line_that_starts_a_node_is_read_without_the_others(
    tmp_path: Path, arguments: tuple[str, ...], level: str, as_json: bool
) -> None:
    config = tmp_path / "server=1.properties"
    config.touch()
    wanted = NodeStart(config=config, log_level=LogLevel(level), log_json=as_json)
    start = ("quorate", "server", "start")
    assert NodeStart.parse((*start, str(config), *arguments)) == wanted
    assert NodeStart.parse((*start, *arguments, str(config))) == wanted


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("{config}", "{config}"),
        ("{config}", "--help"),
        ("{config}", "--log-level"),
        ("{config}", "--log-level", "loud"),
        ("{config}", "--log-level=loud"),
        ("{config}", "--log-json=1"),
        ("{config}.missing",),
        ("{folder}",),
    ],
)
def test_any_other_is_left_to_those_who_say_what_is_wrong(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    config = tmp_path / "server.properties"
    config.touch()
    given = [each.format(config=config, folder=tmp_path) for each in arguments]
    assert NodeStart.parse(("quorate", "server", "start", *given)) is None
    assert NodeStart.parse(("quorate", "server", str(config))) is None


def has_handler(pid: int, number: signal.Signals) -> bool:
    """Return whether the process has a handler of its own for the signal (Linux), and for SIGTERM not
    Python's default."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1) and bool(
        int(caught.split()[1], 16) >> (number - 1) & 1
    )


@pytest.mark.slow
def test_ctrl_c_stops_in_order_too(processes: Processes, formatted_node: Node) -> None:
    process, _ = started(processes, formatted_node)
    assert processes.end(process, signal.SIGINT).code == 0


@pytest.mark.slow
def test_a_port_that_is_taken_is_named(processes: Processes, formatted_node: Node) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        formatted_node.write(
            listeners=f"PLAINTEXT://{address},CONTROLLER://127.0.0.1:0",
        )
        assert address in refused(processes, formatted_node, ExitCode.FAILED)


@pytest.mark.slow
@pytest.mark.parametrize("other_ports", [False, True])
def test_a_second_process_on_the_folder_names_the_folder_not_the_port(
    processes: Processes, formatted_node: Node, other_ports: bool
) -> None:
    first, _ = started(processes, formatted_node)
    if other_ports:
        formatted_node.write()
    said = refused(processes, formatted_node, ExitCode.STORAGE)
    assert str(formatted_node.folder) in said and "another process is using this folder" in said
    assert processes.end(first, signal.SIGTERM).code == 0


@pytest.mark.slow
def test_a_folder_that_is_not_formatted_is_refused(processes: Processes, node: Node) -> None:
    assert "quorate storage format" in refused(processes, node, ExitCode.STORAGE)


@pytest.mark.slow
def test_a_folder_of_another_node_is_refused(processes: Processes, formatted_node: Node) -> None:
    formatted_node.write(node_id="2", controller_quorum_voters="2@127.0.0.1:9")
    assert "belongs to node 1, not 2" in refused(processes, formatted_node, ExitCode.STORAGE)


@pytest.mark.slow
def test_a_quorum_state_of_another_cluster_is_refused(processes: Processes, formatted_node: Node) -> None:
    file = formatted_node.folder / "__cluster_metadata-0" / "quorum-state"
    file.write_text(file.read_text().replace("a-cluster", "b-cluster"))
    assert "belongs to cluster b-cluster" in refused(processes, formatted_node, ExitCode.STORAGE)


@pytest.mark.slow
def test_a_truncated_quorum_state_is_refused(processes: Processes, formatted_node: Node) -> None:
    file = formatted_node.folder / "__cluster_metadata-0" / "quorum-state"
    file.write_bytes(file.read_bytes()[:20])
    said = refused(processes, formatted_node, ExitCode.STORAGE)
    assert str(file) in said
    assert len(file.read_bytes()) == 20


@pytest.mark.slow
def test_a_lost_quorum_state_is_refused(processes: Processes, formatted_node: Node) -> None:
    file = formatted_node.folder / "__cluster_metadata-0" / "quorum-state"
    file.unlink()
    assert "the file is missing" in refused(processes, formatted_node, ExitCode.STORAGE)
    assert not file.exists()


@pytest.mark.slow
def test_a_node_whose_disk_is_full_says_so_and_stops(
    processes: Processes, node: Node, quorate: Quorate, small_disk: Callable[[str], Path]
) -> None:
    disk = small_disk("size=256k")
    node.folder = disk / "data"
    node.write()
    quorate.output("storage", "format", "-t", "a-cluster", "-c", node.config)
    fill(disk)
    said = refused(processes, node, ExitCode.STORAGE)
    assert "no space left" in said.lower()
    assert str(disk) in said


@pytest.mark.slow
def test_a_broker_whose_folders_all_failed_stops_and_says_so(
    processes: Processes, node: Node, quorate: Quorate, small_disk: Callable[[str], Path]
) -> None:
    disk = small_disk("size=256k")
    # The quorum's folder is on another disk, and goes on.
    node.write(log_dirs=str(disk / "data"), metadata_log_dir=str(node.folder))
    quorate.output("storage", "format", "-t", "a-cluster", "-c", node.config)
    process, line = started(processes, node)
    address = re.search(r"clients at ([\d.:]+)", line)
    assert address is not None
    at = quorate.at(address[1])
    wait_until(lambda: at("topics", "create", "-t", "first").exit_code == 0, "the broker is ready")
    fill(disk)
    # The controller accepts it before the replica's folder is made.
    at("topics", "create", "-t", "one-too-many")
    ended = processes.end(process)
    assert ended.code == ExitCode.STORAGE, ended.errors
    assert "Traceback" not in ended.errors
    assert str(disk / "data") in ended.errors.splitlines()[-1]


@pytest.mark.slow
def test_a_log_that_is_damaged_below_what_was_synced_is_refused(
    processes: Processes, formatted_node: Node
) -> None:
    process, _ = started(processes, formatted_node)
    assert processes.end(process, signal.SIGTERM).code == 0
    file = formatted_node.folder / "__cluster_metadata-0" / f"{0:020}.log"
    data = bytearray(file.read_bytes())
    data[70] ^= 1
    file.write_bytes(data)
    said = refused(processes, formatted_node, ExitCode.STORAGE)
    assert str(file) in said
    assert file.read_bytes() == data, "what is damaged is left as it was found"


async def append_what_no_broker_reads(node: Node, record: bytes) -> int:
    config = QuorumConfig(
        node_id=NodeId(1),
        cluster_id="a-cluster",
        folder=str(node.folder),
        voters=parse_voters(f"1@127.0.0.1:{free_ports(1)[0]}"),
    )
    runtime = real_runtime(sync=SyncStrategy.INLINE)
    async with Quorum.open(config, Journal(), runtime=runtime) as quorum:
        return (await quorum.append([record])).base_offset


@pytest.mark.slow
def test_a_batch_that_no_broker_can_apply_ends_in_one_line_with_the_way_past_it(
    processes: Processes, formatted_node: Node, quorate: Quorate
) -> None:
    offset = trio.run(append_what_no_broker_reads, formatted_node, b"\xff no record")
    said = refused(processes, formatted_node, ExitCode.FAILED)
    (last,) = [line for line in said.splitlines() if line.startswith("quorate: ")]
    assert said.splitlines()[-1] == last
    assert f"the batch at offset {offset}, epoch 1" in last and "docs/how-to/skip-a-batch.md" in last
    quorate.output("log", "skip", formatted_node.folder, "--offset", offset, "--epoch", 1)
    process, _ = started(processes, formatted_node)
    assert processes.end(process, signal.SIGTERM).code == 0
