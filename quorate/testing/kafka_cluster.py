"""A cluster of real brokers in the hands of a test."""

import shutil
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from quorate.broker.admin.admin_client import AdminClient, open_admin
from quorate.broker.admin.configs import Entity, EntityType, describe_configs
from quorate.broker.admin.groups import delete_groups, list_groups
from quorate.broker.admin.quorum import describe_quorum
from quorate.broker.admin.quotas import QuotaOwner, list_quotas
from quorate.broker.admin.topics import (
    TopicDescription,
    create_topic,
    delete_topic,
    describe_topics,
    topic_names,
)
from quorate.broker.wire.wire_errors import KafkaError
from quorate.cli.console.cli_errors import CommandError
from quorate.cli.node.local_cluster import LocalCluster, LocalClusterError, NodePlan, parse_settings
from quorate.runtime import Address, NetworkError
from quorate.runtime.real import RealNetwork
from quorate.testing.cluster_error import ClusterError
from quorate.testing.faults import NodeFaults
from quorate.testing.node_host import ForkedNode, NodeHost, no_room

if TYPE_CHECKING:
    from kio.schema.describe_topic_partitions.v0.response import DescribeTopicPartitionsResponsePartition

_Answer = TypeVar("_Answer")

_CLIENT_ID: Final = "quorate-testing"
_START_SECONDS: Final = 60.0
_WAIT_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.005
_CONNECT_SECONDS: Final = 5.0
_DESCRIBE_SECONDS: Final = 5.0
_CLEAN_SECONDS: Final = 5.0


class KafkaCluster:
    """Brokers 1 to n, each a process and a controller too. The fixture `kafka_cluster` starts them.

    Methods block, most for milliseconds, and may be called from any thread. In a coroutine, call those that
    wait as `await asyncio.to_thread(cluster.wait_isr, "orders")` or
    `await trio.to_thread.run_sync(cluster.wait_isr, "orders")`, so that the loop goes on.

    All raise `ClusterError`.
    """

    def __init__(self, host: NodeHost, folder: Path, *, nodes: int, config: Mapping[str, str]) -> None:
        self._host = host
        self._faults = dict.fromkeys(range(1, nodes + 1), NodeFaults())
        self._processes: dict[int, ForkedNode] = {}
        self._lock = threading.RLock()
        self._log_starts: dict[int, int] = {}
        self._was_disturbed = False
        try:
            settings = parse_settings([f"{key}={value}" for key, value in config.items()])
            self._local = LocalCluster.plan(folder, nodes=nodes, client_port=0, overrides=settings)
            self._local.start_process = self._fork
            self.cluster_id: Final = _run_on_thread(self._local.prepare)
        except LocalClusterError as error:
            if isinstance(error.__cause__, OSError):
                raise no_room(folder, error.__cause__) from error
            raise ClusterError(str(error)) from error
        except CommandError as error:
            raise ClusterError(str(error)) from error
        except OSError as error:
            raise no_room(folder, error) from error
        try:
            self._start(self.nodes)
        except BaseException:
            self.stop()
            raise

    def _fork(self, node: NodePlan) -> ForkedNode:
        started = self._host.start(node, self._faults[node.node_id])
        self._processes[node.node_id] = started
        return started

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, `host:port,host:port`."""
        return self._local.bootstrap

    @property
    def nodes(self) -> tuple[int, ...]:
        """The ids of all nodes, running or not."""
        return tuple(node.node_id for node in self._local.nodes)

    def address(self, node: int) -> str:
        """The `host:port` at which one broker serves clients."""
        return str(self._address(node))

    def folder(self, node: int) -> Path:
        """The folder of one node, with its configuration, its log and its data."""
        return self._local.node(node).folder

    def as_dict(self) -> dict[str, object]:
        """Return the cluster as `quorate cluster start --json` prints it."""
        return self._local.as_dict(self.cluster_id)

    # Processes

    def kill(self, *nodes: int) -> None:
        """Kill nodes with SIGKILL. Returns when they have ended."""
        with self._disturbing(nodes):
            for node in nodes:
                if node in self._local.running():
                    self._local.kill(node)

    def pause(self, *nodes: int) -> None:
        """Stop nodes with SIGSTOP: their connections stay open, and nothing answers."""
        with self._disturbing(nodes):
            for node in nodes:
                self._running(node).send_signal(signal.SIGSTOP)

    def resume(self, *nodes: int) -> None:
        """Let paused nodes go on."""
        with self._disturbing(nodes):
            for node in nodes:
                self._running(node).send_signal(signal.SIGCONT)
            self._wait_applied()

    def restart(self, *nodes: int, wait: bool = True) -> None:
        """Start nodes again, at their addresses and with their data. Those that run are stopped in order
        first. Returns when they serve; with `wait=False` when they start, for a node without a majority."""
        with self._disturbing(nodes):
            running = [node for node in nodes if node in self._local.running()]
            if running:
                self._local.stop(*running)
            self._start(nodes, wait=wait)

    def _start(self, nodes: Iterable[int], *, wait: bool = True) -> None:
        numbers = tuple(nodes)
        try:
            self._local.start(*numbers)
        except OSError as error:
            raise no_room(self._local.folder, error) from error
        if not wait:
            return
        deadline = time.monotonic() + _START_SECONDS
        for number in numbers:
            if not self._processes[number].wait_ready(deadline):
                code = self._processes[number].poll()
                why = (
                    f"was not ready within {_START_SECONDS:g} s"
                    if code is None
                    else f"ended with code {code}"
                )
                raise ClusterError(f"node {number} {why}. Its log ends:\n{self._local.last_lines(number)}")
        self._wait_all_known()

    def _wait_all_known(self) -> None:
        """Return when each serving broker knows all others that serve."""
        serving = self.serving()

        async def question(admin: AdminClient) -> str | None:
            missing = set(serving) - set((await admin.brokers()).live)
            return f"does not know of brokers {sorted(missing)} yet" if missing else None

        self._wait_at_each(serving, question, seconds=_START_SECONDS)

    # Network and disks

    def partition(self, *sides: Collection[int]) -> None:
        """Cut the network between nodes of different sides, such as `partition({1}, {2, 3})`.

        Nodes on no side reach all others, and clients reach every node. Messages between the sides wait for
        the heal, as TCP's do. A new partition replaces the old one.
        """
        side_of = {node: index for index, side in enumerate(sides) for node in side}
        if len(side_of) != sum(map(len, sides)):
            raise ClusterError(f"{sides}: a node is on two sides; name each once")
        with self._disturbing(side_of):
            for node in self.nodes:
                cut_off = (each for each in side_of if node in side_of and side_of[each] != side_of[node])
                unreachable = frozenset(address for each in cut_off for address in self._listeners(each))
                self._set(node, unreachable=unreachable)
            self._wait_applied()

    def slow_disk(self, *nodes: int, sync_ms: int = 500) -> None:
        """Let each sync of a file take `sync_ms` on these nodes. 0: no time, as at the start."""
        with self._disturbing(nodes):
            for node in nodes:
                self._set(node, sync_ms=sync_ms)
            self._wait_applied()

    def fill_disk(self, *nodes: int) -> None:
        """Let no write on these nodes find room, as on a full disk. A node that has ended by it serves again
        after `heal` and `restart`."""
        with self._disturbing(nodes):
            for node in nodes:
                self._set(node, disk_is_full=True)
            self._wait_applied()

    def heal(self) -> None:
        """End the partition, and the faults of all disks. Killed nodes stay killed, paused ones paused."""
        with self._lock:
            for node in self.nodes:
                self._faults[node] = NodeFaults()
                if node in self._processes:
                    self._processes[node].send(self._faults[node])
            self._wait_applied()

    def _set(
        self,
        node: int,
        *,
        unreachable: frozenset[Address] | None = None,
        sync_ms: int | None = None,
        disk_is_full: bool = False,
    ) -> None:
        held = self._faults[node]
        self._faults[node] = NodeFaults(
            unreachable=held.unreachable if unreachable is None else unreachable,
            sync_ms=held.sync_ms if sync_ms is None else sync_ms,
            disk_is_full=disk_is_full or held.disk_is_full,
        )
        self._processes[node].send(self._faults[node])

    def _wait_applied(self) -> None:
        for process in self._processes.values():
            process.wait_applied()

    def _listeners(self, node: int) -> tuple[Address, Address]:
        plan = self._local.node(node)
        return (
            Address(self._local.host, plan.client_port),
            Address(self._local.host, plan.controller_port),
        )

    # Topics

    def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 1,
        replication_factor: int | None = None,
        assignment: Collection[Collection[int]] = (),
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic, and return when every broker that serves knows its leaders.

        `replication_factor`: by default a replica on each node, up to three. `assignment`: the replicas of
        each partition, the preferred leader first, in place of both numbers.
        """
        replicas = min(3, len(self.nodes)) if replication_factor is None else replication_factor
        self._ask(
            partial(
                create_topic,
                topic=topic,
                partitions=partitions,
                replication_factor=replicas,
                assignment=[list(each) for each in assignment],
                configs=list((config or {}).items()),
            )
        )
        count = len(assignment) or partitions

        async def question(admin: AdminClient) -> str | None:
            led = [each.leader_id >= 0 for each in (await self._topic(admin, topic)).partitions]
            return None if led == [True] * count else f"knows {sum(led)} leaders of topic {topic}"

        self._wait_at_each(self.serving(), question, seconds=_WAIT_SECONDS)

    def leader(self, topic: str, partition: int = 0, *, seconds: float = _WAIT_SECONDS) -> int:
        """Return the node that leads a partition.

        A leader that was killed, paused or cut off from the majority is not returned: the call waits up to
        `seconds` for its successor.
        """
        serving = self.serving()
        found = -1

        async def question(admin: AdminClient) -> str | None:
            nonlocal found
            found = int((await self._partition(admin, topic, partition)).leader_id)
            return None if found in serving else f"says that node {found} leads {topic}-{partition}"

        self._wait_at_each(serving[:1], question, seconds=seconds)
        return found

    def isr(self, topic: str, partition: int = 0) -> set[int]:
        """Return the in-sync replicas of a partition."""

        async def ask(admin: AdminClient) -> set[int]:
            return {int(each) for each in (await self._partition(admin, topic, partition)).isr_nodes}

        return self._ask(ask)

    def wait_isr(
        self,
        topic: str,
        partition: int = 0,
        nodes: Collection[int] | None = None,
        *,
        seconds: float = _WAIT_SECONDS,
    ) -> None:
        """Return when the in-sync replicas of a partition are these nodes. Default: all of its replicas."""

        async def question(admin: AdminClient) -> str | None:
            found = await self._partition(admin, topic, partition)
            isr = {int(each) for each in found.isr_nodes}
            wanted = set(found.replica_nodes if nodes is None else nodes)
            return None if isr == wanted else f"says that {topic}-{partition} has the ISR {sorted(isr)}"

        self._wait_at_each(self.serving()[:1], question, seconds=seconds)

    def active_controller(self, *, seconds: float = _WAIT_SECONDS) -> int:
        """Return the node that leads the metadata quorum. As `leader`, it waits for one that serves."""
        serving = self.serving()
        found: int | None = None

        async def question(admin: AdminClient) -> str | None:
            nonlocal found
            found = (await describe_quorum(admin)).leader
            return None if found in serving else f"says that node {found} is the active controller"

        self._wait_at_each(serving[:1], question, seconds=seconds)
        if found is None:
            raise ClusterError("there is no active controller")
        return found

    @staticmethod
    async def _topic(admin: AdminClient, topic: str) -> TopicDescription:
        (found,) = await describe_topics(admin, topic)
        return found

    @classmethod
    async def _partition(
        cls, admin: AdminClient, topic: str, partition: int
    ) -> "DescribeTopicPartitionsResponsePartition":
        found = (await cls._topic(admin, topic)).partitions
        if partition >= len(found):
            raise ClusterError(
                f"topic {topic} has {len(found)} partitions, and none with the number {partition}"
            )
        return found[partition]

    # Questions

    def serving(self) -> tuple[int, ...]:
        """Return the nodes that run, are not paused, and reach the most others. Questions go to them. Raises
        `ClusterError` if there are none."""
        running = [node for node in self._local.running() if not self._processes[node].is_paused]
        if not running:
            raise ClusterError("no node runs; start one with restart")

        def reached(node: int) -> tuple[int, ...]:
            unreachable = self._faults[node].unreachable
            return tuple(each for each in running if not unreachable.intersection(self._listeners(each)))

        return max([reached(node) for node in running], key=len)

    def _ask(
        self,
        action: Callable[[AdminClient], Awaitable[_Answer]],
        *,
        of: Collection[int] = (),
        seconds: float = _WAIT_SECONDS,
    ) -> _Answer:
        """Ask the first of these nodes that answers. Default: those that serve."""
        addresses = [self._address(node) for node in of or self.serving()]

        async def ask() -> _Answer:
            with trio.fail_after(seconds):
                async with open_admin(
                    RealNetwork(),
                    addresses,
                    client_id=_CLIENT_ID,
                    connect_timeout_s=_CONNECT_SECONDS,
                ) as admin:
                    return await action(admin)

        try:
            return _run_on_thread(partial(trio.run, ask))
        except (KafkaError, NetworkError) as error:
            raise ClusterError(str(error)) from error
        except trio.TooSlowError as error:
            raise ClusterError(f"no answer within {seconds:g} s; {self._states()}") from error

    def _wait_at_each(
        self,
        nodes: Collection[int],
        question: Callable[[AdminClient], Awaitable[str | None]],
        *,
        seconds: float,
    ) -> None:
        """Ask each of these nodes until it has no complaint."""
        complaints = dict.fromkeys(nodes, "has not answered")

        async def satisfy(node: int) -> None:
            while True:
                try:
                    async with open_admin(
                        RealNetwork(), [self._address(node)], client_id=_CLIENT_ID
                    ) as admin:
                        while complaint := await question(admin):
                            complaints[node] = complaint
                            await trio.sleep(_POLL_SECONDS)
                    complaints.pop(node, None)
                    return
                except (KafkaError, NetworkError) as error:
                    complaints[node] = str(error)
                    await trio.sleep(_POLL_SECONDS)

        async def satisfy_all() -> None:
            with trio.move_on_after(seconds):
                async with trio.open_nursery() as nursery:
                    for node in nodes:
                        nursery.start_soon(satisfy, node)

        try:
            _run_on_thread(partial(trio.run, satisfy_all))
        except* ClusterError as group:
            raise group.exceptions[0] from None
        if complaints:
            said = "; ".join(f"node {node} {complaint}" for node, complaint in sorted(complaints.items()))
            raise ClusterError(f"not within {seconds:g} s: {said}. {self._states()}")

    def _address(self, node: int) -> Address:
        return self._listeners(node)[0]

    def _running(self, node: int) -> ForkedNode:
        if node not in self._local.running():
            raise ClusterError(f"node {node} does not run; start it with restart({node})")
        return self._processes[node]

    # The slate of the next test

    def begin_test(self) -> None:
        """Let logs and descriptions begin here."""
        self._log_starts = {node.node_id: _size(node.log_file) for node in self._local.nodes}

    def try_clean(self) -> bool:
        """Delete the topics and groups. False: more was changed, so this cluster can't be as new."""
        if self._was_disturbed or self._local.running() != list(self.nodes):
            return False
        try:
            deleted = self._ask(self._clean, seconds=_CLEAN_SECONDS)
            if deleted:

                async def question(admin: AdminClient) -> str | None:
                    left = deleted.intersection(await topic_names(admin))
                    return f"still has topics {sorted(left)}" if left else None

                self._wait_at_each(self.nodes, question, seconds=_CLEAN_SECONDS)
        except ClusterError:
            return False
        return deleted is not None

    async def _clean(self, admin: AdminClient) -> set[str] | None:
        """Return the topics that were deleted. None: there is more to clean."""
        topics: set[str] = set()
        left: list[object] = []

        async def delete_all_topics() -> None:
            async with trio.open_nursery() as deletions:
                for topic in await describe_topics(admin, None):
                    if not topic.internal:
                        topics.add(topic.name)
                        deletions.start_soon(delete_topic, admin, topic.name)

        async def delete_all_groups() -> None:
            groups = [each.group_id for each in await list_groups(admin)]
            left.extend(error for error in (await delete_groups(admin, groups)).values() if error.value)

        async def find_quotas() -> None:
            left.extend(await list_quotas(admin, QuotaOwner({})))

        async def find_configs(broker: str) -> None:
            left.extend(await describe_configs(admin, Entity(EntityType.BROKERS, broker), everything=False))

        try:
            async with trio.open_nursery() as nursery:
                for step in (delete_all_topics, delete_all_groups, find_quotas):
                    nursery.start_soon(step)
                for name in (*map(str, self.nodes), ""):
                    nursery.start_soon(find_configs, name)
        except* (KafkaError, NetworkError) as errors:
            left.append(errors)
        return None if left else topics

    def stop(self) -> None:
        """Kill all nodes, and remove their data."""
        with self._lock:
            self._local.kill_all()
            shutil.rmtree(self._local.folder, ignore_errors=True)

    # Descriptions

    def log(self, node: int) -> str:
        """Return the node's log since the test began."""
        with self._local.node(node).log_file.open(errors="replace") as file:
            file.seek(self._log_starts.get(node, 0))
            return file.read()

    def describe(self) -> str:
        """Return the state of the nodes, the quorum and the topics in lines, as failed tests show it."""
        lines = [self._state(node) for node in self.nodes]
        try:
            lines.append(self._ask(_described, seconds=_DESCRIBE_SECONDS))
        except ClusterError as error:
            lines.append(f"the cluster does not answer: {error}")
        return "\n".join(lines)

    def describe_as(self, node: int) -> str:
        """Return the topics as one node knows them, which may be cut off from the others."""
        return self._ask(_described_topics, of=(node,))

    def _state(self, node: int) -> str:
        process, faults = self._processes[node], self._faults[node]
        code = process.poll()
        state = "runs" if code is None else f"ended with code {code}"
        states = ["paused" if process.is_paused and code is None else state]
        cut_off = [each for each in self.nodes if faults.unreachable.intersection(self._listeners(each))]
        if cut_off:
            states.append(f"cut off from {', '.join(map(str, cut_off))}")
        if faults.sync_ms:
            states.append(f"syncs take {faults.sync_ms} ms")
        if faults.disk_is_full:
            states.append("disk full")
        return f"node {node} at {self._address(node)}: {'; '.join(states)}"

    def _states(self) -> str:
        return "; ".join(map(self._state, self.nodes))

    @contextmanager
    def _disturbing(self, nodes: Iterable[int]) -> Iterator[None]:
        """Check the names of the nodes, and remember that this cluster is no longer as new."""
        unknown = sorted(set(nodes) - set(self.nodes))
        if unknown:
            raise ClusterError(
                f"there is no node {unknown[0]}; the nodes are {', '.join(map(str, self.nodes))}"
            )
        with self._lock:
            self._was_disturbed = True
            yield


async def _described(admin: AdminClient) -> str:
    quorum = await describe_quorum(admin)
    topics = await _described_topics(admin)
    return f"active controller: node {quorum.leader}, epoch {quorum.epoch}\n{topics}".rstrip()


async def _described_topics(admin: AdminClient) -> str:
    return "\n".join(
        f"{topic.name}-{each.partition_index}: leader {each.leader_id}, ISR {list(each.isr_nodes)}, "
        f"replicas {list(each.replica_nodes)}"
        for topic in await describe_topics(admin, None)
        if not topic.internal
        for each in topic.partitions
    )


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _run_on_thread(function: Callable[[], _Answer]) -> _Answer:
    """Run a function that runs an event loop: this thread's may be running."""
    answers: list[_Answer] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="quorate-testing", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return answers[0]
