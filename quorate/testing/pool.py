"""The clusters of a test run: kept between tests, and each as new for the next one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from quorate.testing.node_host import NodeHost, NodeProgram

if TYPE_CHECKING:
    from quorate.raft import PlainStateMachine, StateMachine
    from quorate.testing.kafka_cluster import KafkaCluster
    from quorate.testing.quorum_cluster import QuorumCluster

    AnyStateMachine = PlainStateMachine[object] | StateMachine[object]

_IDLE_MAX: Final = 2
"""The most clusters that are kept for later tests. Each node takes some 60 MiB."""


class StartKafkaCluster(Protocol):
    """The type of the fixture `kafka_cluster`."""

    def __call__(
        self, nodes: int = 3, *, config: Mapping[str, str] | None = None, secure: bool = False
    ) -> "KafkaCluster":
        """Return a cluster of `nodes` brokers that serve, without topics. `config`: keys of server.properties
        for all of them. `secure`: connections are encrypted, clients log in, and ACLs say what each may do.
        That needs the extra `certs`. Raises `ClusterError`."""
        ...


class StartQuorumCluster(Protocol):
    """The type of the fixture `quorum_cluster`."""

    def __call__(
        self,
        state_machine: "Callable[[], AnyStateMachine] | str",
        nodes: int = 3,
        *,
        reads: "Callable[..., bytes] | str | None" = None,
        config: Mapping[str, int] | None = None,
    ) -> "QuorumCluster":
        """Return a new quorum of `nodes` nodes that know a leader.

        `state_machine`: a class at the top of a module, which each node makes an object of, or its name
        `module:Class`. Clients append in sessions. `reads`: the function, or its name, that answers a read
        of a client from the state machine and the query, such as a method of the class. `config`: more
        fields of `QuorumConfig`. Raises `ClusterError`.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Shape:
    nodes: int
    config: tuple[tuple[str, str], ...]
    secure: bool


@dataclass(slots=True)
class ClusterPool:
    """Lends clusters. Close it, or end the process: no node and no file is left behind."""

    _idle: "list[tuple[_Shape, KafkaCluster]]" = field(default_factory=list)
    _lent: "dict[KafkaCluster, _Shape]" = field(default_factory=dict)
    _host: NodeHost | None = None
    _numbers: "count[int]" = field(default_factory=count)

    def lend(
        self, nodes: int = 3, *, config: Mapping[str, str] | None = None, secure: bool = False
    ) -> "KafkaCluster":
        """Return a cluster that is as new, one that was used before if there is one of this shape."""
        shape = _Shape(nodes, tuple(sorted((config or {}).items())), secure)
        kept = next((each for each in self._idle if each[0] == shape), None)
        if kept is not None:
            self._idle.remove(kept)
        cluster = self._start_brokers(shape) if kept is None else kept[1]
        self._lent[cluster] = shape
        cluster.begin_test()
        return cluster

    def _start_brokers(self, shape: _Shape) -> "KafkaCluster":
        host = self._running_host(NodeProgram.BROKER)
        # While the host imports what nodes need: that takes as long.
        from quorate.testing.kafka_cluster import KafkaCluster

        return KafkaCluster(
            host,
            self._next_folder(host),
            nodes=shape.nodes,
            config=dict(shape.config),
            secure=shape.secure,
        )

    def start_quorum(
        self,
        state_machine: object,
        nodes: int = 3,
        *,
        reads: object = None,
        config: Mapping[str, int] | None = None,
    ) -> "QuorumCluster":
        """Start a quorum as `StartQuorumCluster`. It is not lent: `stop` it."""
        host = self._running_host(NodeProgram.QUORUM_NODE)
        from quorate.testing.quorum_cluster import QuorumCluster

        return QuorumCluster(
            host,
            self._next_folder(host),
            nodes=nodes,
            state_machine=state_machine,
            reads=reads,
            config=config or {},
        )

    def _running_host(self, program: NodeProgram) -> NodeHost:
        if self._host is None:
            self._host = NodeHost(program)
        return self._host

    def _next_folder(self, host: NodeHost) -> Path:
        return host.folder / str(next(self._numbers))

    def take_back(self, cluster: "KafkaCluster") -> None:
        """Clean a cluster for the next test, or stop one that can't be cleaned."""
        shape = self._lent.pop(cluster)
        if not cluster.try_clean():
            cluster.stop()
            return
        self._idle.append((shape, cluster))
        if len(self._idle) > _IDLE_MAX:
            self._idle.pop(0)[1].stop()

    def close(self) -> None:
        """Kill all nodes and remove their data."""
        if self._host is not None:
            self._host.close()
            self._host = None
            self._idle.clear()
