"""A cluster of real processes on this machine, in one folder."""

import json
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import trio

from quorate.broker.admin.brokers import live_brokers
from quorate.broker.admin.quorum import describe_quorum, quorum_as_dict
from quorate.broker.admin.topics import describe_topics, topic_as_dict
from quorate.broker.node_config.first_records import write_first_records
from quorate.broker.node_config.properties_file import ServerConfigError
from quorate.broker.node_config.server_config import ServerConfig
from quorate.cli.console.cli_errors import CommandError, ExitCode, UsageError
from quorate.cli.console.command_config import network_by
from quorate.cli.console.connections import ask_cluster
from quorate.cli.node.free_ports import free_ports
from quorate.cli.node.node_processes import NodeProcess, stop_in_order
from quorate.cli.node.secured_cluster import BROKERS, CLIENTS, ClusterSecrets
from quorate.quorum_state import load_meta_properties
from quorate.raft.storage.storage import LOCK_FILE, format_folder
from quorate.runtime import DiskLockedError, Network, NetworkError, Runtime, uuid_text
from quorate.runtime.real import SyncStrategy, real_runtime
from quorate.types import Endpoint, NodeId, ReplicaKey, Voter, VoterSet

if TYPE_CHECKING:
    import threading

CLUSTER_FILE = "cluster.json"


class LocalClusterError(CommandError):
    """The cluster can't be started or did not come up. The message names the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """The addresses and the folder of one node."""

    node_id: int
    folder: Path
    client_port: int
    controller_port: int
    metrics_port: int
    broker_port: int
    """That of a protected cluster by which its brokers reach each other."""

    @property
    def config_file(self) -> Path:
        return self.folder / "server.properties"

    @property
    def log_file(self) -> Path:
        return self.folder / "server.log"


def _start_process(node: NodePlan) -> NodeProcess:
    with node.log_file.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "quorate.cli.main", "server", "start", str(node.config_file)],
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            # Ctrl-C in the terminal is for us; we stop the nodes in order.
            start_new_session=True,
        )


@dataclass(slots=True)
class LocalCluster:
    """Nodes 1 to n, each `process.roles=broker,controller`, as processes of `quorate server start`.

    Not a supervisor: a node that dies stays dead until `start` is called again.
    """

    folder: Path
    nodes: tuple[NodePlan, ...]
    host: str = "127.0.0.1"
    secure: bool = False
    """True: nodes and clients know each other, and what they say is encrypted."""
    voters: int | None = None
    """The number of first voters, with the voters in the log, where they can be changed (KIP-853); None: all
    nodes vote, by the configuration."""
    overrides: Mapping[str, str] = field(default_factory=dict)
    """More server.properties keys, for every node."""
    _processes: dict[int, NodeProcess] = field(default_factory=dict)
    _wanted: set[int] = field(default_factory=set)
    """The nodes that were started, and not stopped or killed by us."""

    @classmethod
    def plan(
        cls,
        folder: Path,
        *,
        nodes: int = 3,
        client_port: int = 9092,
        controller_port: int = 19092,
        metrics_port: int = 7071,
        voters: int | None = None,
        secure: bool = False,
        overrides: Mapping[str, str] | None = None,
    ) -> "LocalCluster":
        """Plan consecutive ports from the given ones; the brokers' own are behind those of the controllers.
        Port 0 everywhere means: choose free ones."""
        folder = folder.resolve()
        if client_port:
            firsts = (client_port, controller_port, metrics_port, controller_port + nodes)
            ports = [tuple(first + n for first in firsts) for n in range(nodes)]
        else:
            free = free_ports(4 * nodes)
            ports = [tuple(free[4 * n : 4 * n + 4]) for n in range(nodes)]
        plans = tuple(
            NodePlan(
                node_id=number,
                folder=folder / str(number),
                client_port=client,
                controller_port=controller,
                metrics_port=metrics,
                broker_port=broker,
            )
            for number, (client, controller, metrics, broker) in enumerate(ports, start=1)
        )
        return cls(folder=folder, nodes=plans, voters=voters, secure=secure, overrides=dict(overrides or {}))

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{self.host}:{node.client_port}" for node in self.nodes)

    def metrics_url(self, node: int) -> str:
        return f"{self.page_url(node)}/metrics"

    def page_url(self, node: int) -> str:
        """Return where the node's page is."""
        return f"{'https' if self.secure else 'http'}://{self.host}:{self.node(node).metrics_port}"

    def node(self, number: int) -> NodePlan:
        return next(node for node in self.nodes if node.node_id == number)

    def pid(self, node: int) -> int:
        """Return the process id of a running node."""
        return self._processes[node].pid

    def running(self) -> list[int]:
        return [number for number, process in sorted(self._processes.items()) if process.poll() is None]

    def ended(self) -> list[int]:
        """Return the nodes that ended by themselves."""
        return [number for number in sorted(self._wanted) if self._processes[number].poll() is not None]

    # Preparing

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other clusters off the folder meanwhile. Raises `LocalClusterError`."""
        disk = real_runtime(sync=SyncStrategy.INLINE).disk
        # Before the file of the lock: a folder that is not empty is refused.
        self._remember()
        try:
            lock = disk.lock(str(self.folder / LOCK_FILE))
        except DiskLockedError:
            raise LocalClusterError(
                f"another cluster runs in {self.folder}; stop it, or choose another folder with --data",
                ExitCode.STORAGE,
            ) from None
        try:
            yield
        finally:
            lock.release()

    def prepare(self) -> str:
        """Write the configuration and format new folders. Return the cluster id. Existing data is kept.

        Raises `LocalClusterError` when the folder is another cluster's size, and `QuorumStateError` when a
        node's folder can't be used.
        """
        cluster_id = self._remember()
        if self.secure:
            entropy = real_runtime(sync=SyncStrategy.INLINE).entropy
            numbers = [node.node_id for node in self.nodes]
            self.secrets.create(cluster_id, numbers, self.host, entropy)
        for node in self.nodes:
            try:
                node.folder.mkdir(parents=True, exist_ok=True)
                node.config_file.write_text(self.properties_of(node))
            except OSError as error:
                raise _not_writable(node.folder, error) from error
        trio.run(self._format, cluster_id)
        return cluster_id

    @property
    def secrets(self) -> ClusterSecrets:
        """The certificates and client files of a protected cluster."""
        return ClusterSecrets.of(self.folder)

    def network(self) -> Network:
        """Return the network by which the cluster's administrator reaches it, at `_address`."""
        return network_by(self.secrets.certificate_file if self.secure else None)

    def _address(self, node: int) -> str:
        plan = self.node(node)
        return f"{self.host}:{plan.broker_port if self.secure else plan.client_port}"

    def _remember(self) -> str:
        path = self.folder / CLUSTER_FILE
        if path.exists():
            match _read_json(path):
                case {"cluster_id": str(cluster_id), "nodes": int(nodes), **rest}:
                    in_log = rest.get("voters") is not None
                    secure = rest.get("secure") is True
                case _:
                    raise LocalClusterError(
                        f"{path} can't be read; restore it, or choose another folder", ExitCode.STORAGE
                    )
            if nodes != len(self.nodes):
                raise LocalClusterError(
                    f"{self.folder} holds a cluster of {nodes} nodes, not {len(self.nodes)}; "
                    f"start it with --nodes {nodes}, or choose another folder with --data",
                    ExitCode.USAGE,
                )
            if in_log != (self.voters is not None):
                remedy = "log; start it with" if in_log else "configuration; start it without"
                raise LocalClusterError(
                    f"{self.folder} holds a cluster whose voters are in its {remedy} --voters, or choose "
                    "another folder with --data",
                    ExitCode.USAGE,
                )
            if secure != self.secure:
                raise LocalClusterError(
                    f"{self.folder} holds a cluster that is {'' if secure else 'not '}protected; start it "
                    f"{'with' if secure else 'without'} --secure, or choose another folder with --data",
                    ExitCode.USAGE,
                )
            return cluster_id
        if self.folder.exists() and not self.folder.is_dir():
            raise LocalClusterError(
                f"{self.folder} is no folder; choose another one with --data", ExitCode.STORAGE
            )
        if self.folder.exists() and any(self.folder.iterdir()):
            raise LocalClusterError(
                f"{self.folder} is not empty and holds no cluster; choose another folder with --data",
                ExitCode.STORAGE,
            )
        cluster_id = uuid_text(real_runtime(sync=SyncStrategy.INLINE).entropy.uuid())
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            kept = {
                "cluster_id": cluster_id,
                "nodes": len(self.nodes),
                "voters": self.voters,
                "secure": self.secure,
            }
            path.write_text(json.dumps(kept))
        except OSError as error:
            raise _not_writable(self.folder, error) from error
        return cluster_id

    def properties_of(self, node: NodePlan) -> str:
        """Return the server.properties of a node."""
        controllers = [f"{self.host}:{each.controller_port}" for each in self.nodes]
        quorum = (
            {"controller.quorum.bootstrap.servers": ",".join(controllers)}
            if self.voters is not None
            else {
                "controller.quorum.voters": ",".join(
                    f"{each.node_id}@{address}" for each, address in zip(self.nodes, controllers, strict=True)
                )
            }
        )
        replicas = min(3, len(self.nodes))
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(node.node_id),
            **quorum,
            "listeners": ",".join(f"{name}://{self.host}:{port}" for name, port in self._listeners(node)),
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(node.folder / "data"),
            "metrics.http.host": self.host,
            "metrics.http.port": str(node.metrics_port),
            "metrics.http.page.peers": ",".join(
                f"{each.node_id}@{self.page_url(each.node_id)}" for each in self.nodes
            ),
            "default.replication.factor": str(replicas),
            "offsets.topic.replication.factor": str(replicas),
            "min.insync.replicas": str(max(1, replicas - 1)),
            # All nodes share a machine, where silence means death sooner than between machines.
            "broker.heartbeat.interval.ms": "500",
            "broker.session.timeout.ms": "3000",
            # As in Kafka's own quick start.
            "group.initial.rebalance.delay.ms": "0",
            **(self.secrets.settings_of(node.node_id) if self.secure else {}),
            **self.overrides,
        }
        return "".join(f"{key}={value}\n" for key, value in settings.items())

    def _listeners(self, node: NodePlan) -> Sequence[tuple[str, int]]:
        controllers = ("CONTROLLER", node.controller_port)
        if not self.secure:
            return (("PLAINTEXT", node.client_port), controllers)
        return ((CLIENTS, node.client_port), (BROKERS, node.broker_port), controllers)

    async def _format(self, cluster_id: str) -> None:
        runtime = real_runtime(sync=SyncStrategy.INLINE)
        # A disk that a cluster lost comes back empty, and the voters are in the other nodes' logs.
        is_new = not any((node.folder / "data").exists() for node in self.nodes)
        first = self._first_voters(runtime) if is_new else None
        users = self.secrets.first_users(runtime) if is_new and self.secure else ()
        for node in self.nodes:
            folder = str(node.folder / "data")
            if not (node.folder / "data").exists():
                node_id = NodeId(node.node_id)
                voters = first if first is not None and node_id in first else None
                await format_folder(runtime, folder, cluster_id=cluster_id, node_id=node_id, voters=voters)
                await write_first_records(runtime.disk, folder, users)
            else:
                load_meta_properties(runtime.disk, folder).check(
                    folder, cluster_id=cluster_id, node_id=node.node_id
                )

    def _first_voters(self, runtime: Runtime) -> VoterSet | None:
        if self.voters is None:
            return None
        return VoterSet(
            tuple(
                Voter(
                    ReplicaKey(NodeId(node.node_id), uuid_text(runtime.entropy.uuid())),
                    Endpoint(self.host, node.controller_port),
                )
                for node in self.nodes[: self.voters]
            )
        )

    # Processes

    def start(self, *numbers: int) -> None:
        """Start nodes (all by default) that don't run. Returns at once; see `wait_ready`."""
        for number in numbers or tuple(node.node_id for node in self.nodes):
            if number in self.running():
                continue
            node = self.node(number)
            self._wanted.add(number)
            self._processes[number] = _start_process(node)

    def wait_ready(self, *, seconds: float = 30.0, stop: "threading.Event | None" = None) -> None:
        """Return when every node that was started serves clients and is unfenced, or when `stop` is set.

        Raises `LocalClusterError` when one exits or time runs out, with its last log lines.
        """
        deadline = time.monotonic() + seconds
        while stop is None or not stop.is_set():
            for number in self.ended():
                raise LocalClusterError(
                    f"node {number} exited with code {self._processes[number].returncode}:\n"
                    f"{self.last_lines(number)}"
                )
            live = self.live_brokers()
            if live >= self._wanted:
                return
            if time.monotonic() > deadline:
                number = min(self._wanted - live)
                raise LocalClusterError(
                    f"the cluster was not ready within {seconds:g} s; "
                    f"node {number} says:\n{self.last_lines(number)}",
                    ExitCode.UNAVAILABLE,
                )
            time.sleep(0.05)

    def live_brokers(self) -> set[int]:
        """Return the running nodes that serve clients and report themselves unfenced. Other nodes' reports on
        a restarted node may be of its earlier life."""
        live: set[int] = set()
        for number in self.running():
            try:
                known = ask_cluster(self._address(number), live_brokers, through=self.network())
            except NetworkError:
                continue
            if number in known:
                live.add(number)
        return live

    def last_lines(self, node: int, count: int = 15) -> str:
        try:
            return "\n".join(self.node(node).log_file.read_text(errors="replace").splitlines()[-count:])
        except FileNotFoundError:
            return "(no log)"

    def kill(self, node: int) -> None:
        """Send SIGKILL, and wait until the node has ended."""
        self._wanted.discard(node)
        self._processes[node].send_signal(signal.SIGKILL)
        self._processes[node].wait()

    def signal(self, node: int, number: signal.Signals) -> None:
        self._processes[node].send_signal(number)

    def stop(self, *numbers: int, seconds: float = 30.0) -> dict[int, int]:
        """Stop nodes (all by default) as `stop_in_order`."""
        stopping = numbers or tuple(self.running())
        self._wanted.difference_update(stopping)
        return stop_in_order({number: self._processes[number] for number in stopping}, seconds=seconds)

    def kill_all(self) -> None:
        """Kill all nodes."""
        for number in self.running():
            self.kill(number)

    # Descriptions

    def as_dict(self, cluster_id: str, *, pid: Callable[[int], int] | None = None) -> dict[str, object]:
        """Return the running cluster for programs. `pid`: returns a node's process id. None: that of the
        process that was started here."""
        pid_of = pid or self.pid
        nodes = [
            {
                "id": node.node_id,
                "pid": pid_of(node.node_id),
                "client": f"{self.host}:{node.client_port}",
                "controller": f"{self.host}:{node.controller_port}",
                "metrics": self.metrics_url(node.node_id),
                "folder": str(node.folder),
                "log": str(node.log_file),
            }
            for node in self.nodes
        ]
        described: dict[str, object] = {
            "clusterId": cluster_id,
            "bootstrapServers": self.bootstrap,
            "nodes": nodes,
        }
        return described | ({"metricsToken": str(self.secrets.metrics_token)} if self.secure else {})

    def describe_quorum(self) -> dict[str, object]:
        return quorum_as_dict(ask_cluster(self._live_bootstrap(), describe_quorum, through=self.network()))

    def describe_topic(self, topic: str) -> dict[str, object]:
        topics = ask_cluster(
            self._live_bootstrap(), lambda admin: describe_topics(admin, topic), through=self.network()
        )
        return topic_as_dict(topics[0])

    def _live_bootstrap(self) -> str:
        live: Sequence[int] = self.running()
        return ",".join(map(self._address, live)) or self.bootstrap

    def metrics(self, node: int) -> str:
        """Return the node's /metrics page. Raises `NetworkError`."""
        request = urllib.request.Request(self.metrics_url(node))
        context = None
        try:
            if self.secure:
                token = self.secrets.metrics_token.read_text().strip()
                request.add_header("Authorization", f"Bearer {token}")
                context = ssl.create_default_context(cafile=str(self.secrets.authorities))
            with urllib.request.urlopen(request, timeout=5, context=context) as response:
                return str(response.read().decode())
        except (urllib.error.URLError, OSError) as error:
            raise NetworkError(f"{self.metrics_url(node)}: {error}") from error


def _not_writable(folder: Path, error: OSError) -> LocalClusterError:
    return LocalClusterError(
        f"{folder} can't be written: {error.strerror}; choose a folder that can with --data",
        ExitCode.STORAGE,
    )


def _read_json(path: Path) -> object:
    try:
        read: object = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return read


# The settings that every node is given


_OPTIONS: Final = MappingProxyType(
    {
        "controller.listener.names": "--controller-port",
        "controller.quorum.bootstrap.servers": "--controller-port and --voters",
        "controller.quorum.voters": "--controller-port and --voters",
        "listeners": "--port and --controller-port",
        "log.dir": "--data",
        "log.dirs": "--data",
        "metadata.log.dir": "--data",
        "metrics.http.host": "--metrics-port",
        "metrics.http.page.peers": "--metrics-port",
        "metrics.http.port": "--metrics-port",
        "node.id": "--nodes",
        "broker.id": "--nodes",
        "process.roles": "--nodes",
    }
)
"""Keys that differ by node, or that a local cluster is made of: the options that decide them."""
_LISTENERS: Final = ("advertised.listeners", "inter.broker.listener.name", "listener.security.protocol.map")


class NodeSettingError(UsageError):
    """A setting can't be handed to every node; the message names the key and the remedy."""


def parse_settings(given: Sequence[str]) -> Mapping[str, str]:
    """Parse `key=value` each. Raises `NodeSettingError`."""
    settings: dict[str, str] = {}
    for item in given:
        key, separator, value = (part.strip() for part in item.partition("="))
        if not separator or not key:
            raise NodeSettingError(f"--config {item}: write key=value, such as --config num.partitions=4")
        if key in _OPTIONS:
            raise NodeSettingError(
                f"--config {key}: each node of a local cluster has its own; {_OPTIONS[key]} decides it"
            )
        if key in _LISTENERS:
            raise NodeSettingError(
                f"--config {key}: a local cluster has one listener for clients and one for the quorum; write "
                "a server.properties for a node with others, and start it with quorate server start"
            )
        if key in settings:
            raise NodeSettingError(f"--config {key} is there twice; keep one of the two")
        settings[key] = value
    sample = LocalCluster.plan(Path("sample"), nodes=1, overrides=settings)
    try:
        ServerConfig.parse(sample.properties_of(sample.nodes[0]))
    except ServerConfigError as error:
        raise NodeSettingError(f"--config {_without_line(error)}") from error
    return settings


def _without_line(error: ServerConfigError) -> str:
    """Return the error without its line, which is in a file made for each node."""
    text = str(error)
    return text if error.line is None else text.partition(": ")[2]
