"""server.properties: its keys, their values, and the parsed configuration of a node."""

from quorate.broker.settings.config_keys import CONFIG_KEYS, RACK_AWARE
from quorate.broker.settings.properties_file import ServerConfigError
from quorate.broker.settings.server_config import ServerConfig

__all__ = ["CONFIG_KEYS", "RACK_AWARE", "ServerConfig", "ServerConfigError"]
