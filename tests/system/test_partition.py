"""Nodes in network namespaces of their own, cut off from each other: both ways, and one way."""

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quorate.broker.admin.topics import create_topic
from quorate.cli.console.connections import ask_cluster
from tests.kit.namespaces import NODES, Namespaces
from tests.kit.waiting import wait_until
from tests.system.loads import Load

pytestmark = [pytest.mark.system, pytest.mark.slow]

CUT_SECONDS = 8.0
"""Longer than the fetch timeout (2 s), the broker session (3 s) and clients' request timeout (2 s)."""


@pytest.fixture
def namespaces(tmp_path: Path, need: Callable[..., str]) -> Iterator[Namespaces]:
    need("ip", "iproute2")
    with Namespaces.built(tmp_path, "q", 200) as made:
        made.start()
        wait_until(lambda: can_create_topic(made), "a topic can be created")
        made.in_sync("load")
        yield made


def can_create_topic(namespaces: Namespaces) -> bool:
    try:
        ask_cluster(namespaces.bootstrap, lambda client: create_topic(client, "load", assignment=[[1, 2, 3]]))
    except Exception as error:
        print(f"not yet: {error}")
        return False
    return True


@pytest.mark.parametrize("way", ["both ways", "one way"])
def test_a_leader_cut_off_is_replaced_and_comes_back(namespaces: Namespaces, way: str) -> None:
    """The quorum's leader, or the partition's, is cut off; clients go on with the others; after it heals all
    three are in sync, and everything acknowledged is there once, in order."""
    with Load(namespaces.bootstrap, "load", per_second=300.0).running() as running:
        for kind in ("quorum", "partition"):
            running.wait_acknowledged(300)
            before = namespaces.quorum()
            victim = int(before["leaderId"]) if kind == "quorum" else namespaces.leader("load")
            others = [node for node in NODES if node != victim]
            (namespaces.cut if way == "both ways" else namespaces.mute)(victim)
            cut_at = time.monotonic()
            try:
                gap = running.gap_after(cut_at)
                time.sleep(max(0.0, cut_at + CUT_SECONDS - time.monotonic()))
                during = namespaces.quorum(*others)
                print(f"{way}, {kind} leader {victim}: acknowledges again after {gap:.2f} s; "
                      f"node {during['leaderId']} leads in epoch {during['leaderEpoch']}")  # fmt: skip
                assert during["leaderId"] != victim
                assert namespaces.leader("load", *others) != victim
                running.wait_acknowledged(300)
            finally:
                (namespaces.heal if way == "both ways" else namespaces.unmute)(victim)
            namespaces.in_sync("load")
            after = namespaces.quorum()
            assert after["leaderId"] == during["leaderId"], "coming back deposes nobody"
            assert after["leaderEpoch"] == during["leaderEpoch"], "nor does it start an election (pre-vote)"
            running.wait_acknowledged(300)
    running.check()
    assert all(process.poll() is None for process in namespaces.processes.values())
    for process in namespaces.processes.values():
        process.send_signal(signal.SIGTERM)
    assert [process.wait(30) for process in namespaces.processes.values()] == [0, 0, 0]
