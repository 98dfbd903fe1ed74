"""KIP-595's sixteen, read after each step of nodes that go through all roles, against the trace in roles.txt.

It is the shipped `Quorum` in simulation, where every message takes 1 ms and every sync 2 ms. To have the
trace written anew, and then read the diff, run this test with QUORATE_REWRITE=1 in the environment.
"""

import os
import random
from pathlib import Path
from typing import Any

import pytest
import trio
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families as parse

from quorate.broker.raft_log_lines import BothTelemetry
from quorate.metrics import RaftMetrics
from quorate.metrics.declarations import RAFT
from quorate.metrics.raft_metrics import STATES
from quorate.raft.core.core_config import CoreConfig
from quorate.raft.quorum import Quorum
from quorate.raft.quorum_config import QuorumConfig, parse_voters
from quorate.raft.storage.storage import format_folder
from quorate.raft.telemetry import NoTelemetry
from quorate.runtime.network import Address
from quorate.simulation.quorum.quorum_cluster import Journal
from quorate.simulation.world.scheduler import Scheduler, run
from quorate.simulation.world.simulated_network import LinkQuality, NetworkSettings, SimulatedNetwork
from quorate.simulation.world.simulated_runtime import DiskSpeed, SimulatedRuntime
from quorate.types import NodeId

GOLDEN = Path(__file__).parent / "roles.txt"
CLUSTER = "golden-metrics-cluster"
VOTERS = parse_voters("1@node-1:9093,2@node-2:9093,3@node-3:9093")


class _Roles(NoTelemetry):
    """Has the trace told at each change of role, when the metrics know it."""

    __slots__ = ("_node",)

    def __init__(self, node: "Node") -> None:
        self._node = node

    def booted(self, timestamp_ms: int) -> None:
        self._node.booted_ms = timestamp_ms

    def role_changed(self, *_: object, **__: object) -> None:
        self._node.tell("it changes its role")


class Node:
    """One voter or observer, and the trace of its metrics."""

    def __init__(self, number: int, network: SimulatedNetwork, trace: list[str] | None) -> None:
        self.number = number
        self.name = f"node-{number}"
        self.host = SimulatedRuntime(
            self.name,
            network,
            random.Random(number),
            disk_speed=DiskSpeed(sync_min_s=0.002, sync_max_s=0.002),
        )
        self._network = network
        self._trace = trace
        self._seen: dict[str, str] = {}
        self.quorum: Quorum[int] | None = None
        self.registry: CollectorRegistry | None = None
        self._scope = trio.CancelScope()
        self.booted_ms = 0
        self.idle_seen = False
        self._killed = False

    @property
    def running(self) -> Quorum[int]:
        assert self.quorum is not None
        return self.quorum

    async def format(self) -> None:
        await format_folder(self.host.runtime(), "data", cluster_id=CLUSTER, node_id=NodeId(self.number))

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        self.registry = CollectorRegistry()
        metrics = RaftMetrics(self.registry, monotonic=trio.current_time)
        config = QuorumConfig(
            node_id=NodeId(self.number),
            cluster_id=CLUSTER,
            folder="data",
            voters=VOTERS,
            observer=NodeId(self.number) not in VOTERS,
            listen=Address(self.name, 9093),
            core=CoreConfig(election_timeout_ms=500, fetch_timeout_ms=1000),
        )
        self._killed = False
        try:
            with trio.CancelScope() as self._scope:
                async with Quorum[int].open(
                    config,
                    Journal(),
                    runtime=self.host.runtime(),
                    telemetry=BothTelemetry(metrics, _Roles(self)),
                ) as self.quorum:
                    self.tell("it has started")
                    task_status.started()
                    await trio.sleep_forever()
        except Exception:
            # Of what breaks under a process that is killed nobody hears.
            if not self._killed:
                raise

    def kill(self) -> None:
        self._killed = True
        self.host.disk.cut()
        self._network.crash_node(self.name, silent=False)
        self._scope.cancel()

    async def start_again(self, nursery: trio.Nursery) -> None:
        self.host.disk.crash_process()
        self._network.restart_node(self.name)
        await nursery.start(self.run)

    def read(self) -> dict[str, str]:
        """All sixteen metrics, with the same value in both spellings."""
        assert self.registry is not None
        samples = {
            (sample.name, tuple(sample.labels.values())): sample.value
            for family in parse(generate_latest(self.registry).decode())
            for sample in family.samples
        }
        found: dict[str, str] = {}
        for each in RAFT:
            if each.bean == "current-state":
                (state,) = (state for state in STATES if samples[each.ours, (state,)])
                assert samples[each.kafkas, (state,)] == 1
                found[each.bean] = state
                continue
            kafkas = samples[each.kafkas, ()]
            assert samples[each.ours, ()] == pytest.approx(kafkas * each.scale)
            found[each.bean] = f"{round(kafkas, 2):g}"
        assert len(found) == 16
        # Trace and figures do not depend on when elections happen to be due.
        assert samples["kafka_server_raftmetrics_boot_timestamp", ()] == self.booted_ms
        found["boot-timestamp"] = "when it started"
        # Virtual time passes only while everybody waits. It is told now and then; a window that has heard
        # nothing shows 0.
        assert found["poll-idle-ratio-avg"] in ("0", "1")
        self.idle_seen |= found["poll-idle-ratio-avg"] == "1"
        found["poll-idle-ratio-avg"] = "1, once it was told"
        return found

    def tell(self, what: str) -> None:
        """Add to the trace what differs from the step before."""
        if self._trace is None or self.registry is None:
            return
        now = self.read()
        changed = {name: value for name, value in now.items() if self._seen.get(name) != value}
        self._seen = now
        self._trace.append(f"{self.name}, {now['current-state']}: {what}")
        self._trace.extend(f"    {name} = {value}" for name, value in changed.items())


async def until(condition: Any) -> None:
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.001)


def caught_up(node: Node) -> bool:
    return node.running.high_watermark == node.running.log.end_offset


async def append(node: Node, count: int) -> None:
    await node.running.append([b"%100d" % number for number in range(count)])


async def walk(nursery: trio.Nursery, trace: list[str]) -> None:
    link = LinkQuality(latency_min_s=0.001, latency_max_s=0.001)
    network = SimulatedNetwork(
        random.Random(1), NetworkSettings(link=link, loopback=link, short_read_chance=0.0)
    )
    one = Node(1, network, trace)
    two, three = Node(2, network, None), Node(3, network, None)
    observer = Node(4, network, trace)
    for node in (one, two, three, observer):
        await node.format()

    def part(line: str) -> None:
        trace.extend(("", f"# {line}", ""))

    def state(node: Node) -> str:
        return node.running.role.value

    part("Alone, it knows nobody, and asks in vain whether it would be elected.")
    await nursery.start(one.run)
    await until(lambda: state(one) == "prospective")

    part("With a second voter there is a majority. It stands, and leads.")
    await nursery.start(two.run)
    await until(lambda: one.running.is_leader)
    one.tell("its epoch's first record is committed")

    part("It appends thirty records at once, then ten.")
    await append(one, 30)
    one.tell("thirty are committed")
    await append(one, 10)
    one.tell("ten more are")

    part("A third voter and an observer come. The observer's own trace begins.")
    await nursery.start(three.run)
    await nursery.start(observer.run)
    await until(lambda: observer.running.high_watermark == one.running.high_watermark)
    observer.tell("it has what is committed")
    await until(lambda: three.running.high_watermark == one.running.high_watermark)

    part("Asked to resign, it gives up its leadership within the epoch, and follows who comes next.")
    one.running.resign()
    await until(lambda: one.running.log.last_epoch > 1 and caught_up(one))
    one.tell("it has the next leader's first record")
    leader = two if two.running.role.value == "leader" else three
    other = three if leader is two else two

    part("The next leader appends six records.")
    await append(leader, 6)
    await until(lambda: one.running.high_watermark == leader.running.high_watermark)
    one.tell("it has fetched six")

    part("Cut off, it asks whether it would be elected, without a new epoch; healed, it follows again.")
    network.partition([one.name], [two.name, three.name, observer.name])
    await until(lambda: state(one) == "prospective")
    await trio.sleep(1)
    network.heal()
    await until(lambda: state(one) == "follower")
    await until(lambda: one.running.high_watermark == leader.running.high_watermark)

    part("The leader dies without a word, one node is down already: no majority. Then that one comes back.")
    for node in (other, leader):
        node.kill()
    await until(lambda: state(one) == "prospective")
    await other.start_again(nursery)
    await until(lambda: one.running.leader is not None and one.running.epoch > leader.running.epoch)
    await until(lambda: caught_up(one))
    one.tell("the next epoch's first record is committed")
    await until(lambda: observer.running.leader == one.running.leader)
    await until(lambda: observer.running.high_watermark == one.running.high_watermark)
    observer.tell("it has that record")

    part(
        "A minute and a half in which nothing happens: averages, maxima and rates are of the last 30 to 60 s."
    )
    await trio.sleep(90)
    one.tell("nothing happened")
    observer.tell("nothing happened")
    assert one.idle_seen and observer.idle_seen


def tale() -> list[str]:
    trace: list[str] = []

    async def program(_: Scheduler) -> None:
        async with trio.open_nursery() as nursery:
            await walk(nursery, trace)
            nursery.cancel_scope.cancel()

    run(1, program)
    return trace


@pytest.mark.slow
def test_each_role_of_a_node_shows_in_each_of_the_sixteen() -> None:
    text = "\n".join(tale()).strip() + "\n"
    if os.environ.get("QUORATE_REWRITE"):
        GOLDEN.write_text(text)
    for role in STATES:
        assert f"current-state = {role}\n" in text, f"the trace has no {role}"
    for declared in RAFT:
        assert f"{declared.bean} = " in text
    assert text == GOLDEN.read_text()
