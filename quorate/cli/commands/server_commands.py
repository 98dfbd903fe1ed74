"""`quorate server`: one node in the foreground."""

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.cli.cli_errors import CommandError, user_errors
from quorate.cli.config_file import load_config

if TYPE_CHECKING:
    from quorate.broker import BrokerServer
    from quorate.broker.settings import ServerConfig

app = typer.Typer(
    no_args_is_help=True, help="One node.", epilog="Example: quorate server start server.properties"
)


class LogLevel(Enum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def configure_logging(level: LogLevel, *, as_json: bool) -> None:
    """Log to standard error, one line per event; of other libraries, warnings and errors."""
    import logging
    import sys

    from quorate.cli.log_lines import JsonFormatter, TextFormatter

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter(colors=sys.stderr.isatty()))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("quorate").setLevel(level.name)


@app.callback()
def server() -> None:
    """One node."""


@app.command(epilog="Example: quorate server start server.properties --log-json")
def start(
    config: Annotated[Path, typer.Argument(help="server.properties.", exists=True, dir_okay=False)],
    log_level: Annotated[LogLevel, typer.Option(help="The lowest level of logged events.")] = (LogLevel.INFO),
    log_json: Annotated[bool, typer.Option("--log-json", help="Log in JSON.")] = False,
) -> None:
    """Run a node until SIGINT or SIGTERM, which stop it in order.

    It prints a line to standard output when it listens, and logs to standard error. A second signal ends it
    at once.
    """
    server_config = load_config(config)
    configure_logging(log_level, as_json=log_json)
    with user_errors():
        import trio

        from quorate.runtime.real import raise_soft_limit, short_collections

        raise_soft_limit()
        with short_collections():
            trio.run(run_server, server_config)


async def run_server(config: "ServerConfig") -> None:
    """Serve until a signal. A second signal ends the process at once and raises `CommandError`."""
    import signal

    import trio

    from quorate.broker import BrokerServer
    from quorate.runtime import get_logger
    from quorate.runtime.real import watch_slow_steps

    log = get_logger("quorate.server")
    stopped_at_once = False
    with (
        trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals,
        watch_slow_steps(config.int("quorate.slow.step.ms")),
    ):
        stopping = trio.CancelScope()

        async def stop_on_signal() -> None:
            nonlocal stopped_at_once
            async for number in signals:
                if stopping.cancel_called:
                    log.warning("stopping at once", signal=signal.Signals(number).name)
                    stopped_at_once = True
                    nursery.cancel_scope.cancel()
                    return
                log.info("shutting down", signal=signal.Signals(number).name)
                stopping.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop_on_signal)
            async with BrokerServer.open(config) as node:
                typer.echo(listening_line(node))
                with stopping:
                    await trio.sleep_forever()
            nursery.cancel_scope.cancel()
    if stopped_at_once:
        raise CommandError("stopped at once, not in order; the next start recovers what was not written")
    log.info("stopped", node=config.node_id)


def listening_line(node: "BrokerServer") -> str:
    """Return the line that announces a node's addresses."""
    config = node.config
    places = []
    if node.broker is not None:
        clients = ", ".join(f"{each.host}:{each.port}" for each in node.broker.advertised)
        places.append(f"clients at {clients}")
    if config.controller_listener is not None:
        places.append(f"the quorum at {config.controller_listener.address}")
    if node.metrics_address is not None:
        places.append(f"metrics at http://{node.metrics_address}/metrics")
    return f"node {config.node_id} of cluster {node.cluster_id} listens: {'; '.join(places)}"
