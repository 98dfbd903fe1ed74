"""`quorate cluster health` names nothing on a well cluster, under load and in a rolling restart.

`QUORATE_WELL_SECONDS=600` for the ten minutes of a longer look.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from quorate.cli.node.local_cluster import LocalCluster
from tests.cli.command import Quorate
from tests.cli.health_checks import health, wait_well
from tests.kit.clusters import running_cluster
from tests.system.loads import Load, make_topic

pytestmark = [pytest.mark.system, pytest.mark.slow]

SECONDS: Final = float(os.environ.get("QUORATE_WELL_SECONDS", "60"))
RESTART_S: Final = 5.0
"""The time between two restarts, at least."""


@contextmanager
def restarted_in_turn(cluster: LocalCluster) -> Iterator[list[BaseException]]:
    """Stop and start one node after the other, once, in a thread. Yields why it failed."""
    failed: list[BaseException] = []
    given_up = threading.Event()

    def restart() -> None:
        try:
            for node in (1, 2, 3):
                if given_up.wait(RESTART_S):
                    return
                assert cluster.stop(node) == {node: 0}
                cluster.start(node)
                cluster.wait_ready(seconds=60)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=restart)
    thread.start()
    try:
        yield failed
    finally:
        given_up.set()
        thread.join()


@pytest.mark.timeout(SECONDS + 300)
def test_load_and_a_rolling_restart_are_no_problem(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "cluster") as cluster:
        make_topic(cluster.bootstrap, "load", partitions=3)
        Quorate().at(cluster).output("topics", "create", "-t", "idle", "--partitions", 30)
        wait_well(cluster)
        named: list[dict[str, Any]] = []
        asked = 0
        load = Load(cluster.bootstrap, "load", partitions=3, per_second=300.0)
        with load.running() as running, restarted_in_turn(cluster) as failed:
            running.wait_acknowledged(100)
            until = time.monotonic() + SECONDS
            while time.monotonic() < until:
                asked += 1
                named += [
                    each | {"atS": SECONDS - until + time.monotonic()} for each in health(cluster)["problems"]
                ]
                time.sleep(1)
            running.wait_acknowledged(100)
        assert not failed, failed
        assert not named, named
        assert asked >= SECONDS / 8, "health answers within 3 s, also on a machine that is busy"
        print(
            f"asked {asked} times in {SECONDS:g} s, with {sum(map(len, load.acknowledged.values()))} records"
        )
