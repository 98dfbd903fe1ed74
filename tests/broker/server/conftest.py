"""Nodes in this process, on real sockets and folders."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TypeAlias

import pytest
import trio

from quorate.broker.node_config.server_config import ServerConfig
from quorate.broker.server import BrokerServer
from quorate.broker.wire.kafka_client import WireClient, open_client
from quorate.cli.node.free_ports import free_ports
from quorate.raft.storage.storage import format_folder
from quorate.runtime.network import Address
from quorate.runtime.real import RealNetwork, SyncStrategy, real_runtime
from quorate.types import NodeId


class Nodes:
    """A cluster of combined nodes, each started and stopped by itself."""

    def __init__(self, folder: Path, nursery: trio.Nursery, count: int, settings: dict[str, str]) -> None:
        self._folder = folder
        self._nursery = nursery
        ports = free_ports(2 * count)
        self._controllers, self._clients = ports[:count], ports[count:]
        self._settings = settings
        self._stops: dict[int, tuple[trio.Event, trio.CancelScope, trio.Event]] = {}
        self.count = count
        self.servers: dict[int, BrokerServer] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self._clients[node - 1]}" for node in self.servers)

    def address(self, node: int) -> Address:
        return Address("127.0.0.1", self._clients[node - 1])

    def controller_address(self, node: int) -> Address:
        return Address("127.0.0.1", self._controllers[node - 1])

    def override(self, key: str, value: str) -> None:
        """Set `key` of the nodes that are started from now on."""
        self._settings = self._settings | {key: value}

    def config(self, node: int) -> ServerConfig:
        voters = ",".join(f"{n + 1}@127.0.0.1:{port}" for n, port in enumerate(self._controllers))
        values = {
            "process.roles": "broker,controller",
            "node.id": str(node),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": voters,
            "controller.quorum.election.timeout.ms": "300",
            "controller.quorum.fetch.timeout.ms": "600",
            "listeners": f"PLAINTEXT://127.0.0.1:{self._clients[node - 1]},"
            f"CONTROLLER://127.0.0.1:{self._controllers[node - 1]}",
            "log.dirs": str(self._folder / f"node-{node}"),
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "4",
            "broker.heartbeat.interval.ms": "200",
            "broker.session.timeout.ms": "2000",
        } | self._settings
        return ServerConfig.parse("\n".join(f"{key}={value}" for key, value in values.items()))

    async def format(self) -> None:
        runtime = real_runtime(sync=SyncStrategy.THREAD)
        for node in range(1, self.count + 1):
            await format_folder(
                runtime, str(self._folder / f"node-{node}"), cluster_id="test-cluster", node_id=NodeId(node)
            )

    async def start(self, node: int) -> BrokerServer:
        server: BrokerServer = await self._nursery.start(self._run, node)
        return server

    async def _run(self, node: int, *, task_status: trio.TaskStatus[BrokerServer]) -> None:
        stop, stopped = trio.Event(), trio.Event()
        try:
            with trio.CancelScope() as scope:
                async with BrokerServer.open(self.config(node)) as server:
                    self._stops[node] = (stop, scope, stopped)
                    self.servers[node] = server
                    task_status.started(server)
                    await stop.wait()
        finally:
            self.servers.pop(node, None)
            stopped.set()

    async def stop(self, node: int) -> None:
        """Stop the node in order."""
        stop, _, stopped = self._stops[node]
        stop.set()
        await stopped.wait()

    async def crash(self, node: int) -> None:
        """End the node without notice. Its folder is as a killed process leaves it, but for file locks."""
        _, scope, stopped = self._stops[node]
        scope.cancel()
        await stopped.wait()

    async def start_all(self) -> "Nodes":
        await self.format()
        for node in range(1, self.count + 1):
            await self.start(node)
        for server in list(self.servers.values()):
            await server.wait_ready()
        return self

    async def stop_all(self) -> None:
        async with trio.open_nursery() as nursery:
            for node in list(self.servers):
                nursery.start_soon(self.stop, node)

    def client(self, node: int, *, client_id: str = "quorate") -> AbstractAsyncContextManager[WireClient]:
        """A connection to a broker."""
        return open_client(RealNetwork(), self.address(node), client_id=client_id, timeout_s=20)

    def controller_client(self, node: int) -> AbstractAsyncContextManager[WireClient]:
        """A connection to the listener of a controller."""
        return open_client(RealNetwork(), self.controller_address(node), timeout_s=10)


MakeNodes: TypeAlias = Callable[..., Awaitable[Nodes]]


@pytest.fixture
async def make_nodes(tmp_path: Path) -> AsyncIterator[MakeNodes]:
    """`await make_nodes(3, **{"key": "value"})` starts a cluster and waits until it serves."""
    async with trio.open_nursery() as nursery:
        made: list[Nodes] = []

        async def make(count: int, settings: dict[str, str] | None = None, *, start: bool = True) -> Nodes:
            nodes = Nodes(tmp_path, nursery, count, settings or {})
            made.append(nodes)
            if start:
                with trio.fail_after(20):
                    await nodes.start_all()
            return nodes

        yield make
        with trio.fail_after(20):
            for nodes in made:
                await nodes.stop_all()
        nursery.cancel_scope.cancel()


@pytest.fixture
async def nodes(make_nodes: MakeNodes) -> Nodes:
    """One node that serves."""
    return await make_nodes(1)


@pytest.fixture
async def client(nodes: Nodes) -> AsyncIterator[WireClient]:
    """A connection to the broker of `nodes`."""
    async with nodes.client(1) as client:
        yield client
