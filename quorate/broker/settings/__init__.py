"""server.properties: its keys, their values, and the parsed configuration of a node."""

from quorate.broker.settings.config_keys import RACK_AWARE
from quorate.broker.settings.server_config import CONFIG_KEYS, ServerConfig, ServerConfigError

__all__ = ["CONFIG_KEYS", "RACK_AWARE", "ServerConfig", "ServerConfigError"]
