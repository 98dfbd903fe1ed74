"""`--command-config`: how a command reaches a protected cluster, in the keys of Kafka's clients."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from quorate.cli.console.cli_errors import wrong_usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from quorate.runtime import Network

_OPTION_NAME: Final = "--command-config"


def network_by(path: Path | None) -> "Network":
    """Return the network that connects as the file says; None: without protection. Exits with the key that is
    wrong."""
    if path is None:
        from quorate.runtime.real import RealNetwork

        return RealNetwork()
    from quorate.broker.wire.client_protection import ClientNetwork, ClientProtectionError

    try:
        return ClientNetwork(read_command_config(path))
    except ClientProtectionError as error:
        raise wrong_usage(f"{_OPTION_NAME} {path}: {error}") from None


def read_command_config(path: Path) -> "Mapping[str, str]":
    """Return the keys of a file. Exits if it can't be read."""
    import javaproperties

    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise wrong_usage(f"{_OPTION_NAME} {path}: it can't be read ({error})") from None
    try:
        return {key: value.strip() for key, value in javaproperties.loads(text).items()}
    except ValueError as error:
        raise wrong_usage(f"{_OPTION_NAME} {path}: {error}") from None
