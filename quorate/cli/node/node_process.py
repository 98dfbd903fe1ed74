"""A node in the foreground, and the command line that starts it.

`quorate server start FILE` is read here, without the library that reads all others: that one and what it
needs take 10 MiB of every node.
"""

import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from quorate.cli.console.cli_errors import CommandError, user_errors, wrong_usage

if TYPE_CHECKING:
    from quorate.broker.node_config.server_config import ServerConfig
    from quorate.broker.server import BrokerServer
    from quorate.runtime import Runtime


def load_config(path: Path) -> "ServerConfig":
    """Load a configuration. On an error, exit with the file, the line, the problem and the remedy."""
    from quorate.broker.node_config.properties_file import ServerConfigError
    from quorate.broker.node_config.server_config import ServerConfig

    with user_errors():
        try:
            text = path.read_text()
        except UnicodeDecodeError as error:
            raise wrong_usage(
                f"{path}, byte {error.start}: it is not text; is this a properties file?"
            ) from None
        try:
            return ServerConfig.parse(text)
        except ServerConfigError as error:
            raise wrong_usage(f"{path}: {error}") from None


class LogLevel(Enum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def configure_logging(level: LogLevel, *, as_json: bool) -> None:
    """Log to standard error, one line per event; of other libraries, warnings and errors."""
    import logging

    from quorate.cli.node.log_lines import JsonFormatter, TextFormatter
    from quorate.runtime import AUDIT_LOGGER, ROOT

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter(colors=sys.stderr.isatty()))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for name in (ROOT, AUDIT_LOGGER):
        logging.getLogger(name).setLevel(level.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStart:
    """The arguments of `quorate server start`."""

    config: Path
    log_level: LogLevel = LogLevel.INFO
    log_json: bool = False

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> "NodeStart | None":
        """Read `arguments` (as `sys.argv`). None for anything but a complete and right `server start`."""
        if tuple(arguments[1:3]) != ("server", "start"):
            return None
        configs: list[Path] = []
        level, as_json = LogLevel.INFO, False
        left = list(arguments[3:])
        while left:
            match left.pop(0).partition("="):
                case ("--log-json", "", ""):
                    as_json = True
                case ("--log-level", "", "") if left and left[0] in _LEVELS:
                    level = LogLevel(left.pop(0))
                case ("--log-level", "=", name) if name in _LEVELS:
                    level = LogLevel(name)
                case (name, separator, rest) if not name.startswith("-"):
                    configs.append(Path(f"{name}{separator}{rest}"))
                case _:
                    return None
        if len(configs) != 1 or not configs[0].is_file():
            return None
        return cls(config=configs[0], log_level=level, log_json=as_json)


_LEVELS = frozenset(level.value for level in LogLevel)


def run_node(asked: NodeStart) -> None:
    """Run a node until SIGINT or SIGTERM, which stop it in order."""
    server_config = load_config(asked.config)
    configure_logging(asked.log_level, as_json=asked.log_json)
    run_until_ended(partial(run_server, server_config))


def run_until_ended(serve: Callable[[], Awaitable[None]]) -> None:
    """Run a node's event loop. An error that the user can act on is printed and raises `CommandExit`."""
    with user_errors():
        import trio

        from quorate.runtime.real import raise_soft_limit, short_collections

        raise_soft_limit()
        with short_collections():
            trio.run(serve)


async def run_server(
    config: "ServerConfig",
    *,
    runtime: "Runtime | None" = None,
    beside: "Callable[[BrokerServer], Awaitable[None]] | None" = None,
) -> None:
    """Serve until a signal. A second signal ends the process at once and raises `CommandError`. `runtime`: as
    `BrokerServer.open` has it. `beside`: runs while the node does."""
    import signal

    import trio

    from quorate.broker.server import BrokerServer
    from quorate.broker.settings.topic_config import MIN_INSYNC_REPLICAS
    from quorate.health import PageDiagnosis
    from quorate.runtime import get_logger
    from quorate.runtime.real import give_back_freed_memory, watch_slow_steps

    log = get_logger("quorate.server")
    stopped_at_once = False
    health = PageDiagnosis(default_min_isr=int(config.static.get(MIN_INSYNC_REPLICAS.name, 1)))
    with (
        trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals,
        watch_slow_steps(config.debug.slow_step_ms),
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
            nursery.start_soon(give_back_freed_memory)
            async with BrokerServer.open(config, runtime=runtime, health=health) as node:
                print(listening_line(node), flush=True)
                if beside is not None:
                    nursery.start_soon(beside, node)
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
        scheme = "https" if config.metrics.keystore else "http"
        places.append(f"metrics at {scheme}://{node.metrics_address}/metrics")
    return f"node {config.node_id} of cluster {node.cluster_id} listens: {'; '.join(places)}"
