"""`quorate.blocking`: a quorum for threads."""

import _thread
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trio
from own_thread import thread_count
from waiting import wait_until

from quorate.blocking import Quorum, format_folder
from quorate.raft import (
    InvalidArgumentError,
    NodeId,
    NotLeaderError,
    OutcomeUnknownError,
    QuorumConfigError,
    QuorumError,
    QuorumForkedError,
    QuorumStoppedError,
    QuorumThreadError,
    StateMachineError,
)
from quorate.runtime import DiskLockedError
from tests.doors.conftest import Sums

PATIENCE_S = 120
ROOT = Path(__file__).parents[2]


def test_threads_append_at_once_and_each_gets_its_own_result(config) -> None:
    with Quorum.open(config, Sums()) as quorum, ThreadPoolExecutor(8) as pool:
        assert quorum.wait_leader(timeout_ms=20_000) == quorum.leader == 1
        totals = pool.map(lambda _: quorum.append([b"1", b"1"]).results, range(40))
        assert sorted(totals) == [(2 * n + 1, 2 * n + 2) for n in range(40)]


def test_what_was_appended_is_there_after_a_restart(config) -> None:
    for total in (3, 6):
        sums = Sums()
        with Quorum.open(config, sums) as quorum:
            quorum.wait_leader()
            assert quorum.append([b"3"]).results == (total,)
            assert quorum.take_snapshot() in quorum.snapshots()
        assert sums.total == total


def test_appends_keep_the_order_in_which_their_places_were_reserved(config) -> None:
    with Quorum.open(config, Sums()) as quorum:
        quorum.wait_leader()
        pending = [quorum.append_nowait([b"1"]) for _ in range(20)]
        assert [each.wait().results for each in pending] == [(n,) for n in range(1, 21)]


def test_errors_are_those_of_raft(config) -> None:
    with pytest.raises(QuorumConfigError, match="is formatted already"):
        format_folder(config.folder, cluster_id="doors", node_id=NodeId(1))
    with pytest.raises(QuorumConfigError, match="no method apply"), Quorum.open(config, object()):
        pass
    with Quorum.open(config, Sums()) as quorum:
        with pytest.raises(DiskLockedError), Quorum.open(config, Sums()):
            pass
        with pytest.raises(InvalidArgumentError, match="timeout_ms is -1"):
            quorum.append([b"1"], timeout_ms=-1)


def test_a_leader_that_is_not_there_is_waited_for_until_the_timeout(lone_config) -> None:
    with Quorum.open(lone_config, Sums()) as quorum:
        with pytest.raises(NotLeaderError):
            quorum.wait_leader(timeout_ms=50)
        with pytest.raises(NotLeaderError):
            quorum.describe()


CALLS = {
    "wait_leader": lambda quorum: quorum.wait_leader(),
    "append": lambda quorum: quorum.append([b"1"]),
    "wait_read_index": lambda quorum: quorum.wait_read_index(),
    "wait_applied": lambda quorum: quorum.wait_applied(10**9),
    "ask_description": lambda quorum: quorum.ask_description(),
    "adopt_voters": lambda quorum: quorum.adopt_voters(),
    "leadership_changes": lambda quorum: list(quorum.leadership_changes()),
}


@pytest.mark.bug("kazoo issue 482")
@pytest.mark.parametrize("name", CALLS)
def test_a_call_in_flight_and_a_late_one_are_told_that_the_quorum_has_stopped(lone_config, name) -> None:
    errors = []

    def call() -> None:
        try:
            CALLS[name](quorum)
        except QuorumError as error:
            errors.append(error)

    with Quorum.open(lone_config, Sums()) as quorum:
        waiting = threading.Thread(target=call)
        waiting.start()
        time.sleep(0.1)
        assert waiting.is_alive()
    waiting.join(PATIENCE_S)
    call()
    assert [type(error) for error in errors] == [QuorumStoppedError] * 2, errors


def test_appends_in_progress_end_before_the_block_does(config) -> None:
    with ThreadPoolExecutor(8) as pool:
        with Quorum.open(config, Sums()) as quorum:
            quorum.wait_leader()
            pending = [quorum.append_nowait([b"1"]) for _ in range(8)]
            results = [pool.submit(each.wait) for each in pending]
            while not all(each.running() or each.done() for each in results):
                time.sleep(0.001)
        assert [each.result(PATIENCE_S).results for each in results] == [(n,) for n in range(1, 9)]


def test_a_state_machine_that_raises_stops_the_node_and_the_block_says_so(config) -> None:
    with pytest.raises(QuorumStoppedError) as stopped, Quorum.open(config, Sums()) as quorum:
        quorum.wait_leader()
        with pytest.raises(OutcomeUnknownError):
            quorum.append([b"poison"])
        with pytest.raises(QuorumStoppedError) as late:
            quorum.append([b"1"])
        assert isinstance(late.value.__cause__, StateMachineError)
        assert not quorum.health.healthy
    assert isinstance(stopped.value.__cause__, StateMachineError)


def test_an_exception_of_the_block_passes_and_the_folder_is_free_again(config) -> None:
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), Quorum.open(config, Sums()):
            raise ZeroDivisionError
    assert not [each for each in threading.enumerate() if each.name == "quorate"]


@pytest.mark.bug("kazoo issue 208")
def test_a_call_of_the_state_machine_that_would_wait_for_itself_is_refused(config) -> None:
    sums, errors = Sums(), []

    def call_back() -> None:
        for call in (lambda: quorum.append([b"1"]), lambda: quorum.snapshots()):
            with pytest.raises(QuorumThreadError) as refused:
                call()
            errors.append(refused.value)

    with Quorum.open(config, sums) as quorum:
        quorum.wait_leader()
        sums.calls.append(call_back)
        assert quorum.append([b"5"]).results == (5,)
    assert ["make it on another thread" in str(error) for error in errors] == [True, True]


def test_an_interrupt_ends_a_wait_and_the_quorum_goes_on(config) -> None:
    with Quorum.open(config, Sums()) as quorum:
        quorum.wait_leader()
        threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            quorum.wait_applied(10**9)
        assert quorum.append([b"1"]).results == (1,)
        nursery = quorum.read(lambda: trio.lowlevel.current_task().parent_nursery)
        assert quorum.read(lambda: len(nursery.child_tasks)) == 1, "the call that was interrupted goes on"


@pytest.mark.bug("gRPC issue 12455")
def test_a_forked_child_is_refused_at_once_and_leaves_the_block_in_peace(config) -> None:
    with Quorum.open(config, Sums()) as quorum:
        quorum.wait_leader()
        pending = quorum.append_nowait([b"1"])
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(PATIENCE_S)
            said = []
            for call in (lambda: quorum.append([b"1"]), lambda: quorum.leader, pending.wait):
                try:
                    call()
                except QuorumForkedError as error:
                    said.append("opened in post_worker_init" in str(error))
            os.write(writer, str(said).encode())
            os._exit(0)
        os.close(writer)
        _, status = os.waitpid(child, 0)
        with os.fdopen(reader) as pipe:
            assert (pipe.read(), status) == ("[True, True, True]", 0)
        assert pending.wait().results == (1,)
        assert quorum.append([b"1"]).results == (2,)


PROGRAM = """
import os, sys
from quorate.blocking import Quorum
from quorate.raft import NodeId, QuorumConfig, parse_voters
from tests.doors.conftest import Sums
voters = parse_voters({voters!r})
config = QuorumConfig(node_id=NodeId(1), cluster_id="doors", folder={folder!r}, voters=voters)
"""


def program(config, rest: str) -> subprocess.CompletedProcess[str]:
    """Run a program that has `config`, in a process of its own."""
    voter = next(iter(config.voters))
    voters = f"1@{voter.endpoint.host}:{voter.endpoint.port}"
    begin = PROGRAM.format(folder=config.folder, voters=voters)
    return subprocess.run(
        [sys.executable, "-c", begin + rest],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.slow
def test_a_child_that_runs_to_its_end_stops_nothing(config) -> None:
    done = program(config, """
with Quorum.open(config, Sums()) as quorum:
    quorum.wait_leader()
    child = os.fork()
    if child:
        print(os.waitpid(child, 0)[1], quorum.append([b"2"]).results)
""")  # fmt: skip
    assert (done.stdout, done.stderr) == ("0 (2,)\n", "")


@pytest.mark.bug("gRPC issue 22624")
def test_programs_are_started_beside_a_quorum_under_load(config) -> None:
    stop = threading.Event()

    def load() -> None:
        while not stop.is_set():
            quorum.append([b"1"])

    with Quorum.open(config, Sums()) as quorum, ThreadPoolExecutor(6) as pool:
        quorum.wait_leader()
        try:
            loads = [pool.submit(load) for _ in range(2)]
            runs = [pool.submit(subprocess.run, ["true"], timeout=PATIENCE_S) for _ in range(100)]
            assert {each.result().returncode for each in runs} == {0}
        finally:
            stop.set()
        assert [each.result() for each in loads] == [None, None]


@pytest.mark.slow
def test_an_interpreter_that_exits_with_an_open_quorum_stops_it_in_order(config) -> None:
    done = program(config, """
import atexit, threading
from contextlib import ExitStack
atexit.register(lambda: print(quorum.health.reason))  # behind the quorum's own
stack = ExitStack()
quorum = stack.enter_context(Quorum.open(config, Sums()))
quorum.wait_leader()
threading.Thread(target=lambda: quorum.wait_applied(100), daemon=True).start()
atexit.register(lambda: print(quorum.append([b"4"]).results))  # while everything still runs
pending = [quorum.append_nowait([b"1"]) for _ in range(3)]
threading.excepthook = lambda raised: None
sys.exit(3)
""")  # fmt: skip
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout == "(7,)\nthe node has stopped\n"
    with Quorum.open(config, sums := Sums()) as quorum:
        quorum.wait_read_index()
        assert sums.total == 7


@pytest.mark.bug("kazoo issue 116")
def test_patched_threads_are_refused_when_the_quorum_is_opened(config, monkeypatch) -> None:
    start = _thread.start_new_thread
    monkeypatch.setattr(_thread, "start_new_thread", lambda *arguments: start(*arguments))
    with pytest.raises(QuorumConfigError, match="gthread"), Quorum.open(config, Sums()):
        pass


@pytest.mark.slow
@pytest.mark.bug("python-etcd3 issue 291")
def test_a_quorum_that_is_closed_leaves_no_thread_and_no_file_behind(config) -> None:
    before = thread_count()
    files = []
    for _ in range(8):
        with Quorum.open(config, Sums()) as quorum:
            quorum.wait_leader()
            quorum.append([b"1"])
            quorum.take_snapshot()
        del quorum
        gc.collect()
        files.append(len(os.listdir("/proc/self/fd")))
    assert files[-1] <= files[2], files
    # A thread that waits for devices ends a little after the garbage that it was.
    wait_until(lambda: thread_count() <= before, "no more threads than before")


def test_a_leaders_work_in_a_thread_sees_that_its_leadership_is_lost(config) -> None:
    epochs = []
    with Quorum.open(config, Sums()) as quorum:
        for _ in range(2):
            with quorum.while_leading() as leading:
                epochs.append(leading.epoch)
                leading.check()
                quorum.resign()
                assert leading.lost.wait(PATIENCE_S)
                with pytest.raises(NotLeaderError):
                    leading.check()
        with quorum.while_leading() as leading:
            pass
    assert epochs[0] < epochs[1] < leading.epoch
    assert leading.lost.is_set()


def test_a_read_runs_where_apply_does_and_no_record_comes_between(config) -> None:
    sums = Sums()
    with Quorum.open(config, sums) as quorum:
        quorum.wait_leader()
        quorum.append([b"3"])
        assert quorum.read(lambda: (sums.total, threading.current_thread().name)) == (3, "quorate")
