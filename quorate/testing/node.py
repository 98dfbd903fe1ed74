"""A node for tests: the one that `quorate server start` runs, on a runtime with faults."""

import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from quorate.cli.console.cli_errors import CommandExit
from quorate.cli.node.node_process import (
    LogLevel,
    configure_logging,
    load_config,
    run_server,
    run_until_ended,
)
from quorate.testing.faults import MESSAGE_MAX_BYTES, READY, FaultyRuntime, NodeFaults

if TYPE_CHECKING:
    from quorate.broker.server import BrokerServer


def run(config_file: Path, control: socket.socket) -> int:
    """Run the node until SIGTERM. Return its exit code.

    `control` brings `NodeFaults`, the first of them before the node opens. It takes the number of those that
    hold, and `READY` when the node serves.
    """
    try:
        config = load_config(config_file)
        configure_logging(LogLevel.INFO, as_json=False)
        faulty = FaultyRuntime()
        _apply(faulty, control, control.recv(MESSAGE_MAX_BYTES))

        async def tell_and_obey(server: "BrokerServer") -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_obey, faulty, control)
                await server.wait_ready()
                control.send(READY)

        run_until_ended(partial(run_server, config, runtime=faulty.runtime, beside=tell_and_obey))
    except CommandExit as ended:
        return ended.code
    return 0


async def _obey(faulty: FaultyRuntime, control: socket.socket) -> None:
    while True:
        await trio.lowlevel.wait_readable(control)
        message = control.recv(MESSAGE_MAX_BYTES)
        if not message:
            # The test run has ended, and the host of this process kills it.
            return
        _apply(faulty, control, message)


def _apply(faulty: FaultyRuntime, control: socket.socket, message: bytes) -> None:
    number, faults = NodeFaults.decode(message)
    faulty.apply(faults)
    control.send(b"%d" % number)
