"""Reading a node's server.properties for a command."""

from pathlib import Path
from typing import TYPE_CHECKING

from quorate.cli.cli_errors import ExitCode, fail, user_errors

if TYPE_CHECKING:
    from quorate.broker.node_config import ServerConfig


def load_config(path: Path) -> "ServerConfig":
    """Load a configuration. On an error, exit with the file, the line, the problem and the remedy."""
    from quorate.broker.node_config import ServerConfig, ServerConfigError

    with user_errors():
        try:
            text = path.read_text()
        except UnicodeDecodeError as error:
            raise fail(
                f"{path}, byte {error.start}: it is not text; is this a properties file?", ExitCode.USAGE
            ) from None
        try:
            return ServerConfig.parse(text)
        except ServerConfigError as error:
            raise fail(f"{path}: {error}", ExitCode.USAGE) from None
