"""A caller that is busy: it blocks its own loop, computes, or calls C code that keeps the GIL."""

import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from quorate.blocking import Quorum, format_folder
from quorate.cli.node.free_ports import free_ports
from quorate.raft import NodeId, NotLeaderError, OutcomeUnknownError, QuorumConfig, parse_voters
from tests.doors.conftest import FAST, Sums

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60
BUSY_S = 3 * FAST.fetch_timeout_ms / 1000

PROGRAM = """
import asyncio, ctypes, sys, time
from quorate import aio, blocking
from quorate.raft import NodeId, OutcomeUnknownError, QuorumConfig, parse_voters
from tests.doors.conftest import FAST, Sums

def compute(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))

BUSY = {
    "sleeps": time.sleep,
    "computes": compute,
    "keeps the GIL": lambda seconds: ctypes.PyDLL(None).usleep(int(seconds * 1e6)),
}

async def main(opened):
    async with opened as quorum:
        print("open", flush=True)
        for line in sys.stdin:  # this blocks the loop as well
            kind, _, seconds = line.strip().rpartition(" ")
            BUSY[kind](float(seconds))
            total = await appended(quorum)
            print(await quorum.wait_leader(), total, flush=True)

async def appended(quorum):
    try:
        return (await quorum.append([b"1"])).results[0]
    except OutcomeUnknownError:  # it did not know yet that it no longer leads
        return await appended(quorum)

def main_of_threads(opened):
    with opened as quorum:
        print("open", flush=True)
        for line in sys.stdin:
            kind, _, seconds = line.strip().rpartition(" ")
            BUSY[kind](float(seconds))
            print(quorum.wait_leader(), quorum.append([b"1"]).results[0], flush=True)

if __name__ == "__main__":
    door, folder, voters = sys.argv[1:]
    config = QuorumConfig(
        node_id=NodeId(1), cluster_id="busy", folder=folder, voters=parse_voters(voters), core=FAST
    )
    match door:
        case "aio":
            asyncio.run(main(aio.Quorum.open(config, Sums())))
        case "aio, child":
            asyncio.run(main(aio.ChildQuorum.open(config, Sums)))
        case "blocking, child":
            main_of_threads(blocking.ChildQuorum.open(config, Sums))
"""


@pytest.fixture
def door():
    """The door of the program with node 1."""
    return "aio"


@pytest.fixture
def busy(tmp_path, door):
    """A function that makes node 1 busy, which leads, in a process of its own, and node 2 of the others."""
    ports = free_ports(3)
    voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in zip((1, 2, 3), ports, strict=True))
    folders = {node: str(tmp_path / f"node-{node}") for node in (1, 2, 3)}
    for node, folder in folders.items():
        format_folder(folder, cluster_id="busy", node_id=NodeId(node))

    def config(node: int) -> QuorumConfig:
        return QuorumConfig(
            node_id=NodeId(node),
            cluster_id="busy",
            folder=folders[node],
            voters=parse_voters(voters),
            core=FAST,
        )

    with ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", PROGRAM, door, folders[1], voters],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        stack.callback(process.kill)
        second, _ = (stack.enter_context(Quorum.open(config(node), Sums())) for node in (2, 3))
        assert process.stdout.readline() == "open\n"
        second.wait_leader(timeout_ms=PATIENCE_S * 1000)
        second.transfer_leadership(NodeId(1))

        @contextmanager
        def make_busy(kind: str):
            print(kind, BUSY_S, file=process.stdin, flush=True)
            yield
            leader, total = process.stdout.readline().split()
            said.append((int(leader), int(total)))

        said: list[tuple[int, int]] = []
        yield make_busy, second, said


@pytest.mark.slow
@pytest.mark.costly
@pytest.mark.parametrize(
    ("door", "kind"),
    [
        ("aio, child", "keeps the GIL"),
        ("aio", "sleeps"),
        ("aio", "computes"),
        ("blocking, child", "keeps the GIL"),
    ],
)
def test_a_leader_whose_caller_is_busy_leads_on_and_commits(busy, kind):
    make_busy, second, said = busy
    epoch, longest, count = second.epoch, 0.0, 0
    with make_busy(kind):
        end = time.monotonic() + BUSY_S * 0.8
        while time.monotonic() < end:
            began = time.monotonic()
            second.append([b"1"])
            longest, count = max(longest, time.monotonic() - began), count + 1
    assert (second.leader, second.epoch) == (1, epoch), "there was an election"
    assert longest < FAST.fetch_timeout_ms / 1000, f"a commit took {longest:.3f} s"
    assert said == [(1, count + 1)]


@pytest.mark.slow
def test_a_leader_whose_caller_keeps_the_gil_is_replaced_and_follows_when_it_is_back(busy):
    make_busy, second, said = busy
    epoch, count = second.epoch, 0
    with make_busy("keeps the GIL"):
        began = time.monotonic()
        while not count:
            try:
                second.append([b"1"], timeout_ms=100)
                count = 1
            except (OutcomeUnknownError, NotLeaderError):
                pass  # it was on its way to the old leader, or there was none
        without = time.monotonic() - began
        assert without < BUSY_S, f"nothing was committed for {without:.3f} s"
    assert second.epoch > epoch and second.leader != 1
    leader, total = said[0]
    assert leader == second.leader and total >= 2
