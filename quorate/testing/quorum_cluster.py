"""A quorum of a test's own state machine in the hands of the test."""

import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol
from uuid import uuid4

import trio

from quorate import aio, blocking, client
from quorate.cli.console.cli_errors import CommandError
from quorate.cli.node.free_ports import free_ports
from quorate.raft import Appended, OutcomeUnknownError, QuorumConfigError
from quorate.raft.transport.channel import Channel
from quorate.raft.transport.description_frames import QuorumView
from quorate.runtime import Address, NetworkError
from quorate.runtime.real import RealNetwork
from quorate.testing.cluster_error import ClusterError
from quorate.testing.forked_cluster import ForkedCluster, run_on_thread
from quorate.testing.importable import Importable
from quorate.testing.node_host import NodeFiles, NodeHost, NodeProgram, no_room
from quorate.testing.quorum_node import QuorumPlan

_HOST: Final = "127.0.0.1"
_WAIT_SECONDS: Final = 30.0
_DESCRIBE_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 1.0
_POLL_SECONDS: Final = 0.005
_MAX_FRAME_BYTES: Final = 1024 * 1024


class QuorumCluster(ForkedCluster):
    """Nodes 1 to n of a quorum, each a process. The fixture `quorum_cluster` starts them.

    Methods block, most for milliseconds, and may be called from any thread. In a coroutine, call those that
    wait as `await asyncio.to_thread(cluster.leader)` or `await trio.to_thread.run_sync(cluster.leader)`, so
    that the loop goes on.

    All raise `ClusterError`.
    """

    def __init__(
        self,
        host: NodeHost,
        folder: Path,
        *,
        nodes: int,
        state_machine: object,
        reads: object,
        config: Mapping[str, int],
    ) -> None:
        super().__init__(host, folder, nodes=nodes)
        self.cluster_id = str(uuid4())
        try:
            ports = free_ports(2 * nodes)
        except CommandError as error:
            raise ClusterError(str(error)) from error
        self._ports = dict(zip(self.nodes, ports[:nodes], strict=True))
        self._client_ports = dict(zip(self.nodes, ports[nodes:], strict=True))
        plan = partial(
            QuorumPlan,
            cluster_id=self.cluster_id,
            voters=",".join(f"{node}@{_HOST}:{port}" for node, port in self._ports.items()),
            state_machine=Importable.of(state_machine, "the state machine"),
            reads=None if reads is None else Importable.of(reads, "reads"),
            config=config,
            path=tuple(sys.path),
        )
        try:
            for node in self.nodes:
                files = self._files(node)
                planned = plan(node=node, client_port=self._client_ports[node])
                planned.quorum_config(files.config_file.parent)
                files.config_file.parent.mkdir(parents=True)
                files.config_file.write_text(planned.encode())
        except (TypeError, QuorumConfigError) as error:
            raise ClusterError(f"config: {error}") from error
        except OSError as error:
            raise no_room(folder, error) from error
        self._start_all()

    def _files(self, node: int) -> NodeFiles:
        folder = self._folder / str(node)
        return NodeFiles(NodeProgram.QUORUM_NODE, folder / "node.json", folder / "node.log")

    def _listeners(self, node: int) -> tuple[Address, ...]:
        return (Address(_HOST, self._ports[node]),)

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The client listeners of all nodes, for `Client.open` and for other processes."""
        return tuple(Address(_HOST, port) for port in self._client_ports.values())

    def client(self) -> "ClusterClient":
        """Return a client to open: `with cluster.client() as client` on a thread, `async with` in a coroutine
        of trio or asyncio."""
        return ClusterClient(self.addresses, self.cluster_id)

    def leader(self, *, seconds: float = _WAIT_SECONDS) -> int:
        """Return the node that leads.

        A leader that was killed, paused or cut off from the majority is not returned: the call waits up to
        `seconds` for its successor.
        """
        return self._leader(seconds=seconds)[0]

    def _leader(self, *, seconds: float) -> tuple[int, QuorumView]:
        serving = self.serving()
        deadline = time.monotonic() + seconds
        while True:
            views = run_on_thread(lambda: trio.run(self._ask, serving))
            leading = {node: view for node, view in views.items() if view.description is not None}
            if leading:
                return max(leading.items(), key=lambda each: each[1].epoch)
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"not within {seconds:g} s: no node of {list(serving)} leads. {self._states()}"
                )
            time.sleep(_POLL_SECONDS)

    async def _ask(self, nodes: Collection[int]) -> dict[int, QuorumView]:
        """Return what each node that answers knows of the quorum."""
        views: dict[int, QuorumView] = {}

        async def ask(node: int) -> None:
            with trio.move_on_after(_ANSWER_SECONDS):
                try:
                    channel = await Channel.connect(
                        RealNetwork(),
                        self._listeners(node)[0],
                        cluster_id=self.cluster_id,
                        max_frame_bytes=_MAX_FRAME_BYTES,
                        max_append_bytes=_MAX_FRAME_BYTES,
                    )
                except NetworkError:
                    return
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(channel.run)
                    with suppress(OutcomeUnknownError):
                        views[node] = await channel.describe_quorum()
                    nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            for node in nodes:
                nursery.start_soon(ask, node)
        return views

    def _described(self) -> str:
        node, view = self._leader(seconds=_DESCRIBE_SECONDS)
        lines = [f"leader: node {node}, epoch {view.epoch}"]
        if view.description is not None:
            lines[0] += f", high watermark {view.description.high_watermark}"
            lines += [
                f"node {voter.key.id}: log end offset {voter.log_end_offset}"
                for voter in view.description.voters
            ]
        return "\n".join(lines)


class AsyncClient(Protocol):
    """The client of a coroutine: `quorate.client.Client` or `quorate.aio.Client`."""

    async def append(self, records: Sequence[bytes], *, timeout_ms: int = 10_000) -> Appended[object]: ...

    async def read(self, query: bytes, *, timeout_ms: int = 10_000) -> bytes: ...


class ClusterClient:
    """A client of a `QuorumCluster`, to open once."""

    __slots__ = ("_addresses", "_cluster_id", "_open", "_open_async")

    def __init__(self, addresses: Collection[Address], cluster_id: str) -> None:
        self._addresses = tuple(addresses)
        self._cluster_id = cluster_id
        self._open = ExitStack()
        self._open_async = AsyncExitStack()

    def __enter__(self) -> blocking.Client:
        return self._open.enter_context(blocking.Client.open(self._addresses, cluster_id=self._cluster_id))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._open.__exit__(kind, error, trace)

    async def __aenter__(self) -> AsyncClient:
        if trio.lowlevel.in_trio_task():
            return await self._open_async.enter_async_context(
                client.Client.open(self._addresses, cluster_id=self._cluster_id)
            )
        return await self._open_async.enter_async_context(
            aio.Client.open(self._addresses, cluster_id=self._cluster_id)
        )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._open_async.__aexit__(kind, error, trace)
