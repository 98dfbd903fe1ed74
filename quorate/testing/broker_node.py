"""A broker for tests: the node that `quorate server start` runs, on a runtime with faults."""

import importlib
import socket
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from quorate.cli.console.cli_errors import CommandExit
from quorate.cli.node.node_process import (
    LogLevel,
    configure_logging,
    load_config,
    run_server,
    run_until_ended,
)
from quorate.testing.faults import FaultyRuntime

if TYPE_CHECKING:
    from quorate.broker.server import BrokerServer

_PRELOADED: Final = ("quorate.broker.server", "quorate.cli.node.log_lines")


def preload() -> None:
    # kio makes Hypothesis strategies of its types wherever it finds Hypothesis.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    for module in _PRELOADED:
        importlib.import_module(module)


def run(config_file: Path, control: socket.socket) -> int:
    """Run the node until SIGTERM. Return its exit code."""
    try:
        config = load_config(config_file)
        configure_logging(LogLevel.INFO, as_json=False)
        faulty = FaultyRuntime(control)

        async def report_and_obey(server: "BrokerServer") -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(faulty.obey)
                await server.wait_ready()
                faulty.report_ready()

        run_until_ended(partial(run_server, config, runtime=faulty.runtime, beside=report_and_obey))
    except CommandExit as ended:
        return ended.code
    return 0
