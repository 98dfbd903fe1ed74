"""server.properties: the keys, what they take, and what was read."""

from quorate.broker.settings.server_config import CONFIG_KEYS, ServerConfig, ServerConfigError

__all__ = ["CONFIG_KEYS", "ServerConfig", "ServerConfigError"]
