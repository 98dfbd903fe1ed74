"""Appends through the doors: how often they wake a loop, and how they end without a task of their own."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest
import trio

from quorate import aio, blocking
from quorate.cli.node.free_ports import free_ports
from quorate.raft import NodeId, OutcomeUnknownError, QuorumConfig, RequestRefusedError, parse_voters
from quorate.raft.doors.append_call import AppendCall
from quorate.runtime.real import Mailbox
from tests.doors.conftest import FAST, Sums
from tests.kit.waiting import wait_until

PATIENCE_S = 60
MANY = 200


class Spawned(trio.abc.Instrument):
    """Counts the tasks that are started."""

    def __init__(self) -> None:
        self.count = 0

    def task_spawned(self, task) -> None:
        self.count += 1


class Gate:
    """Keeps the quorum's thread until it opens, so that what comes meanwhile comes at once."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._open = threading.Event()

    def pass_through(self) -> None:
        self._reached.set()
        assert self._open.wait(PATIENCE_S)

    def wait_reached(self) -> None:
        assert self._reached.wait(PATIENCE_S)

    def open(self) -> None:
        self._open.set()


class Wakes:
    """Counts the wake-ups of the quorum's loop, and the posts that could have been one."""

    def __init__(self, monkeypatch) -> None:
        self.wakes = self.posts = 0
        wake, post = trio.lowlevel.TrioToken.run_sync_soon, Mailbox.post
        monkeypatch.setattr(trio.lowlevel.TrioToken, "run_sync_soon", self._counted("wakes", wake))
        monkeypatch.setattr(Mailbox, "post", self._counted("posts", post))

    def _counted(self, name: str, function: Callable[..., None]) -> Callable[..., None]:
        def counting(*args) -> None:
            setattr(self, name, getattr(self, name) + 1)
            function(*args)

        return counting


def applied_slowly(call: AppendCall, *arguments, applied=AppendCall.applied) -> None:
    """A result, and then time for the caller's loop, which would take it alone if it were awake."""
    applied(call, *arguments)
    time.sleep(0.001)


def test_appends_of_asyncio_that_come_at_once_wake_each_loop_once_and_start_no_task(
    config, monkeypatch
) -> None:
    async def main() -> None:
        gate, spawned = Gate(), Spawned()

        def hold() -> None:
            trio.lowlevel.add_instrument(spawned)
            gate.pass_through()

        async with aio.Quorum.open(config, Sums()) as quorum:
            await quorum.wait_leader()
            held = asyncio.create_task(quorum.read(hold))
            await asyncio.to_thread(gate.wait_reached)
            with monkeypatch.context() as patched:
                patched.setattr(AppendCall, "applied", applied_slowly)
                there, here = Wakes(patched), []
                loop = asyncio.get_running_loop()
                wake = loop.call_soon_threadsafe
                patched.setattr(loop, "call_soon_threadsafe", lambda *args: (here.append(args), wake(*args)))
                appends = [asyncio.create_task(quorum.append([b"1"])) for _ in range(MANY)]
                await asyncio.sleep(0)
                gate.open()
                results = [(await each).results[0] for each in appends]
                await held
            assert results == list(range(1, MANY + 1))
            assert there.wakes == 1, f"the quorum's loop was woken {there.wakes} times"
            # Once for the read that held the thread, and once for all appends.
            assert len(here) <= 2, f"the caller's loop was woken {len(here)} times"
            assert spawned.count == 0, f"{spawned.count} tasks were started for {MANY} appends"

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


def test_appends_of_threads_that_come_at_once_wake_the_quorums_loop_once_and_start_no_task(
    config, monkeypatch
) -> None:
    gate, spawned = Gate(), Spawned()

    def hold() -> None:
        trio.lowlevel.add_instrument(spawned)
        gate.pass_through()

    with blocking.Quorum.open(config, Sums()) as quorum, ThreadPoolExecutor(33) as pool:
        quorum.wait_leader()
        held = pool.submit(quorum.read, hold)
        gate.wait_reached()
        with monkeypatch.context() as patched:
            there = Wakes(patched)
            appends = [pool.submit(quorum.append, [b"1"]) for _ in range(32)]
            while there.posts < 32:
                time.sleep(0.001)
            gate.open()
            assert sorted(each.result().results[0] for each in appends) == list(range(1, 33))
        held.result()
    assert (there.wakes, spawned.count) == (1, 0), (there.wakes, spawned.count)


def test_an_append_whose_time_is_up_has_an_unknown_outcome_in_both_doors(config) -> None:
    """The quorum's thread is held until the time is up, and then queues the append."""
    sums = Sums()

    async def main() -> None:
        async with aio.Quorum.open(config, sums) as quorum:
            await quorum.wait_leader()
            gate = Gate()
            held = asyncio.create_task(quorum.read(gate.pass_through))
            await asyncio.to_thread(gate.wait_reached)
            timed = asyncio.create_task(quorum.append([b"1"], timeout_ms=20))
            await asyncio.sleep(0.2)
            gate.open()
            with pytest.raises(OutcomeUnknownError, match="not answered within 20 ms"):
                await timed
            await held
            assert (await quorum.append([b"1"])).results == (2,)

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))
    with blocking.Quorum.open(config, sums := Sums()) as quorum, ThreadPoolExecutor(1) as pool:
        quorum.wait_read_index()
        gate = Gate()
        pool.submit(quorum.read, gate.pass_through)
        gate.wait_reached()
        opening = threading.Timer(0.2, gate.open)
        opening.start()
        with pytest.raises(OutcomeUnknownError, match="not answered within 20 ms"):
            quorum.append([b"1"], timeout_ms=20)
        opening.join()
        assert quorum.append([b"1"]).results == (4,)


def test_an_append_that_asyncio_cancels_in_the_queue_is_applied_and_harms_nobody(config) -> None:
    async def main() -> None:
        async with aio.Quorum.open(config, Sums()) as quorum:
            await quorum.wait_leader()
            gate = Gate()
            held = asyncio.create_task(quorum.read(gate.pass_through))
            await asyncio.to_thread(gate.wait_reached)
            cancelled = asyncio.create_task(quorum.append([b"1"]))
            await asyncio.sleep(0)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            gate.open()
            await held
            assert (await quorum.append([b"1"])).results == (2,)

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


def test_appends_that_find_no_room_wait_for_it_and_all_succeed(config) -> None:
    async def main() -> None:
        async with aio.Quorum.open(
            replace(config, max_batch_bytes=1024, max_pending_bytes=1024), Sums()
        ) as quorum:
            await quorum.wait_leader()
            appends = await asyncio.gather(*(quorum.append([b"1".zfill(600)]) for _ in range(40)))
            assert sorted(each.results[0] for each in appends) == list(range(1, 41))

    asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


@contextmanager
def two_nodes(tmp_path):
    """The quorums of nodes 1 and 2, both voters, in the order of their ids. Node 1 leads."""
    first, second = free_ports(2)
    voters = parse_voters(f"1@127.0.0.1:{first},2@127.0.0.1:{second}")
    with ExitStack() as stack:
        quorums = []
        for node in (NodeId(1), NodeId(2)):
            folder = str(tmp_path / f"node-{node}")
            blocking.format_folder(folder, cluster_id="doors", node_id=node)
            config = QuorumConfig(node_id=node, cluster_id="doors", folder=folder, voters=voters, core=FAST)
            quorums.append(stack.enter_context(blocking.Quorum.open(config, Sums())))
        quorums[0].wait_leader(timeout_ms=PATIENCE_S * 1000)
        hand_over(quorums, 1)
        yield quorums


def hand_over(quorums, successor: int) -> None:
    """Let node 1 or 2 lead. On a busy machine its election may time out, and the other node lead again."""

    def leads() -> bool:
        try:
            quorums[2 - successor].transfer_leadership(NodeId(successor))
        except RequestRefusedError:
            return False
        return True

    wait_until(leads, f"node {successor} leads", seconds=PATIENCE_S)


@pytest.mark.slow
def test_appends_in_the_queue_of_a_leader_go_to_its_successor_and_none_is_lost(tmp_path) -> None:
    """During a transfer of leadership appends wait in the queue. The leader refuses them when it resigns."""
    with two_nodes(tmp_path) as quorums, ThreadPoolExecutor(8) as pool:
        first, stop, results = quorums[0], threading.Event(), []

        def load() -> None:
            while not stop.is_set():
                results.append(first.append([b"1"]).results[0])

        try:
            loads = [pool.submit(load) for _ in range(8)]
            for successor in (2, 1) * 5:
                before = len(results)
                hand_over(quorums, successor)
                while len(results) < before + 20 and not any(each.done() for each in loads):
                    time.sleep(0.001)
        finally:
            stop.set()
        assert [each.result() for each in loads] == [None] * 8
        assert sorted(results) == list(range(1, len(results) + 1))
