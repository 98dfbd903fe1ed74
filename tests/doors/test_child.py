"""A node in a child process, through the doors for threads and asyncio."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from dataclasses import replace
from operator import methodcaller
from pathlib import Path
from types import ModuleType

import pytest
from child_sums import ChildSums, answer, broken, calls_under_way, divide
from waiting import wait_until

from quorate import aio, blocking
from quorate.cli.node.free_ports import free_ports
from quorate.raft import (
    InvalidArgumentError,
    NotLeaderError,
    OutcomeUnknownError,
    QuorumConfigError,
    QuorumError,
    QuorumStoppedError,
    parse_voters,
)
from quorate.raft.doors.child_messages import dump_error, load_error
from quorate.runtime import Address, DiskLockedError

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60
Steps = Generator[object, object, None]


@pytest.fixture(params=["blocking", pytest.param("aio", marks=pytest.mark.slow)])
def through(request, config):
    """A function that opens a node in a child process by one door, and takes the steps of a generator. Each
    yields a call, and gets what it returns or raises."""

    def run_blocking(steps_of: Callable[[object], Steps], machine, configured) -> None:
        with blocking.ChildQuorum.open(configured, machine) as quorum:
            steps, result = steps_of(quorum), None
            while True:
                try:
                    result = steps.send(result)
                except StopIteration:
                    return

    async def run_aio(steps_of: Callable[[object], Steps], machine, configured) -> None:
        async with aio.ChildQuorum.open(configured, machine) as quorum:
            steps, result, error = steps_of(quorum), None, None
            while True:
                try:
                    call = steps.send(result) if error is None else steps.throw(error)
                except StopIteration:
                    return
                result = error = None
                try:
                    result = await call
                except QuorumError as raised:
                    error = raised
                except ArithmeticError as raised:
                    error = raised

    def run(steps_of: Callable[[object], Steps], machine=ChildSums, configured=config) -> None:
        if request.param == "blocking":
            run_blocking(steps_of, machine, configured)
        else:
            asyncio.run(run_aio(steps_of, machine, configured))

    return run


def test_a_node_in_a_child_process_is_called_like_one_in_this(through):
    for total in (3, 6):  # the second time from its folder

        def steps(quorum, total=total) -> Steps:
            assert (yield quorum.wait_leader(timeout_ms=20_000)) == 1
            appended = yield quorum.append([b"1", b"2"])
            assert appended.results == (total - 2, total)
            assert (yield quorum.read(methodcaller("plus", 10))) == total + 10
            health = yield quorum.ask_health()
            assert health.healthy and health.leader == health.node_id == 1
            assert health.applied_offset == appended.base_offset + 2
            assert (yield quorum.describe()).high_watermark == health.applied_offset
            snapshot = yield quorum.take_snapshot()
            assert snapshot in (yield quorum.snapshots())

        through(steps)


def test_clients_read_by_a_function_of_the_state_machine(through, config):
    address = Address("127.0.0.1", free_ports(1)[0])

    def steps(quorum) -> Steps:
        yield quorum.wait_leader()
        yield quorum.append([b"5"])
        yield quorum.serve_reads(answer)
        with blocking.Client.open([address], sessions=False) as client:
            assert client.read(b"2") == b"7"

    through(steps, configured=replace(config, client_listen=address))


def test_what_can_not_be_carried_is_refused_with_the_remedy(through):
    def steps(quorum) -> Steps:
        yield quorum.wait_leader()
        with pytest.raises(InvalidArgumentError, match=r"read can't be pickled.*top of a module"):
            yield quorum.read(lambda sums: sums.total)
        with pytest.raises(OutcomeUnknownError, match="append is done, but its result can't be pickled"):
            yield quorum.append([b"unpicklable"])
        yield quorum.append([b"1"])
        assert (yield quorum.read(methodcaller("plus", 0))) == 1

    through(steps)


def test_an_error_of_the_child_keeps_its_type_fields_and_place(through):
    def steps(quorum) -> Steps:
        yield quorum.wait_leader()
        with pytest.raises(ZeroDivisionError, match="division by zero") as raised:
            yield quorum.read(divide)
        assert "in divide" in raised.value.__notes__[0]
        yield quorum.resign()
        epoch = (yield quorum.ask_health()).epoch
        with pytest.raises(NotLeaderError) as refused:
            yield quorum.describe()
        assert refused.value.epoch >= epoch and refused.value.leader is None

    through(steps)


def test_an_error_at_the_start_is_that_of_a_node_in_this_process(through, config):
    def never(quorum) -> Steps:
        raise AssertionError("it was opened")
        yield

    def error_of(open_it: Callable[[], object]) -> tuple[type, str]:
        with pytest.raises(Exception) as raised:
            open_it()
        return raised.type, str(raised.value)

    def here(configured) -> None:
        with blocking.Quorum.open(configured, ChildSums()):
            raise AssertionError("it was opened")

    wrong = replace(config, cluster_id="another")
    assert error_of(lambda: through(never, configured=wrong)) == error_of(lambda: here(wrong))
    with blocking.Quorum.open(config, ChildSums()):
        kind, message = error_of(lambda: through(never))
        assert (kind, message) == error_of(lambda: here(config))
        assert kind is DiskLockedError
    with pytest.raises(RuntimeError, match="no state machine today"):
        through(never, machine=broken)
    with pytest.raises(QuorumConfigError, match="no method apply"):
        through(never, machine=object)
    with pytest.raises(InvalidArgumentError, match="factory can't be pickled"):
        through(never, machine=lambda: ChildSums())


def _children_of_threads(pid: int) -> list[str]:
    return [
        child for task in Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()
    ]


def node_of(pid: int) -> int:
    """The child of a process that is a node."""
    (node,) = (
        int(child)
        for child in _children_of_threads(pid)
        if b"child_main" in Path(f"/proc/{child}/cmdline").read_bytes()
    )
    return node


def test_a_child_that_is_killed_is_named_by_every_call_and_by_the_end_of_the_block(through, config):
    first, second = free_ports(2)
    alone = replace(config, voters=parse_voters(f"1@127.0.0.1:{first},2@127.0.0.1:{second}"))

    def steps(quorum) -> Steps:
        with pytest.raises(NotLeaderError):
            yield quorum.wait_leader(timeout_ms=100)
        os.kill(node_of(os.getpid()), signal.SIGKILL)
        with pytest.raises(QuorumStoppedError, match=r"process \d+ of the node was killed by signal 9"):
            yield quorum.wait_leader()
        yield quorum.append([b"1"])

    with pytest.raises(QuorumStoppedError, match=r"process \d+ of the node was killed by signal 9"):
        through(steps, configured=alone)


def test_an_append_in_flight_at_the_kill_of_the_child_may_have_happened(lone_config):
    async def main() -> None:
        async with aio.ChildQuorum.open(lone_config, ChildSums) as quorum:
            appending = asyncio.create_task(quorum.append([b"1"]))
            await quorum.ask_health()  # behind the append
            os.kill(node_of(os.getpid()), signal.SIGKILL)
            try:
                await asyncio.wait([appending])
            finally:
                outcomes.append(appending.exception() if appending.done() else None)

    outcomes = []
    with pytest.raises(QuorumStoppedError):
        asyncio.run(main())
    (outcome,) = outcomes
    assert isinstance(outcome, OutcomeUnknownError), outcome


def test_leadership_is_lost_when_the_child_is_killed(config):
    with (
        pytest.raises(QuorumStoppedError),
        blocking.ChildQuorum.open(config, ChildSums) as quorum,
        quorum.while_leading() as leading,
    ):
        leading.check()
        os.kill(node_of(os.getpid()), signal.SIGKILL)
        assert leading.lost.wait(PATIENCE_S)
        with pytest.raises(NotLeaderError):
            leading.check()


def test_a_cancelled_call_is_cancelled_in_the_child(config):
    async def main() -> None:
        async with aio.ChildQuorum.open(config, ChildSums) as quorum:
            await quorum.wait_leader()
            waiting = asyncio.create_task(quorum.wait_applied(10**9))
            await until_under_way(quorum, 2)
            waiting.cancel()
            await until_under_way(quorum, 1)
            assert waiting.cancelled()

    async def until_under_way(quorum, count: int) -> None:
        while True:
            if await quorum.read(calls_under_way) == count:
                return
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


def test_an_error_that_can_not_be_made_here_is_still_an_error(monkeypatch):
    class LocalError(Exception):
        pass

    assert str(load_error(dump_error(LocalError("why")))) == "LocalError: why"
    gone = ModuleType("gone")
    exec("class GoneError(Exception): pass", gone.__dict__)
    monkeypatch.setitem(sys.modules, "gone", gone)
    pickled = dump_error(gone.GoneError("why"))
    monkeypatch.delitem(sys.modules, "gone")
    error = load_error(pickled)
    assert type(error) is QuorumError and "No module named 'gone'" in str(error)


PROGRAM = """
import os, sys, time
from quorate.blocking import ChildQuorum
from quorate.raft import NodeId, QuorumConfig, parse_voters

class Result:
    def __init__(self, count):
        self.count = count

class Machine:
    def __init__(self):
        self.count = 0
    def apply(self, batch):
        self.count += len(batch.records)
        return [Result(self.count)] * len(batch.records)
    def take_snapshot(self):
        return iter([b"%d" % self.count])
    def load_snapshot(self, snapshot):
        raise NotImplementedError

def main():
    kind, folder, voters = sys.argv[1:]
    config = QuorumConfig(node_id=NodeId(1), cluster_id="doors", folder=folder, voters=parse_voters(voters))
    with ChildQuorum.open(config, Machine) as quorum:
        quorum.wait_leader()
        print(quorum.append([b"1"]).results[0].count, flush=True)
        if kind == "forks" and not os.fork():
            print(os.getpid(), flush=True)
            time.sleep(600)
        sys.stdin.read()
"""
GUARDED = PROGRAM + '\nif __name__ == "__main__":\n    main()\n'


@pytest.mark.parametrize("kind", [pytest.param("alone", marks=pytest.mark.slow), "forks"])
def test_a_parent_that_is_killed_leaves_no_child(config, tmp_path, kind):
    (tmp_path / "program.py").write_text(GUARDED)
    parent = subprocess.Popen(
        [sys.executable, "program.py", kind, config.folder, _voters(config)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    fork = None
    try:
        assert parent.stdout.readline() == "1\n"  # a class of __main__ works too
        fork = int(parent.stdout.readline()) if kind == "forks" else None
        node = node_of(parent.pid)
        parent.kill()
        parent.wait()
        wait_until(lambda: not Path(f"/proc/{node}").exists(), "the node's process ends", seconds=PATIENCE_S)
        assert fork is None or Path(f"/proc/{fork}").exists()
    finally:
        parent.kill()
        parent.wait()
        if fork is not None:
            os.kill(fork, signal.SIGKILL)


def _voters(config) -> str:
    (voter,) = config.voters
    return f"1@{voter.endpoint.host}:{voter.endpoint.port}"


@pytest.mark.slow
def test_a_program_without_a_guard_is_told_to_have_one(config, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM + "\nmain()\n")
    done = subprocess.run(
        [sys.executable, "program.py", "alone", config.folder, _voters(config)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 1
    assert "QuorumConfigError: the program opens a node" in done.stderr.splitlines()[-1]
    assert 'if __name__ == "__main__"' in done.stderr.splitlines()[-1]
