"""`quorate server`: one node in the foreground."""

import logging
import signal
import sys
from pathlib import Path
from typing import Annotated

import structlog
import trio
import typer

from quorate.broker.config import ServerConfig
from quorate.cli.errors import user_errors

app = typer.Typer(no_args_is_help=True, help="One node.")


def configure_logging(level: str, *, as_json: bool) -> None:
    """Logs go to standard error, one line per event."""
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


@app.callback()
def server() -> None:
    """One node."""


@app.command(epilog="Example: quorate server start server.properties")
def start(
    config: Annotated[Path, typer.Argument(help="server.properties.", exists=True, dir_okay=False)],
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    log_json: Annotated[bool, typer.Option("--log-json", help="Log lines as JSON.")] = False,
) -> None:
    """Run a node until SIGINT or SIGTERM, which shut it down in order."""
    with user_errors():
        server_config = ServerConfig.parse(config.read_text())
        configure_logging(log_level, as_json=log_json)
        trio.run(run_server, server_config)


async def run_server(config: ServerConfig) -> None:
    """Serve until a signal. A second signal ends the process at once."""
    from quorate.broker.server import BrokerServer

    log = structlog.get_logger("quorate.server")
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        stopping = trio.CancelScope()

        async def stop_on_signal() -> None:
            async for number in signals:
                if stopping.cancel_called:
                    log.warning("stopping at once", signal=signal.Signals(number).name)
                    nursery.cancel_scope.cancel()
                    return
                log.info("shutting down", signal=signal.Signals(number).name)
                stopping.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop_on_signal)
            async with BrokerServer.open(config):
                log.info("started", node=config.node_id)
                with stopping:
                    await trio.sleep_forever()
            nursery.cancel_scope.cancel()
