"""The work of the demo's operator between the records: look, wait, move, drain, and read the lag."""

import time
from collections.abc import Callable

import trio

from quorate.broker.admin.admin_client import AdminClient, TopicPartition
from quorate.broker.admin.groups import describe_group, partition_views
from quorate.broker.admin.replicas import read_cluster
from quorate.broker.admin.topics import topic_names
from quorate.broker.metadata.states import PartitionState
from quorate.cli.console.cli_errors import CommandError
from quorate.cli.console.connections import ask_cluster, parse_addresses
from quorate.cli.images.replay import Moment, Replay
from quorate.cli.node.local_cluster import LocalCluster
from quorate.cli.reassigning.draining import Drain
from quorate.cli.reassigning.moves import begin_moves
from quorate.cli.state_changes.change_requests import read_requests
from quorate.cli.state_changes.cluster_reports import changes_request, read_reports
from quorate.cli.state_changes.lives import Life, join, narrow
from quorate.history import ClusterLog

_SECONDS = 30.0
_POLL_SECONDS = 0.1


class DemoError(CommandError):
    """A comparison did not hold."""


class DemoPartition:
    """Partition 0 of the demo's topic, as an operator looks at it and moves it."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._key = TopicPartition(topic, 0)

    def wait_known(self) -> None:
        """Return when every broker knows it: CreateTopics is answered at its commit, before each broker has
        applied it. Raises `DemoError` after half a minute."""

        def is_known() -> bool:
            return all(
                self._topic in ask_cluster(each, topic_names) for each in self._cluster.bootstrap.split(",")
            )

        self._wait(is_known, f"not every broker has heard of topic {self._topic}", 1)

    def leader(self) -> int:
        """Return the broker that leads it."""
        (leader,) = self._ids("leader")
        return leader

    def replicas(self) -> list[int]:
        """Return its brokers, in order of preference."""
        return self._ids("replicas")

    def wait_in_sync(self, node: int) -> list[int]:
        """Return the ISR when `node` is in it. Raises `DemoError` after half a minute."""
        self._wait(lambda: node in self._ids("isr"), f"node {node} did not return to the ISR", node)
        return sorted(self._ids("isr"))

    def move(self, target: list[int]) -> None:
        """Let it have these replicas, and return when it has. Raises `DemoError`."""

        async def begin(admin: AdminClient) -> dict[TopicPartition, str]:
            view = await read_cluster(admin)
            return await begin_moves(admin, view, {self._key: tuple(target)}, throttle=None)

        refused = ask_cluster(self._cluster.bootstrap, begin)
        if refused:
            raise DemoError(f"the move was refused: {refused[self._key]}")
        self._wait(lambda: self.replicas() == target, f"the replicas did not become {target}", target[0])

    def lag(self, group: str) -> int | None:
        """Return how many records the group has not committed yet; None if it has committed none."""

        async def ask(admin: AdminClient) -> int | None:
            found = await describe_group(admin, group)
            views = [] if found is None else await partition_views(admin, found)
            return next((view.lag for view in views if view.topic == self._topic), None)

        return ask_cluster(self._cluster.bootstrap, ask)

    def as_it_was(self, last_offset: int) -> PartitionState:
        """Return its state as of an offset of the metadata log. Raises `DemoError`."""
        replay = Replay(self._history(), warn=lambda _: None)
        replay.move_to(Moment(last_offset=last_offset))
        topic = replay.image.topic(self._topic)
        state = None if topic is None else replay.image.partition(topic.topic_id, 0)
        if state is None:
            raise DemoError(f"the metadata at offset {last_offset} don't have topic {self._topic}")
        return state

    def metadata_offset(self) -> int:
        """Return the offset of the last committed record of the metadata."""
        end = self._history().extent().end_offset
        return end - 1

    def state_changes(self) -> list[Life]:
        """Return the changes of its replicas that were requested so far, each with what the brokers made of
        it, when none is open any more. Raises `DemoError`."""
        lives: list[Life] = []

        def are_done() -> bool:
            lives[:] = self._lives()
            return bool(lives) and not any(part.open for life in lives for part in life.parts)

        self._wait(are_done, "some state changes are still open", self.leader())
        return lives

    def _lives(self) -> list[Life]:
        request = changes_request(self._topic, 0, pending_only=False)
        reports = ask_cluster(
            self._cluster.bootstrap, lambda admin: read_reports(admin, request, timeout_s=_SECONDS)
        )
        addresses = parse_addresses(self._cluster.bootstrap)
        read = read_requests(addresses, since_ms=None, timeout_ms=int(_SECONDS * 1000))
        lives = join(read.requests, reports, names=read.names, now_ms=int(time.time() * 1000))
        return narrow(lives, topic=self._topic, partition=0, broker=None, pending=False)

    def _history(self) -> ClusterLog:
        return ClusterLog(bootstrap_servers=tuple(parse_addresses(self._cluster.bootstrap)))

    def _ids(self, name: str) -> list[int]:
        partitions = self._cluster.describe_topic(self._topic)["partitions"]
        assert isinstance(partitions, list)  # noqa: S101 (for the type checker)
        found = partitions[0][name]
        return [int(each) for each in found] if isinstance(found, list) else [int(found)]

    def _wait(self, holds: Callable[[], bool], problem: str, node: int) -> None:
        deadline = time.monotonic() + _SECONDS
        while not holds():
            if time.monotonic() > deadline:
                said = self._cluster.last_lines(node)
                raise DemoError(f"{problem} within {_SECONDS:g} s; node {node} says:\n{said}")
            time.sleep(_POLL_SECONDS)


def drain(cluster: LocalCluster, node: int) -> int:
    """Move everything off a broker. Return how many replicas were there. Raises `DemoError` if any still
    is."""
    said: list[str] = []
    before = _replicas_on(cluster, node)

    async def run(admin: AdminClient) -> None:
        with trio.fail_after(_SECONDS):
            await Drain(node, throttle=None, wait=True, wait_for_down=False, say=said.append).run(admin)

    ask_cluster(cluster.bootstrap, run)
    left = _replicas_on(cluster, node)
    if left:
        raise DemoError(f"broker {node} still has {left} replicas: {said}")
    return before


def _replicas_on(cluster: LocalCluster, node: int) -> int:
    async def count(admin: AdminClient) -> int:
        view = await read_cluster(admin)
        return sum(node in map(int, state.replica_nodes) for state in view.partitions.values())

    return ask_cluster(cluster.bootstrap, count)
