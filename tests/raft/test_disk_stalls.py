"""A slow disk slows commits, and nothing else on the node."""

import dataclasses
import os
import threading
import time

import pytest
import trio

from quorate.cli.node.free_ports import free_ports
from quorate.raft.core.core_config import CoreConfig
from quorate.raft.quorum import Quorum
from quorate.raft.quorum_config import QuorumConfig, parse_voters
from quorate.raft.storage.storage import format_folder
from quorate.runtime.real import RealDisk, SyncStrategy, real_disk, real_runtime
from quorate.types import NodeId

CORE = CoreConfig(election_timeout_ms=400, fetch_timeout_ms=900, fetch_max_wait_ms=200)


class Counter:
    def __init__(self):
        self.count = 0

    def apply(self, batch):
        self.count += len(batch.records)
        return [None] * len(batch.records)

    def take_snapshot(self):
        return iter([])

    def load_snapshot(self, snapshot):
        raise AssertionError("there is none")


class SlowSyncs:
    """Every fdatasync takes 20 ms, and one that is asked for 300 ms, wherever the strategy runs it."""

    def __init__(self):
        self.stall = threading.Event()
        self.threads = []

    def fdatasync(self, fd):
        self.threads.append(threading.current_thread())
        time.sleep(0.3 if self.stall.is_set() and not self.stall.clear() else 0.02)
        os.fdatasync(fd)


@pytest.fixture
def slow_syncs(monkeypatch):
    syncs = SlowSyncs()
    fake = type("os", (), {**vars(real_disk.os), "fdatasync": staticmethod(syncs.fdatasync)})
    monkeypatch.setattr(real_disk, "os", fake)
    return syncs


async def test_slow_syncs_on_a_thread_cause_no_election_and_hold_up_nobody(tmp_path, slow_syncs):
    voters = parse_voters(",".join(f"{n}@127.0.0.1:{p}" for n, p in enumerate(free_ports(3), 1)))
    quorums = {}

    async def node(number, task_status):
        # A disk, and so a thread, each: three nodes stall independently.
        runtime = dataclasses.replace(
            real_runtime(sync=SyncStrategy.INLINE), disk=RealDisk(sync=SyncStrategy.THREAD)
        )
        folder = str(tmp_path / str(number))
        await format_folder(runtime, folder, cluster_id="c", node_id=NodeId(number))
        config = QuorumConfig(node_id=NodeId(number), cluster_id="c", folder=folder, voters=voters, core=CORE)
        async with Quorum.open(config, Counter(), runtime=runtime) as quorum:
            quorums[number] = quorum
            task_status.started()
            await trio.sleep_forever()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for number in (1, 2, 3):
                await nursery.start(node, number)
            # Until all agree: at a start two may stand at once, and the second take over.
            while len(known := {quorum.leader for quorum in quorums.values()}) > 1 or None in known:  # noqa: ASYNC110
                await trio.sleep(0.01)
            leader = quorums[known.pop()]
            epoch = leader.epoch
            slow_syncs.threads.clear()
            latencies = []
            for number in range(40):
                if number == 20:
                    slow_syncs.stall.set()
                started = trio.current_time()
                await leader.append([b"x" * 100])
                latencies.append(trio.current_time() - started)
            assert {quorum.epoch for quorum in quorums.values()} == {epoch}
            nursery.cancel_scope.cancel()
    assert min(latencies) >= 0.02
    assert len(slow_syncs.threads) >= 40
    assert threading.main_thread() not in slow_syncs.threads
