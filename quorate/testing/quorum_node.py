"""A node for tests: a quorum of the test's own state machine, on a runtime with faults."""

import contextlib
import importlib
import json
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final, cast

import trio

from quorate.cli.node.node_process import LogLevel, configure_logging
from quorate.raft import (
    NodeId,
    Quorum,
    QuorumConfig,
    QuorumError,
    Sessions,
    StateMachine,
    format_folder,
    parse_voters,
)
from quorate.runtime import Address
from quorate.testing.cluster_error import ClusterError
from quorate.testing.faults import FaultyRuntime
from quorate.testing.importable import Importable

Machine = StateMachine[object]
Reads = Callable[[bytes], bytes]

_PRELOADED: Final = ("quorate.cli.node.log_lines", "quorate.runtime.real.real_network")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumPlan:
    """The configuration of a node, in a file."""

    node: int
    cluster_id: str
    voters: str
    client_port: int
    state_machine: Importable
    reads: Importable | None
    """The function of a state machine and a query that answers the reads of clients."""
    config: Mapping[str, int]
    """More fields of `QuorumConfig`."""
    path: tuple[str, ...]
    """Where the node imports from."""

    def encode(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, text: str) -> "QuorumPlan":
        fields = json.loads(text)
        reads = fields.pop("reads")
        return cls(
            state_machine=Importable(**fields.pop("state_machine")),
            reads=None if reads is None else Importable(**reads),
            **fields,
        )

    def quorum_config(self, folder: Path) -> QuorumConfig:
        """Raises `TypeError` for an unknown field of `config`, and `QuorumConfigError`."""
        return QuorumConfig(
            node_id=NodeId(self.node),
            cluster_id=self.cluster_id,
            folder=str(folder),
            voters=parse_voters(self.voters),
            client_listen=Address("127.0.0.1", self.client_port),
            **self.config,  # type: ignore[arg-type]
        )


def preload() -> None:
    for module in _PRELOADED:
        importlib.import_module(module)


def run(config_file: Path, control: socket.socket) -> int:
    """Run the node until SIGTERM. Return its exit code."""
    plan = QuorumPlan.decode(config_file.read_text())
    configure_logging(LogLevel.INFO, as_json=False)
    if sys.modules.get("hypothesis", control) is None:
        # Brokers do not need it; the test's own module may.
        del sys.modules["hypothesis"]
    sys.path[:] = plan.path
    try:
        machine = cast("Callable[[], Machine]", plan.state_machine.load())()
        reads: Reads | None = None
        if plan.reads is not None:
            reads = partial(cast("Callable[[Machine, bytes], bytes]", plan.reads.load()), machine)
        trio.run(_serve, plan.quorum_config(config_file.parent / "data"), machine, reads, control)
    except (ClusterError, QuorumError) as single:
        return _end_by(single)
    except BaseExceptionGroup as group:
        errors, others = group.split((ClusterError, QuorumError))
        if others is not None or errors is None:
            raise
        error: BaseException = errors
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        return _end_by(error)
    return 0


def _end_by(error: BaseException) -> int:
    cause = f": {error.__cause__}" if error.__cause__ is not None else ""
    print(f"quorate: {error}{cause}", file=sys.stderr, flush=True)
    return 1


async def _serve(config: QuorumConfig, machine: Machine, reads: Reads | None, control: socket.socket) -> None:
    faulty = FaultyRuntime(control)
    if not faulty.runtime.disk.exists(f"{config.folder}/meta.properties"):
        await format_folder(
            faulty.runtime, config.folder, cluster_id=config.cluster_id, node_id=config.node_id
        )
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(faulty.obey)
            async with Quorum.open(config, Sessions(machine), runtime=faulty.runtime) as quorum:
                quorum.serve_reads(reads)
                nursery.start_soon(_report_ready, quorum, faulty)
                await anext(aiter(signals))
            nursery.cancel_scope.cancel()


async def _report_ready(quorum: Quorum[object], faulty: FaultyRuntime) -> None:
    with contextlib.suppress(QuorumError):
        await quorum.wait_leader()
        faulty.report_ready()
