"""The configuration of a node: its server.properties, checked and read into the settings of its parts."""

from quorate.broker.node_config.properties_file import ServerConfigError
from quorate.broker.node_config.server_config import ServerConfig

__all__ = ["ServerConfig", "ServerConfigError"]
