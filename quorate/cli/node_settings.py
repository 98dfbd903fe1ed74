"""The settings that `quorate cluster start --config` hands to every node."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from quorate.broker.node_config import ServerConfig, ServerConfigError
from quorate.cli.cli_errors import CommandError, ExitCode

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
        "metrics.http.port": "--metrics-port",
        "node.id": "--nodes",
        "broker.id": "--nodes",
        "process.roles": "--nodes",
    }
)
"""Keys that differ by node, or that a local cluster is made of: the options that decide them."""
_LISTENERS: Final = ("advertised.listeners", "inter.broker.listener.name", "listener.security.protocol.map")


class NodeSettingError(CommandError):
    """A setting can't be handed to every node; the message names the key and the remedy."""

    code = ExitCode.USAGE


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
    try:
        ServerConfig.parse("\n".join(f"{key}={value}" for key, value in (_SAMPLE | settings).items()))
    except ServerConfigError as error:
        raise NodeSettingError(f"--config {_without_line(error)}") from error
    return settings


_SAMPLE: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:19092",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:19092",
    # As `LocalCluster` sets them, because others are checked against them.
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
}


def _without_line(error: ServerConfigError) -> str:
    """Return the error without its line, which is in a file made for each node."""
    text = str(error)
    return text if error.line is None else text.partition(": ")[2]
